"""The suite of graphs: a tiny run of all of them, what is checked of each, and how figures are made of CPU seconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import onnx
import onnxruntime as ort
import pytest

from service.inference.model.default import find_default_model
from service.inference.providers import CPU_ONLY
from tests.bench import __main__ as bench
from tests.bench import graphs
from tests.bench.graph_variants import SCRIPTS, write_forms
from tests.bench.page.__main__ import write_page
from tests.bench.page.figures import to_figure
from tests.bench.page.render import GRAPHS
from tests.bench.pipeline import COPIES
from tests.bench.pipeline import read_sample as read_whole_sample
from tests.support.model_scripts import import_scripts
from tests.support.tiny_models import make_graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

N_SENTENCES = 12
MAX_PROBE_SUBWORDS = 33
NAMES = ("exact", "light", "light_exact", *graphs.FORMS, "level_all", "exact_level_all")


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, Any]]:
    with import_scripts("verify", *SCRIPTS) as modules:
        yield modules


@pytest.fixture
def tiny_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds over few sentences, short probes, and no provider but the CPU, whatever is installed."""
    load_probes = graphs.load_probes
    monkeypatch.setattr(graphs, "ROUNDS", 2)
    monkeypatch.setattr(graphs, "CHECKED_SENTENCES", 6)
    monkeypatch.setattr(graphs, "read_sample", lambda: read_whole_sample()[: COPIES * N_SENTENCES])
    monkeypatch.setattr(
        graphs, "load_probes", lambda *given: [p for p in load_probes(*given) if len(p.ids) <= MAX_PROBE_SUBWORDS]
    )
    monkeypatch.setattr(ort, "get_available_providers", lambda: list(CPU_ONLY))


@pytest.mark.usefixtures("tiny_run")
def test_a_tiny_run_measures_and_checks_each_graph_and_becomes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "RESULTS_PATH", tmp_path / ".bench" / "results.json")
    monkeypatch.setattr("sys.argv", ["tests.bench", "graphs"])
    assert bench.main() == 0
    assert "OpenVINO was not measured, because the package onnxruntime-openvino is missing." in capsys.readouterr().out
    results = json.loads((tmp_path / ".bench" / "results.json").read_text())
    assert [result["name"] for result in results] == [f"graph_{name}_vs_default" for name in NAMES]
    for name, result in zip(NAMES, results, strict=True):
        detail = result["detail"]
        assert (detail["sentences"], len(detail["ratios"])) == (N_SENTENCES, 2)
        assert set(detail["sentences_per_cpu_s"]) == {"default", name}
        # The scale of a whole batch is the one thing here that lets batch mates change an answer.
        assert detail["is_invariant_to_batch_mates"] == {"default": True, name: name != "batch_scales"}
        # A form that is wired wrongly answers something else.
        assert detail["change_from_fp32_arithmetic"][name]["probability_mean"] < 0.02
    write_page(tmp_path, tmp_path / ".bench")
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "## The graphs" in page
    assert f"]({GRAPHS})" in page
    assert (tmp_path / GRAPHS).exists()
    assert page.count("batch mates change nothing") == len(NAMES) - 1


def test_each_form_differs_from_the_shipped_graph_in_what_it_is_named_after(
    tmp_path: Path, scripts: dict[str, Any]
) -> None:
    paths = write_forms(find_default_model() / "model.onnx", tmp_path, scripts)
    kinds = {name: [node.op_type for node in read_nodes(path)] for name, path in paths.items()}
    shipped = [node.op_type for node in read_nodes(find_default_model() / "model.onnx")]
    assert kinds.keys() == graphs.FORMS.keys()
    assert "ReduceMin" in kinds["row_scales"]
    assert "ReduceMin" not in shipped
    assert not {"QuantizeLinear", "ReduceMax"} & set(kinds["batch_scales"])
    assert "Relu" in shipped
    assert "Relu" not in kinds["no_further_columns"]
    assert not any(len(node.input) == 7 for node in read_nodes(paths["bias_apart"]))
    assert kinds["erf_gelu"] == ["Gelu" if kind == "FastGelu" else kind for kind in shipped]


def read_nodes(path: Path) -> list[onnx.NodeProto]:
    return list(onnx.load(str(path), load_external_data=False).graph.node)


@pytest.mark.parametrize(("rounding", "is_invariant"), [(None, True), (32.0, False)])
def test_a_graph_whose_answers_depend_on_batch_mates_is_found_out(
    tmp_path: Path, scripts: dict[str, Any], rounding: float | None, is_invariant: bool
) -> None:
    verify = scripts["verify"]
    make_graph(tmp_path / "model.onnx", vocabulary=50, n_classes=3, rounding=rounding)
    probes = [each for each in verify.make_edge_cases(50, 2) if len(each.ids) <= MAX_PROBE_SUBWORDS]
    # make_batch_plan pads up to the length of the real models, which the tiny one does not have.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "PADDING", (0, 8))
        change = graphs.measure_batch_change(verify.open_session(tmp_path / "model.onnx"), verify, probes)
    assert (change < 1e-6) == is_invariant


@pytest.mark.skipif(graphs.OPENVINO.ort_name in ort.get_available_providers(), reason="here it starts")
def test_an_openvino_that_does_not_start_is_named_and_the_others_are_measured(
    scripts: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "model.onnx"
    make_graph(graph, vocabulary=50, n_classes=3)
    variants = {
        "default": graphs.Variant("", graph, "default"),
        "openvino": graphs.Variant("", graph, "default", on_openvino=True),
    }
    with pytest.warns(UserWarning, match="not in available"):  # onnxruntime goes on with the CPU
        sessions = graphs.open_sessions(variants, scripts["verify"])
    assert sessions.keys() == {"default"}
    assert "openvino was not measured, because it does not start: OpenVINOExecutionProvider" in capsys.readouterr().out


def test_each_second_round_goes_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "ROUNDS", 3)
    order: list[str] = []
    taken = graphs.measure_in_turn({name: lambda name=name: order.append(name) for name in "abc"})  # type: ignore[misc]
    assert "".join(order) == "abc" + "abc" + "cba" + "abc"
    assert {name: len(seconds) for name, seconds in taken.items()} == {"a": 3, "b": 3, "c": 3}


def test_a_ratio_is_that_of_sentences_per_cpu_second_in_the_same_round() -> None:
    path = find_default_model()
    variants = {name: graphs.Variant(f"{name} graph", path, "default") for name in ("default", "light")}
    checks = {"default": graphs.Check(0.0, {}), "light": graphs.Check(0.25, {})}
    (figure,) = graphs.make_figures(variants, {"default": [2.0, 3.0, 8.0], "light": [1.0, 2.0, 2.0]}, checks, 100)
    assert figure["name"] == "graph_light_vs_default"
    assert figure["detail"]["ratios"] == [2.0, 1.5, 4.0]
    assert figure["ratio"] == 2.0
    assert figure["detail"]["what"] == "light graph; batch mates change probabilities by up to 0.25"
    rates = to_figure({**figure, "suite": "graphs", "machine": {"cpu": "x", "cores": 2}}).rates
    assert (rates["default"].least, rates["default"].most, rates["light"].median) == (12.5, 50.0, 50.0)
