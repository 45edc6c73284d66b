"""The benchmark of growth: its arithmetic, and each curve on a tiny run."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.bench.growth.__main__ import MODULES, add_points, save_curves
from tests.bench.growth.curves import Curve, Goal, format_table
from tests.bench.growth.plots import render_curve

if TYPE_CHECKING:
    from pathlib import Path


def make_curve(*values: float, goal: Goal | None = None, linear_exponent: float = 1.0) -> Curve:
    points = [{"x": 10**power, "value": value} for power, value in enumerate(values, start=1)]
    return Curve("cost", "items", "ms", "a cost", points, linear_exponent=linear_exponent, goal=goal)


@pytest.mark.parametrize(
    ("values", "exponent", "is_linear"),
    [
        ((5, 5), 0, True),
        ((1, 10, 100), 1, True),
        ((1, 10, 1000), 1.5, False),
        ((1, 100, 100, 100), 0, True),  # the first point is outside the upper two decades
        ((1, 100, 100), 1, True),
    ],
)
def test_the_exponent_is_that_of_the_upper_two_decades(
    values: tuple[float, ...], exponent: float, is_linear: bool
) -> None:
    curve = make_curve(*values)
    assert curve.exponent == pytest.approx(exponent)
    assert curve.is_linear is is_linear
    assert len(curve.exponents) == len(values) - 1


def test_a_cost_of_nothing_has_no_exponent() -> None:
    assert make_curve(0, 5).exponent is None
    assert make_curve(5).exponent is None


def test_a_rate_must_not_fall() -> None:
    rate = Goal(100, 5_000, at_least=True)
    assert not make_curve(9_000, 3_000, goal=rate, linear_exponent=0).is_linear
    assert make_curve(3_000, 9_000, goal=rate, linear_exponent=0).is_linear
    assert make_curve(3_000, 9_000, goal=rate, linear_exponent=0).meets_goal is True
    assert make_curve(9_000, 3_000, goal=rate, linear_exponent=0).meets_goal is False


def test_a_goal_counts_only_at_its_size() -> None:
    assert make_curve(1, 30, goal=Goal(100, 20)).meets_goal is False
    assert make_curve(1, 10, goal=Goal(100, 20)).meets_goal is True
    assert make_curve(1, 10, goal=Goal(1_000_000, 20)).meets_goal is None


def test_the_table_names_what_is_worse_than_linear_and_what_misses_its_goal() -> None:
    table = format_table([make_curve(1, 1000, goal=Goal(100, 20)).to_json()])
    assert "WORSE THAN LINEAR" in table
    assert "goal ≤ 20 at 100  MISSED" in table


def test_curves_of_another_run_stay_and_each_has_a_picture(tmp_path: Path) -> None:
    path, plots = tmp_path / "growth.json", tmp_path / "growth"
    other = {**make_curve(1, 2).to_json(), "name": "other"}
    save_curves([other], path, plots)
    save_curves([make_curve(1, 10).to_json()], path, plots)
    save_curves([make_curve(3, 10).to_json()], path, plots)
    assert [(curve["name"], curve["points"][0]["value"]) for curve in json.loads(path.read_text())] == [
        ("other", 1),
        ("cost", 3),
    ]
    assert {picture.name for picture in plots.iterdir()} == {"other.svg", "cost.svg"}
    assert (plots / "cost.svg").read_text().startswith("<svg ")


def test_points_of_other_sizes_stay(tmp_path: Path) -> None:
    path = tmp_path / "growth.json"
    save_curves([make_curve(1, 10, 100).to_json()], path, tmp_path)
    (joined,) = add_points([replace(make_curve(), points=[{"x": 100, "value": 7}, {"x": 10_000, "value": 8}])], path)
    assert [(point["x"], point["value"]) for point in joined.points] == [(10, 1), (100, 7), (1_000, 100), (10_000, 8)]


def test_a_curve_without_two_points_has_no_picture() -> None:
    assert render_curve(make_curve(5).to_json()) is None


TINY_SIZES = {
    "sentences": (20, 60),
    "words": (5, 10),
    "classes": (3, 5),
    "partitions": (1, 2),
    "datasets": (1, 3),
    "consoles": (1, 3),
    "decisions": (30, 60),
    "queue": (20, 60),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_curve_is_measured_on_a_tiny_run(name: str) -> None:
    curves = importlib.import_module(f"tests.bench.growth.{name}").measure(TINY_SIZES[name], isolated=False)
    assert curves
    for curve in curves:
        assert [point["x"] for point in curve.points] == list(TINY_SIZES[name]), curve.name
        assert all(point["value"] >= 0 for point in curve.points), curve.name
        assert json.loads(json.dumps(curve.to_json()))["what"]
