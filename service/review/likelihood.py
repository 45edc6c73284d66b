"""How likely an item is wrong, in words: bands of the rank, from the dataset's own decisions once there are enough.

The rank orders items, but its numbers mean different things in different datasets. So the share of errors among decided
items is estimated along the rank, falling as the rank rises (isotonic regression by pooling adjacent violators), and the
bands end where it falls below fixed probabilities. Each bin of decided items is pulled towards what the fixed bands say,
and beyond the decided ranks the fixed bands hold.

Only flagged items count. Control sentences say something about sentences that were not flagged, which the queue does not
show as such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from service.contracts import Message

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

Likelihood = Literal["very_likely_wrong", "probably_wrong", "may_be_right"]

MIN_DECISIONS: Final = 50
MIN_BIN_SIZE: Final = 10
MAX_BINS: Final = 20
MIN_VERY_LIKELY: Final = 0.8
MIN_PROBABLY: Final = 0.5
# Before there are decisions: ranks of the bands, and the share of errors that is expected in each.
FIXED_VERY_LIKELY_BELOW: Final = 0.1
FIXED_PROBABLY_BELOW: Final = 0.35
EXPECTED_VERY_LIKELY: Final = 0.9
EXPECTED_PROBABLY: Final = 0.65
EXPECTED_MAY_BE_RIGHT: Final = 0.25
PRIOR_WEIGHT: Final = 2.0  # decisions that the expectation counts for in each bin
MAX_FITTED_ITEMS: Final = 5_000


class LikelihoodBands(Message):
    """The ranks below which an item is very likely wrong or probably wrong."""

    very_likely_below: float = FIXED_VERY_LIKELY_BELOW
    probably_below: float = FIXED_PROBABLY_BELOW
    decisions: int = Field(default=0, description="Decided flagged items that the bands rest on; 0: the fixed bands")

    def classify(self, rank: float) -> Likelihood:
        if rank < self.very_likely_below:
            return "very_likely_wrong"
        return "probably_wrong" if rank < self.probably_below else "may_be_right"


FIXED_BANDS: Final = LikelihoodBands()


@dataclass(frozen=True, slots=True)
class _Bin:
    """Decided items with neighbouring ranks. `errors` and `weight` include the expectation."""

    first: float
    last: float
    errors: float
    weight: float

    @property
    def share(self) -> float:
        return self.errors / self.weight

    def merge(self, after: _Bin) -> _Bin:
        return _Bin(self.first, after.last, self.errors + after.errors, self.weight + after.weight)


def fit_bands(decided: Iterable[tuple[float, bool]]) -> LikelihoodBands:
    """The bands from decided items, each with its rank and whether it is wrong; the fixed ones where they are too few."""
    ordered = sorted(decided)
    if len(ordered) < MIN_DECISIONS:
        return FIXED_BANDS
    bins = _pool_violators(_build_bins(ordered))
    return LikelihoodBands(
        very_likely_below=_find_end(bins, MIN_VERY_LIKELY, fixed=FIXED_VERY_LIKELY_BELOW),
        probably_below=_find_end(bins, MIN_PROBABLY, fixed=FIXED_PROBABLY_BELOW),
        decisions=len(ordered),
    )


def _build_bins(ordered: Sequence[tuple[float, bool]]) -> list[_Bin]:
    """Bins of at least MIN_BIN_SIZE items. Items of equal rank are in one bin."""
    size = max(MIN_BIN_SIZE, math.ceil(len(ordered) / MAX_BINS))
    groups: list[list[tuple[float, bool]]] = [[]]
    for _, equal in groupby(ordered, key=lambda item: item[0]):
        if len(groups[-1]) >= size:
            groups.append([])
        groups[-1].extend(equal)
    if len(groups) > 1 and len(groups[-1]) < size:
        groups[-2:] = [groups[-2] + groups[-1]]
    return [_build_bin(group) for group in groups]


def _build_bin(items: Sequence[tuple[float, bool]]) -> _Bin:
    errors = sum(wrong for _, wrong in items)
    expected = math.fsum(_expect_share(rank) for rank, _ in items) / len(items)
    return _Bin(items[0][0], items[-1][0], errors + PRIOR_WEIGHT * expected, len(items) + PRIOR_WEIGHT)


def _expect_share(rank: float) -> float:
    if rank < FIXED_VERY_LIKELY_BELOW:
        return EXPECTED_VERY_LIKELY
    return EXPECTED_PROBABLY if rank < FIXED_PROBABLY_BELOW else EXPECTED_MAY_BE_RIGHT


def _pool_violators(bins: Iterable[_Bin]) -> list[_Bin]:
    """Bins whose shares fall: neighbours whose shares rise are merged."""
    pooled: list[_Bin] = []
    for entry in bins:
        current = entry
        while pooled and pooled[-1].share <= current.share:
            current = pooled.pop().merge(current)
        pooled.append(current)
    return pooled


def _find_end(bins: Sequence[_Bin], min_share: float, *, fixed: float) -> float:
    """The rank at which the share falls below `min_share`. The fixed band decides where no item was decided."""
    inside = sum(entry.share >= min_share for entry in bins)
    if not inside:
        return min(bins[0].first, fixed)
    if inside == len(bins):
        return max(math.nextafter(bins[-1].last, math.inf), fixed)
    return (bins[inside - 1].last + bins[inside].first) / 2


def read_bands(db: sqlite3.Connection, dataset: str) -> LikelihoodBands:
    """From the items in the queue. Of very many, a sample that does not depend on the rank."""
    rows = db.execute(
        "SELECT i.rank, o.verdict = 'error' FROM items AS i CROSS JOIN outcomes AS o"
        " ON o.dataset = i.dataset AND o.id = i.id AND o.revision = i.revision"
        " WHERE i.dataset = ? AND o.reason = 'flagged' AND i.state = 'decided'"
        " ORDER BY i.draw LIMIT ?",
        (dataset, MAX_FITTED_ITEMS),
    )
    return fit_bands((rank, bool(wrong)) for rank, wrong in rows)
