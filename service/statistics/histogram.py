"""The histogram of priorities: with it a dataset sends its worst share to review without a second pass."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import lt
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from service.errors import InvalidInput, StateError
from service.statistics.class_stats import PROBABILITY_TOLERANCE
from service.statistics.snapshots import MAX_COUNT, SnapshotFormat, is_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

BINS_PER_UNIT = 32
MAX_LOGIT = 33  # beyond it, bins would be narrower than the distance of neighbouring float64 below 1
CUTOFF_ALL = 2.0
"""A cut-off above every priority."""

HISTOGRAM_FORMAT = SnapshotFormat("the priority histogram", version=1, fields=("bins",))


def _compute_bin_edges() -> tuple[float, ...]:
    """Priorities at even steps of logit, rounded to 12 digits so that exp() gives the same edges on every platform."""
    steps = MAX_LOGIT * BINS_PER_UNIT
    low = [float(f"{1 / (1 + math.exp(step / BINS_PER_UNIT)):.12g}") for step in range(steps, 0, -1)]
    return (*low, 0.5, *(1 - edge for edge in reversed(low)))


BIN_EDGES = _compute_bin_edges()
N_BINS = len(BIN_EDGES) + 1
MAX_UNIT_LOGIT = 9
_UNIT_INDEXES = tuple((MAX_LOGIT + unit) * BINS_PER_UNIT for unit in range(-MAX_UNIT_LOGIT, MAX_UNIT_LOGIT + 1))
UNIT_EDGES = tuple(BIN_EDGES[index] for index in _UNIT_INDEXES)
"""Every edge at a whole logit from -9 to 9: bins for people to look at."""
_BIN_EDGES_ARRAY = np.array(BIN_EDGES)


def _create_zero_counts() -> NDArray[np.int64]:
    counts = np.zeros(N_BINS, dtype=np.int64)
    counts.flags.writeable = False
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class PriorityHistogram:
    """Numbers of sentences per bin of logit(priority): bins are fine near 0 and 1, where most priorities are.

    Bin i has the priorities with BIN_EDGES[i−1] ≤ priority < BIN_EDGES[i]; the first and last bin are open.
    Immutable: `update` and `merge` return a new histogram.
    """

    counts: NDArray[np.int64]

    @classmethod
    def empty(cls) -> PriorityHistogram:
        """A histogram of no sentences."""
        return cls(_create_zero_counts())

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PriorityHistogram) and bool(np.array_equal(self.counts, other.counts))

    def __hash__(self) -> int:
        return hash(self.counts.tobytes())

    def update(self, priorities: float | NDArray[np.floating[Any]]) -> PriorityHistogram:
        """The histogram with the priorities of one or more sentences added."""
        counts = self.counts.copy()
        if isinstance(priorities, float | int):
            if not -PROBABILITY_TOLERANCE <= priorities <= 1 + PROBABILITY_TOLERANCE:
                raise InvalidInput(f"{priorities} is not between 0 and 1", field="priority")
            counts[bisect_right(BIN_EDGES, priorities)] += 1
        else:
            values = np.ravel(priorities)
            outside = np.flatnonzero(~((values >= -PROBABILITY_TOLERANCE) & (values <= 1 + PROBABILITY_TOLERANCE)))
            if len(outside):
                first = int(outside[0])
                raise InvalidInput(f"{values[first]} is not between 0 and 1", field="priority", sentence=first)
            counts += np.bincount(np.searchsorted(_BIN_EDGES_ARRAY, values, side="right"), minlength=N_BINS)
        counts.flags.writeable = False
        return PriorityHistogram(counts)

    def merge(self, other: PriorityHistogram) -> PriorityHistogram:
        """The sum of both. The order of merges does not matter."""
        counts = self.counts + other.counts
        counts.flags.writeable = False
        return PriorityHistogram(counts)

    def count_by_unit(self) -> tuple[int, ...]:
        """The numbers of sentences between UNIT_EDGES, and below and above all of them."""
        below = np.cumsum(self.counts)  # below[i]: the number of sentences below BIN_EDGES[i]
        sums = [0, *(int(below[index]) for index in _UNIT_INDEXES), int(below[-1])]
        return tuple(after - before for before, after in pairwise(sums))

    def find_cutoff(self, share: float) -> float:
        """The priority below which the worst `share` of the sentences lies: `priority < cutoff` is within the budget.

        Conservative: the largest edge with at most the share below it, so a bin that would exceed the budget stays out.
        Without sentences, or for a share of 0, it is 0.0, and no priority is below it.
        """
        if not 0 <= share <= 1:
            raise InvalidInput(f"{share} is not a share between 0 and 1", field="share")
        if share == 1:
            return CUTOFF_ALL
        below = np.cumsum(self.counts)  # below[i]: the number of sentences below BIN_EDGES[i]
        total = int(below[-1])
        if share == 0 or total == 0:
            return 0.0
        allowed = int(np.searchsorted(below[:-1], share * total, side="right"))
        return BIN_EDGES[allowed - 1] if allowed else 0.0

    def snapshot(self) -> dict[str, object]:
        """As a JSON object: the occupied bins and their counts."""
        occupied = np.flatnonzero(self.counts)
        bins = [[int(i), n] for i, n in zip(occupied, self.counts[occupied].tolist(), strict=True)]
        return HISTOGRAM_FORMAT.write({"bins": bins})

    @classmethod
    def restore(cls, snapshot: object) -> PriorityHistogram:
        """Reads `snapshot()` back; StateError if it is not valid."""
        bins = HISTOGRAM_FORMAT.read(snapshot)["bins"]
        if not isinstance(bins, list):
            raise StateError("`bins` of the priority histogram should be a list of [bin, count]")
        occupied, numbers = _parse_bins(bins)
        counts = np.zeros(N_BINS, dtype=np.int64)
        counts[occupied] = numbers
        counts.flags.writeable = False
        return cls(counts)


def _parse_bins(bins: list[Any]) -> tuple[list[int], list[int]]:
    """Bins and counts. The checks run over whole lists, since bins are most of a state record."""
    if not (set(map(type, bins)) <= {list} and set(map(len, bins)) <= {2}):
        _raise_invalid_bin(bins)
    flat = list(chain.from_iterable(bins))
    if not set(map(type, flat)) <= {int}:
        _raise_invalid_bin(bins)
    occupied, numbers = flat[::2], flat[1::2]
    if flat:
        is_rising = occupied[0] >= 0 and occupied[-1] < N_BINS and all(map(lt, occupied, occupied[1:]))
        if not is_rising or min(numbers) <= 0 or max(numbers) > MAX_COUNT:
            _raise_invalid_bin(bins)
    return occupied, numbers


def _raise_invalid_bin(bins: list[object]) -> NoReturn:
    """Names the first bin that is not valid."""
    last = -1
    for pair in bins:
        if not (isinstance(pair, list) and len(pair) == 2 and is_count(pair[0]) and is_count(pair[1])):
            raise StateError(f"the priority histogram has {pair!r} instead of [bin, count]")
        i, n = pair
        if not last < i < N_BINS or not 0 < n <= MAX_COUNT:
            raise StateError(f"[{i}, {n}] doesn't fit a priority histogram of {N_BINS} bins in rising order")
        last = i
    raise AssertionError("every bin is valid")
