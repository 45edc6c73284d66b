"""The page and its plots, from a snapshot and the template beside this module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from tests.bench.page.svg import Bar, Panel, draw_bars, draw_panels, format_size, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.page.figures import Curve, Figure, Snapshot

TEMPLATE = Path(__file__).with_name("template.md")
PAGE = "benchmarks.md"
LIMITS, PEERS, GROWTH = "images/bench-limits.svg", "images/bench-peers.svg", "images/bench-growth.svg"
GRAPHS = "images/bench-graphs.svg"
LIMIT_SUFFIX = "_vs_raw_ort"
GRAPH_PREFIX, GRAPH_SUFFIX = "graph_", "_vs_default"
PEER_SUITES = ("peers", "services")
# The sides of the suite `peers`, as the plot names them.
SIDES = {
    "fast": "labelwatch, int8",
    "exact": "labelwatch, exact",
    "light": "labelwatch, light model",
    "peer_1": "transformers + cleanlab, batch of 1",
    "peer_32": "transformers + cleanlab, batch of 32",
}


class Speed(NamedTuple):
    """A rate that a figure was computed from, as the table of speeds names it."""

    what: str
    figure: str
    rate: str


SPEEDS = (
    Speed("the graph alone, pre-tokenised and sorted by length", "pipeline_vs_raw_ort", "raw_sentences_per_s"),
    Speed("words in, assessments out, in one process", "pipeline_vs_raw_ort", "pipeline_sentences_per_s"),
    Speed("a worker on Kafka, the broker on another core", "kafka_vs_raw_ort", "sentences_per_s"),
    Speed("a worker on the embedded log", "sqlite_vs_raw_ort", "sentences_per_s"),
    Speed("REST, 32 clients on one core, one process on both", "rest_32_clients_vs_raw_ort", "requests_per_s"),
    Speed(
        "REST, 32 clients on one core, one process on the other",
        "rest_32_clients_one_core_vs_raw_ort",
        "requests_per_s",
    ),
    Speed(
        "REST, 32 clients on one core, two processes on both",
        "rest_32_clients_2_processes_vs_raw_ort",
        "requests_per_s",
    ),
    Speed("REST, one client on one core, one process on both", "rest_1_client_vs_fastapi", "labelwatch, 1 client"),
)
# Suites in the order of the page: their heading, and a sentence about the way of measuring.
SECTIONS = {
    "pipeline": ("The pipeline", "Words in, assessments out, in one process."),
    "graphs": (
        "The graphs",
        (
            "Each graph alone on one thread, with the same tokenised and sorted batches, in turn in one process: sentences"
            "\nper CPU-second over those of the default graph."
        ),
    ),
    "rest": ("REST", "The real command on a loopback port, with clients on one of two cores."),
    "stream": ("The stream", "A real Kafka broker on one core, the worker on the other."),
    "peers": ("Beside transformers and cleanlab", "The same weights and sentences, in turn in one process."),
    "services": (
        "Beside other services",
        "Each is a process with one model thread; the same clients ask them in turn.",
    ),
    "scoring": (
        "Scoring beside cleanlab",
        (
            "Probabilities in, scores and flags out; both sides must agree. It matters for large archives of probabilities"
            "\nand for single sentences, not for a whole audit: the model takes far longer."
        ),
    ),
    "state": ("State", "What a worker reads back when it starts or when another worker commits."),
    "scale": (
        "The simulation of many workers",
        "A simulation against real runs on a real Kafka, see [scaling](scaling.md#the-simulation).",
    ),
    "training": ("Training", "`labelwatch train` on the sample."),
    "trainer": ("Scoring during a training", "A training runs at low priority beside the API."),
    "cli_start": ("The command line", "Processor time until a command ends."),
    "memory": ("The memory of a stream", "Detection with memory over that without."),
    "reviewers": ("The ranker", "Simulated reviewers decide by the truth of the sample."),
    "annotators": ("Figures of annotators", "Simulated crowds, whose true quality is known."),
    "acceptance": ("Intervals of deliveries", "Simulated deliveries, whose true error rate is known."),
}


def render_files(snapshot: Snapshot) -> dict[str, str]:
    """All files of the page, by their path below docs/."""
    plots = {
        "limits": (LIMITS, draw_limits(snapshot.figures)),
        "graphs": (GRAPHS, draw_graphs(snapshot.figures)),
        "peers": (PEERS, draw_peers(snapshot.figures)),
        "growth": (GROWTH, draw_growth(snapshot)),
    }
    files = {path: text for path, text in plots.values() if text}
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - Markdown
    speeds = find_speeds(snapshot.figures)
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        note=snapshot.note,
        speeds=[_build_speed_row(speed, figure) for speed, figure in speeds],
        speed_machine="; ".join(dict.fromkeys(str(figure.machine) for _, figure in speeds)),
        sections=build_sections(snapshot.figures),
        curves=[build_curve_row(curve) for curve in snapshot.curves],
        growth_machine="; ".join(dict.fromkeys(str(curve.machine) for curve in snapshot.curves if curve.machine)),
        plots={name: path if text else "" for name, (path, text) in plots.items()},
    )
    return {**files, PAGE: page.rstrip("\n") + "\n"}


def find_speeds(figures: Sequence[Figure]) -> list[tuple[Speed, Figure]]:
    """The speeds that were measured, each with the figure that has its rate."""
    by_name = {figure.name: figure for figure in figures}
    found = [(speed, by_name[speed.figure]) for speed in SPEEDS if speed.figure in by_name]
    return [(speed, figure) for speed, figure in found if speed.rate in figure.rates]


def _build_speed_row(speed: Speed, figure: Figure) -> dict[str, str]:
    rate = figure.rates[speed.rate]
    return {
        "what": speed.what,
        "median": format_value(rate.median),
        "spread": f"{format_value(rate.least)} to {format_value(rate.most)}",
        "suite": figure.suite,
    }


def build_sections(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The suites that have figures. One that the table above doesn't know comes last, under its own name."""
    suites = {figure.suite for figure in figures}
    ordered = [suite for suite in SECTIONS if suite in suites] + sorted(suites - SECTIONS.keys())
    return [_build_section(suite, [figure for figure in figures if figure.suite == suite]) for suite in ordered]


