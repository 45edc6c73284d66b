"""The generator of the page of benchmarks, from a tiny run to the page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from tests.bench import __main__ as bench
from tests.bench import cli_start
from tests.bench.machine import describe_machine
from tests.bench.page.__main__ import write_page
from tests.bench.page.figures import (
    Curve,
    Figure,
    Machine,
    Snapshot,
    UnreadableResultsError,
    read_results,
    read_snapshot,
    to_figure,
)
from tests.bench.page.render import GROWTH, LIMITS, PEERS, render_files
from tests.bench.page.svg import Bar, draw_bars, format_size, format_value

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = Machine(cpu="A processor", instructions="AVX2", cores=2)

GROWTH_CURVE = {
    "name": "queue_page",
    "what": "a page of the queue",
    "x": "items",
    "unit": "ms",
    "points": [{"x": 1_000, "value": 2.0}, {"x": 1_000_000, "value": 30.0}],
    "exponent": 0.392,
    "is_linear": True,
    "goal": "≤ 20 at 1,000,000",
    "meets_goal": False,
    "detail": {},
}


def make_figure(name: str, suite: str, **fields: Any) -> Figure:
    return Figure.model_validate(
        {"name": name, "suite": suite, "what": "a over b", "ratio": 1.0, **fields, "machine": MACHINE}
    )


def make_result(**detail: Any) -> dict[str, Any]:
    return {"name": "a_vs_b", "suite": "s", "ratio": 2.0, "machine": MACHINE.model_dump(), "detail": detail}


def test_a_tiny_run_becomes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_start, "ROUNDS", 2)
    monkeypatch.setattr(bench, "RESULTS_PATH", tmp_path / ".bench" / "results.json")
    monkeypatch.setattr("sys.argv", ["tests.bench", "cli_start"])
    assert bench.main() == 0
    write_page(tmp_path, tmp_path / ".bench")
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    (figure,) = read_snapshot(tmp_path / "benchmarks.json").figures
    assert f"| `cli_start_vs_python` | {figure.what} | {format_value(figure.ratio)} |" in page
    assert "2 rounds" in page
    assert describe_machine()["cpu"] in page


def test_a_second_run_of_a_suite_replaces_its_figures_and_leaves_the_others(tmp_path: Path) -> None:
    old = Snapshot(note="of a laptop", figures=[make_figure("old", "rest"), make_figure("kept", "state")])
    merged = old.merge(Snapshot(figures=[make_figure("new", "rest")]))
    assert {figure.name for figure in merged.figures} == {"kept", "new"}
    assert "one run. of a laptop" in render_files(merged)["benchmarks.md"]


def test_the_page_is_the_same_when_it_is_written_again(tmp_path: Path) -> None:
    docs, measured = tmp_path / "docs", tmp_path / "measured"
    docs.mkdir()
    measured.mkdir()
    (measured / "results.json").write_text(json.dumps([make_result(what="a over b", ratios=[1.5, 2.0, 3.25])]))
    (measured / "growth.json").write_text(json.dumps([GROWTH_CURVE]))
    write_page(docs, measured)
    before = {path: path.read_bytes() for path in docs.rglob("*.*")}
    write_page(docs, measured)
    assert {path: path.read_bytes() for path in docs.rglob("*.*")} == before
    page = (docs / "benchmarks.md").read_text(encoding="utf-8")
    assert (
        "| a page of the queue | items | ms: 1 k: 2.00, 1 M: 30.0 | 0.39 | linear or better | ≤ 20 at 1,000,000, missed |"
        in page
    )
    (measured / "growth.json").write_text("[{}]")
    with pytest.raises(UnreadableResultsError, match=r"growth\.json"):
        write_page(docs, measured)


@pytest.mark.parametrize(
    ("detail", "rates"),
    [
        ({"sentences_per_s": [3.0, 1.0, 2.0]}, {"sentences_per_s": (1.0, 2.0, 3.0)}),
        ({"raw_sentences_per_s": {"median": 2.0, "least": 1.0, "most": 3.0}}, {"raw_sentences_per_s": (1.0, 2.0, 3.0)}),
        ({"sentences_per_s": {"ours": [2.0], "its": [1.0, 3.0]}}, {"ours": (2.0, 2.0, 2.0), "its": (1.0, 2.0, 3.0)}),
        ({"seconds": [1.0]}, {}),
    ],
)
def test_rates_are_read_in_each_form(detail: dict[str, Any], rates: dict[str, tuple[float, ...]]) -> None:
    figure = to_figure(make_result(**detail))
    assert {name: (rate.least, rate.median, rate.most) for name, rate in figure.rates.items()} == rates


def test_a_figure_without_rounds_says_one_run() -> None:
    page = render_files(Snapshot(figures=[make_figure("a_vs_b", "unknown_suite")]))["benchmarks.md"]
    assert "## Unknown suite" in page
    assert "| `a_vs_b` | a over b | 1.00 | one run |" in page


def test_speeds_come_from_the_rates_of_their_figures() -> None:
    rates = {"requests_per_s": {"median": 537.3, "least": 531.5, "most": 546.6}}
    figures = [
        make_figure("rest_32_clients_vs_raw_ort", "rest", rates=rates),
        make_figure("kafka_vs_raw_ort", "stream"),
    ]
    page = render_files(Snapshot(figures=figures))["benchmarks.md"]
    assert f"measured on {MACHINE}." in page
    rows = [line for line in page.splitlines() if "| `python -m tests.bench" in line]
    assert rows == [
        "| REST, 32 clients on one core, one process on both | 537 | 532 to 547 | `python -m tests.bench rest` |"
    ]
    assert "sentences per second" not in render_files(Snapshot())["benchmarks.md"]


def test_results_of_another_form_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('[{"name": "a", "ratio": 1, "detail": {}}]')
    with pytest.raises(UnreadableResultsError, match=r"results\.json"):
        read_results(path)
    path.write_text('{"figures": [{"name": 1}]}')
    with pytest.raises(UnreadableResultsError, match=r"results\.json"):
        read_snapshot(path)


def test_plots_are_valid_svg_and_only_those_with_data_are_drawn() -> None:
    curve = Curve(name="c", what="review <queue>", x="items", y="ms", points=[(1e3, 2.0), (1e6, 20.0)])
    rates = {"ours & theirs": {"median": 2.0, "least": 1.0, "most": 3.0}}
    figures = [make_figure("kafka_vs_raw_ort", "stream"), make_figure("x", "peers", rates=rates)]
    full = render_files(Snapshot(figures=figures, curves=[curve]))
    assert {LIMITS, PEERS, GROWTH} < full.keys()
    for path in (LIMITS, PEERS, GROWTH):
        assert ET.fromstring(full[path]).tag.endswith("svg")  # noqa: S314 - our own text
        assert path in full["benchmarks.md"]
    assert render_files(Snapshot()).keys() == {"benchmarks.md"}


def test_bars_keep_their_proportions() -> None:
    root = ET.fromstring(draw_bars("t", [Bar("a", 4.0, 3.0, 5.0), Bar("b", 2.0, 2.0, 2.0)]))  # noqa: S314 - our own text
    widths = [float(each.get("width", 0)) for each in root.iter() if each.get("class") == "mark" and each.get("width")]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)


def test_sizes_are_short() -> None:
    assert [format_size(value) for value in (5, 1_000, 200_000, 1e6)] == ["5", "1 k", "200 k", "1 M"]
