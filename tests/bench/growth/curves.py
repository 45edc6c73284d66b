"""A curve: what something costs as one size grows, and whether the cost grows faster than the size.

The growth exponent is the slope on logarithmic axes: 0 is a constant cost, 1 a linear one, 2 a quadratic one. That of a curve is
the slope of the line with the least squares through the points of the upper two decades, where what is constant weighs least.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tests.bench.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A third more or less between points ten times apart is an exponent of 0.12. A loaded machine differs by more: measure alone.
TOLERANCE: Final = 0.15
FITTED_RANGE: Final = 100
"""Points whose size is at least the largest divided by this are fitted."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of the value at one size. `at_least`: larger values are better."""

    x: int
    value: float
    at_least: bool = False

    def is_met_by(self, value: float) -> bool:
        return value >= self.value if self.at_least else value <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.value:,g} at {self.x:,}"


@dataclass(frozen=True, slots=True)
class Curve:
    """`linear_exponent`: the exponent of a cost that is linear: 1 for a total, 0 for a cost per unit or per second."""

    name: str
    x: str
    unit: str
    what: str
    points: Sequence[Mapping[str, float]]
    linear_exponent: float = 1.0
    goal: Goal | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exponents(self) -> list[float | None]:
        """Between each two neighbouring points; None where one of them has no cost at all."""
        return [compute_exponent(first, second) for first, second in pairwise(self.points)]

    @property
    def exponent(self) -> float | None:
        """None with fewer than two points, or where one of them has no cost at all."""
        largest = max((point["x"] for point in self.points), default=0)
        upper = [point for point in self.points if point["x"] * FITTED_RANGE >= largest]
        if len(upper) < 2 or min(min(point["x"], point["value"]) for point in upper) <= 0:
            return None
        fit = statistics.linear_regression(
            [math.log(point["x"]) for point in upper], [math.log(point["value"]) for point in upper]
        )
        return fit.slope

    @property
    def is_linear(self) -> bool:
        """Whether the cost grows linearly or slower."""
        found = self.exponent
        if found is None:
            return True
        if self.goal is not None and self.goal.at_least:  # a rate: it must not fall
            return found >= self.linear_exponent - TOLERANCE
        return found <= self.linear_exponent + TOLERANCE

    @property
    def meets_goal(self) -> bool | None:
        """None where the curve has no goal, or no point at its size."""
        if self.goal is None:
            return None
        value = next((point["value"] for point in self.points if point["x"] == self.goal.x), None)
        return None if value is None else self.goal.is_met_by(value)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "x": self.x,
            "unit": self.unit,
            "points": [dict(point) for point in self.points],
            "exponent": self.exponent,
            "exponents": self.exponents,
            "linear_exponent": self.linear_exponent,
            "is_linear": self.is_linear,
            "goal": None if self.goal is None else str(self.goal),
            "meets_goal": self.meets_goal,
            "what": self.what,
            "detail": dict(self.detail),
            "machine": describe_machine(),
        }


def compute_exponent(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    if min(first["x"], second["x"], first["value"], second["value"]) <= 0 or first["x"] == second["x"]:
        return None
    return math.log(second["value"] / first["value"]) / math.log(second["x"] / first["x"])


def format_table(curves: Sequence[Mapping[str, Any]]) -> str:
    """One line per curve, from its JSON."""
    lines = []
    for curve in curves:
        values = "  ".join(f"{point['x']:,}: {point['value']:,.4g}" for point in curve["points"])
        exponent = "    –" if curve["exponent"] is None else f"{curve['exponent']:5.2f}"
        verdict = "linear or better" if curve["is_linear"] else "WORSE THAN LINEAR"
        met = {None: "", True: "  met", False: "  MISSED"}[curve["meets_goal"]]
        goal = "" if curve["goal"] is None else f"  goal {curve['goal']}{met}"
        lines.append(f"{curve['name']:<34} {exponent}  {verdict}{goal}\n    {curve['unit']} by {curve['x']}: {values}")
    return "\n".join(lines)
