"""Overlapping windows over sequences that are longer than the model's input, and which window answers for what. PURE."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class WindowBounds(NamedTuple):
    """A window [start, end) over subwords, and the part [keep_start, keep_end) whose outputs are used."""

    start: int
    end: int
    keep_start: int
    keep_end: int


def cut_windows(bounds: Sequence[int], capacity: int) -> list[WindowBounds]:
    """Windows of at most `capacity` subwords, each overlapping the next by about half; the kept parts tile everything.

    `bounds` are the subwords at which words start, beginning with 0, and at the end the number of subwords. Windows
    start and end at words if that shortens them by no more than a quarter. A word is kept from the window in which it
    is most central; a word that fits no window is kept in parts.
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
    last = bounds[bisect_right(bounds, total - capacity - 1)]  # the last window is as long as possible
    if not windows[-1][0] < last <= windows[-1][1]:
        last = total - capacity
    windows.append((last, total))
    return windows


def _snap_to_word_start(bounds: Sequence[int], position: int, slack: int) -> int:
    """The last word start up to `position`; the position itself if there is none within `slack`."""
    word_start = bounds[bisect_right(bounds, position) - 1]
    return word_start if word_start > position - slack else position


def _split_overlap(bounds: Sequence[int], left_end: int, right_start: int) -> int:
    """The position in the overlap [right_start, left_end) where the next window takes over."""
    twice = right_start + left_end
    index = bisect_right(bounds, twice // 2)
    word, word_end = bounds[index - 1], bounds[index]
    fits_left, fits_right = word_end <= left_end, word >= right_start
    if fits_left and fits_right:
        return word_end if word + word_end <= twice else word
    if fits_left:
        return word_end
    return word if fits_right else twice // 2
