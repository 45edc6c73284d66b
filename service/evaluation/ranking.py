"""Counts along a ranking, for a data set and for many bootstrap resamples of it at once.

Equal scores have no order, so no metric depends on the order of the input rows. AUPRC, precision@K and lift are the
exact mean over all orders of the tied rows; without ties they are what the paper computes. AUROC counts a tie as half,
and average precision takes tied rows in one step, both as in scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows sorted from worst to best, in groups of equal score."""

    order: NDArray[np.intp]
    group_ends: NDArray[np.intp]
    hit_rows: NDArray[np.intp]
    hit_starts: NDArray[np.intp]
    hit_groups: NDArray[np.intp]

    @property
    def n_rows(self) -> int:
        """Number of ranked rows."""
        return len(self.order)


def build_ranking(scores: ArrayLike, positives: ArrayLike) -> Ranking:
    """Sorts the rows once for all metrics and all resamples."""
    values = np.asarray(scores, dtype=np.float64)
    wrong = np.asarray(positives, dtype=bool)
    if not values.size:
        raise InvalidInput("there is nothing to rank", field="scores")
    if values.ndim != 1 or values.shape != wrong.shape:
        raise InvalidInput(
            f"{values.shape} scores for {wrong.shape} truths: each row needs one of both", field="scores"
        )
    if np.isnan(values).any():
        raise InvalidInput(f"row {int(np.isnan(values).argmax())} has no score (NaN)", field="scores")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ends_group = np.ones(len(order), dtype=bool)
    ends_group[:-1] = ordered[1:] != ordered[:-1]
    group_ends = np.flatnonzero(ends_group) + 1
    hit_positions = np.flatnonzero(wrong[order])
    groups_of_hits = np.searchsorted(group_ends, hit_positions, side="right")
    hit_groups, hit_starts = np.unique(groups_of_hits, return_index=True)
    return Ranking(order, group_ends, order[hit_positions], hit_starts, hit_groups)


@dataclass(frozen=True, slots=True)
class RankingCounts:
    """Counts per resample (first axis) and per group (second axis; only groups with positives unless noted)."""

    up_to: Ints
    """Rows up to the end of each group, for all groups."""
    hit_groups: NDArray[np.intp]
    before: Ints
    size: Ints
    hits: Ints
    hits_before: Ints

    @property
    def total(self) -> Ints:
        """Rows in each resample."""
        return self.up_to[:, -1]

    @property
    def positives(self) -> Ints:
        """Positives in each resample."""
        return np.asarray(self.hits.sum(axis=1))


def count_by_group(ranking: Ranking, draws: NDArray[np.integer] | None = None) -> RankingCounts:
    """Counts by group. `draws[b, row]` says how often resample b contains the row (None: every row once)."""
    weights = np.ones((1, ranking.n_rows), dtype=np.int64) if draws is None else draws
    up_to = np.cumsum(weights[:, ranking.order], axis=1, dtype=np.int64)[:, ranking.group_ends - 1]
    hits = np.zeros((len(weights), 0), dtype=np.int64)
    if len(ranking.hit_rows):
        hits = np.add.reduceat(weights[:, ranking.hit_rows], ranking.hit_starts, axis=1, dtype=np.int64)
    padded = np.concatenate([np.zeros((len(weights), 1), dtype=np.int64), up_to], axis=1)
    before = padded[:, ranking.hit_groups]
    return RankingCounts(
        up_to=up_to,
        hit_groups=ranking.hit_groups,
        before=before,
        size=padded[:, ranking.hit_groups + 1] - before,
        hits=hits,
        hits_before=np.cumsum(hits, axis=1) - hits,
    )


def _divide(above: NDArray[np.generic], below: NDArray[np.generic]) -> Floats:
    """Divides. NaN where the divisor is 0 (no positives, no negatives)."""
    numerator = np.asarray(above, dtype=np.float64)
    return np.asarray(np.divide(numerator, below, out=np.full(numerator.shape, np.nan), where=below != 0))


def _auroc(counts: RankingCounts) -> Floats:
    negatives = counts.total - counts.positives
    tied = counts.size - counts.hits
    after = negatives[:, None] - (counts.before - counts.hits_before) - tied
    return _divide((counts.hits * (after + tied / 2)).sum(axis=1), counts.positives * negatives)


def _average_precision(counts: RankingCounts) -> Floats:
    ends = np.maximum(counts.before + counts.size, 1)
    return _divide((counts.hits * (counts.hits_before + counts.hits) / ends).sum(axis=1), counts.positives)


def _auprc(counts: RankingCounts) -> Floats:
    """The mean area over all orders of tied rows.

    In a group of n rows with m positives that starts after r rows with h positives, the i-th row is positive
    with probability m/n, and then (m-1)(i-1)/(n-1) of the group's other positives are before it. So the step in
    recall at rank r+i has the mean height ½[(h + 1 + c(i-1))/(r+i) + (h + c(i-1))/(r+i-1)], c = (m-1)/(n-1), whose sum
    over i is a difference of harmonic numbers. There is no step before rank 1: the curve starts at the first row.
    """
    if not counts.hits.size:
        return np.full(len(counts.hits), np.nan)
    r, n, m, h = counts.before, counts.size, counts.hits, counts.hits_before
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, int(counts.total.max()) + 1))])
    share = np.divide(m - 1, n - 1, out=np.zeros(n.shape), where=(n > 1) & (m > 0))
    first = r == 0
    here = share * n + (h + 1 - share - share * r) * (harmonic[r + n] - harmonic[r])
    previous_n = np.where(first, n - 1, n)
    span = harmonic[np.maximum(r + n - 1, 0)] - harmonic[np.maximum(r - 1, 0)]
    previous = share * previous_n + (h - share * r) * span
    height = (here - first + previous) / 2
    return _divide((m * height / np.maximum(n, 1)).sum(axis=1), counts.positives)


def count_hits_at(counts: RankingCounts, k: Ints) -> Floats:
    """The mean number of positives in the first k rows of each resample."""
    rows = np.arange(len(counts.up_to))
    group = (counts.up_to < k[:, None]).sum(axis=1)
    # Columns of `hits` that are entirely in the first k rows, and the one (if any) that k splits.
    column = np.searchsorted(counts.hit_groups, group)
    cumulative = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(counts.hits, axis=1)], axis=1)
    hits = cumulative[rows, column]
    split = np.flatnonzero(np.isin(group, counts.hit_groups))
    split_column = column[split]
    inside = k[split] - counts.before[split, split_column]
    hits[split] += counts.hits[split, split_column] * inside / counts.size[split, split_column]
    return np.asarray(hits, dtype=np.float64)


def compute_lift(counts: RankingCounts, k: Ints) -> Floats:
    k = np.clip(k, 1, counts.total)
    return _divide(count_hits_at(counts, k) * counts.total, k * counts.positives)


METRICS: Final[Mapping[str, Callable[[RankingCounts], Floats]]] = {
    "auprc": _auprc,
    "ap": _average_precision,
    "auroc": _auroc,
    "lift_at_t": lambda counts: compute_lift(counts, counts.positives),
    "lift_at_t1": lambda counts: compute_lift(counts, counts.positives + 1),
}
