"""The figures of the page: what the suites wrote, reduced to what a reader compares, and the snapshot in docs/.

A snapshot holds figures of several runs. A suite that was not measured again keeps the figures and the machine it has.
"""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DIGITS = 4  # significant ones: more would change with every run
RATE_SUFFIXES = ("sentences_per_s", "sentences_per_cpu_s", "requests_per_s")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Machine(_Entry):
    """The machine of a figure, as `describe_machine` writes it."""

    cpu: str
    instructions: str = ""
    cores: int

    def __str__(self) -> str:
        parts = (self.cpu, self.instructions, f"{self.cores} core{'s' if self.cores != 1 else ''}")
        return ", ".join(part for part in parts if part)


class Spread(_Entry):
    """The median of several rounds, with the least and the most."""

    median: float
    least: float
    most: float


class Figure(_Entry):
    """One ratio, with what was compared and how far the rounds lie apart."""

    name: str
    suite: str
    what: str
    ratio: float
    spread: Spread | None = None
    rounds: int = 1
    threads: int | None = None
    machine: Machine
    rates: dict[str, Spread] = {}


class Curve(_Entry):
    """How a cost grows: points of (size, cost), in the order of size, and the exponent of the upper two decades."""

    name: str
    what: str
    x: str
    y: str
    points: list[tuple[float, float]]
    exponent: float | None = None
    is_linear: bool = True
    goal: str = ""
    meets_goal: bool | None = None
    machine: Machine | None = None


class Snapshot(_Entry):
    """Everything the page is made from. The note says what a reader must know about the machine of all figures."""

    note: str = ""
    figures: list[Figure] = []
    curves: list[Curve] = []

    def merge(self, measured: Snapshot) -> Snapshot:
        """Replaces what was measured again. A suite that was measured loses figures that it no longer has."""
        suites = {figure.suite for figure in measured.figures}
        curves = {curve.name for curve in measured.curves}
        return Snapshot(
            note=self.note,
            figures=[figure for figure in self.figures if figure.suite not in suites] + measured.figures,
            curves=[curve for curve in self.curves if curve.name not in curves] + measured.curves,
        )


class UnreadableResultsError(ValueError):
    """A file of results that is not what `python -m tests.bench` writes. The message names it."""


def read_snapshot(path: Path) -> Snapshot:
    try:
        return Snapshot.model_validate_json(path.read_bytes()) if path.exists() else Snapshot()
    except ValidationError as error:
        raise UnreadableResultsError(f"{path} is not a snapshot of figures: {error}") from error


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    text = json.dumps(snapshot.model_dump(exclude_defaults=True), indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def read_results(path: Path) -> Snapshot:
    """The figures of `.bench/results.json`."""
    if not path.exists():
        return Snapshot()
    try:
        return Snapshot(figures=[to_figure(result) for result in json.loads(path.read_text(encoding="utf-8"))])
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableResultsError(
            f"{path} can't be read: {error!r}. Delete it and run `python -m tests.bench` again"
        ) from error


def read_growth(path: Path) -> Snapshot:
    """The curves of `.bench/growth.json`."""
    if not path.exists():
        return Snapshot()
    try:
        return Snapshot(curves=[to_curve(curve) for curve in json.loads(path.read_text(encoding="utf-8"))])
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableResultsError(
            f"{path} can't be read: {error!r}. Delete it and run `make bench-growth` again"
        ) from error


def to_curve(found: dict[str, Any]) -> Curve:
    exponent = found.get("exponent")
    return Curve(
        name=found["name"],
        what=found["what"],
        x=found["x"],
        y=found["unit"],
        points=[(point["x"], round_figure(point["value"])) for point in found["points"]],
        exponent=None if exponent is None else round(exponent, 2),
        is_linear=found.get("is_linear", True),
        goal=found.get("goal") or "",
        meets_goal=found.get("meets_goal"),
        machine=Machine.model_validate(found["machine"]) if found.get("machine") else None,
    )


def to_figure(result: dict[str, Any]) -> Figure:
    detail = result["detail"]
    ratios = detail.get("ratios")
    return Figure(
        name=result["name"],
        suite=result["suite"],
        what=detail.get("what", ""),
        ratio=round_figure(result["ratio"]),
        spread=summarize(ratios) if ratios else None,
        rounds=len(ratios) if ratios else int(detail.get("rounds", 1)),
        threads=detail.get("threads", detail.get("model_threads")),
        machine=Machine.model_validate(result["machine"]),
        rates=dict(iterate_rates(detail)),
    )


def iterate_rates(detail: dict[str, Any]) -> Iterable[tuple[str, Spread]]:
    """Rates stand in details as a list of rounds, as a summary of them, or as one of these for each side."""
    for key, value in detail.items():
        if not key.endswith(RATE_SUFFIXES):
            continue
        sides = {key: value}
        if isinstance(value, dict) and "median" not in value:
            sides = value
        for name, rounds in sides.items():
            spread = _to_spread(rounds)
            if spread is not None:
                yield str(name), spread


def _to_spread(rounds: Any) -> Spread | None:
    if isinstance(rounds, dict):
        return Spread(**{name: round_figure(rounds[name]) for name in ("median", "least", "most")})
    if isinstance(rounds, int | float):
        rounds = [rounds]
    return summarize(rounds) if rounds else None


def summarize(values: Iterable[float]) -> Spread:
    found = sorted(values)
    return Spread(
        median=round_figure(statistics.median(found)), least=round_figure(found[0]), most=round_figure(found[-1])
    )


def round_figure(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
