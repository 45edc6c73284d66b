"""Each point in a process of its own: its memory is not that of the points before it."""

from __future__ import annotations

import multiprocessing
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def run_isolated(measure: Callable[[int], T], size: int) -> T:
    """`measure` must be a function of a module."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (size,))


def collect_points(
    measure: Callable[[int], dict[str, float]], sizes: Sequence[int], *, isolated: bool = True
) -> dict[str, list[dict[str, float]]]:
    """The points of each curve by its name."""
    points: dict[str, list[dict[str, float]]] = {}
    for size in sizes:
        values = run_isolated(measure, size) if isolated else measure(size)
        for name, value in values.items():
            points.setdefault(name, []).append({"x": size, "value": value})
            print(f"  {name} at {size:,}: {value:,.4g}", file=sys.stderr, flush=True)
    return points
