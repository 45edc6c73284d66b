"""Sequences longer than a model reads at once: overlapping windows, and which window answers for what. PURE."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class WindowBounds(NamedTuple):
    """A window [start, end) over subwords, and the part [keep, keep_end) that is read from it."""

    start: int
    end: int
    keep_start: int
    keep_end: int


def cut_windows(bounds: Sequence[int], capacity: int) -> list[WindowBounds]:
    """Windows of at most `capacity` subwords, each overlapping the next by about half; the kept parts tile everything.

    `bounds` are the subwords that words start at, beginning with 0, and the number of subwords at the end. Windows
    start and end at words where that loses no more than a quarter of one. A word is kept from the window that it
    is most central in; one that fits no window is kept piece by piece.
    """
    total = bounds[-1]
    if total <= capacity:
        return [WindowBounds(0, total, 0, total)] if total else []
    windows = _spread_windows(bounds, capacity)
    cuts = [0, *(_split_overlap(bounds, left[1], right[0]) for left, right in pairwise(windows)), total]
    return [
        WindowBounds(start, end, keep, keep_end)
        for (start, end), (keep, keep_end) in zip(windows, pairwise(cuts), strict=True)
        if keep < keep_end
    ]


def _spread_windows(bounds: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    total = bounds[-1]
    step = capacity - capacity // 2
    slack = step // 2
    windows: list[tuple[int, int]] = []
    start = 0
    while start + capacity < total:
        windows.append((start, _snap_to_word_start(bounds, start + capacity, slack)))
        start = _snap_to_word_start(bounds, start + step, slack)
    last = bounds[bisect_right(bounds, total - capacity - 1)]  # the last window reaches as far back as it can
    if not windows[-1][0] < last <= windows[-1][1]:
        last = total - capacity
    windows.append((last, total))
    return windows


def _snap_to_word_start(bounds: Sequence[int], position: int, slack: int) -> int:
    """The last word start up to `position`; where there is none within `slack`, the position itself."""
    found = bounds[bisect_right(bounds, position) - 1]
    return found if found > position - slack else position


def _split_overlap(bounds: Sequence[int], left_end: int, right_start: int) -> int:
    """Where one window stops to answer and the next begins, inside their overlap [right_start, left_end)."""
    twice = right_start + left_end
    place = bisect_right(bounds, twice // 2)
    word, word_end = bounds[place - 1], bounds[place]
    fits_left, fits_right = word_end <= left_end, word >= right_start
    if fits_left and fits_right:
        return word_end if word + word_end <= twice else word
    if fits_left:
        return word_end
    return word if fits_right else twice // 2