def _build_section(suite: str, figures: Sequence[Figure]) -> dict[str, Any]:
    title, text = SECTIONS.get(suite, (suite.replace("_", " ").capitalize(), ""))
    machines = dict.fromkeys(str(figure.machine) for figure in figures)
    return {
        "title": title,
        "text": f"`python -m tests.bench {suite}`. {text}".strip(),
        "machine": "; ".join(machines),
        "rows": [_build_row(figure) for figure in figures],
    }


def _build_row(figure: Figure) -> dict[str, str]:
    spread = "one run"
    if figure.spread is not None:
        low, high = format_value(figure.spread.least), format_value(figure.spread.most)
        spread = f"{low} to {high}, {figure.rounds} rounds"
    elif figure.rounds > 1:
        spread = f"median of {figure.rounds} rounds"
    return {
        "name": figure.name,
        "what": figure.what.replace("|", "\\|"),
        "ratio": format_value(figure.ratio),
        "spread": spread,
        "threads": str(figure.threads) if figure.threads is not None else "",
    }


def draw_limits(figures: Sequence[Figure]) -> str:
    """Throughput over that of the graph alone; 1 is the limit."""
    bars = [
        _to_bar(figure.name.removesuffix(LIMIT_SUFFIX).replace("_", " "), figure)
        for figure in figures
        if figure.name.endswith(LIMIT_SUFFIX) and "p50" not in figure.name
    ]
    return draw_bars("Share of the speed of the graph alone, by path", bars, line=1.0) if bars else ""


def draw_graphs(figures: Sequence[Figure]) -> str:
    """Sentences per CPU-second over those of the default graph, which is 1."""
    bars = [
        _to_bar(figure.name.removeprefix(GRAPH_PREFIX).removesuffix(GRAPH_SUFFIX).replace("_", " "), figure)
        for figure in figures
        if figure.suite == "graphs"
    ]
    return draw_bars("Speed of each graph over that of the default graph", bars, line=1.0) if bars else ""


def _to_bar(label: str, figure: Figure) -> Bar:
    spread = figure.spread
    least, most = (spread.least, spread.most) if spread else (figure.ratio, figure.ratio)
    return Bar(label, figure.ratio, least, most)


def draw_peers(figures: Sequence[Figure]) -> str:
    """What several figures share, such as labelwatch's own rate, is drawn once."""
    rates = {
        SIDES.get(name, name): rate
        for suite in PEER_SUITES
        for figure in figures
        if figure.suite == suite
        for name, rate in figure.rates.items()
    }
    bars = [Bar(name, rate.median, rate.least, rate.most) for name, rate in rates.items()]
    return draw_bars("Sentences per second beside other services", bars, unit="/s") if bars else ""


def draw_growth(snapshot: Snapshot) -> str:
    panels = [Panel(curve.name.replace("_", " "), curve.x, curve.y, curve.points) for curve in snapshot.curves]
    return draw_panels("Cost by size", panels) if panels else ""


def build_curve_row(curve: Curve) -> dict[str, str]:
    verdict = {None: "", True: ", met", False: ", missed"}[curve.meets_goal]
    return {
        "what": curve.what.replace("|", "\\|"),
        "costs": ", ".join(f"{format_size(size)}: {format_value(cost)}" for size, cost in curve.points),
        "y": curve.y,
        "x": curve.x,
        "exponent": "" if curve.exponent is None else f"{curve.exponent:.2f}",
        "verdict": "linear or better" if curve.is_linear else "worse than linear",
        "goal": f"{curve.goal}{verdict}" if curve.goal else "",
    }
