"""How well a ranking finds wrong labels: the paper's metrics and their bootstrap intervals. Low scores come first.

Tied scores are counted as in ranking.py, so no metric depends on the order of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from service.errors import InvalidInput
from service.evaluation.ranking import (
    METRICS,
    Ranking,
    RankingCounts,
    build_ranking,
    compute_lift,
    count_by_group,
    count_hits_at,
)
from service.labels import Scheme, parse_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

DEFAULT_RESAMPLES: Final = 200
DEFAULT_SEED: Final = 2003
CONFIDENCE_LEVEL: Final = 0.95
"""The share of the resamples inside an interval, cut evenly at both ends."""

_MAX_BLOCK_COUNTS: Final = 2_000_000
"""Counts per block of resamples. It bounds the memory of word-level resamples."""


def _compute_metric(metric: Callable[[RankingCounts], Floats], scores: ArrayLike, positives: ArrayLike) -> float:
    return float(metric(count_by_group(build_ranking(scores, positives)))[0])


def auroc(scores: ArrayLike, positives: ArrayLike) -> float:
    """The probability that a positive ranks before a negative."""
    return _compute_metric(METRICS["auroc"], scores, positives)


def auprc(scores: ArrayLike, positives: ArrayLike) -> float:
    """The area under precision over recall by the trapezoid rule, from the first ranked row on, as in the paper."""
    return _compute_metric(METRICS["auprc"], scores, positives)


def average_precision(scores: ArrayLike, positives: ArrayLike) -> float:
    """Mean precision over the positives: the step-wise area, which starts at recall 0."""
    return _compute_metric(METRICS["ap"], scores, positives)


def precision_at(scores: ArrayLike, positives: ArrayLike, k: int) -> float:
    """The share of positives among the k worst rows (all rows if there are fewer than k)."""
    if k < 1:
        raise InvalidInput(f"precision at {k}: k must be at least 1", field="k")
    return _compute_metric(
        lambda counts: count_hits_at(counts, np.minimum(k, counts.total)) / np.minimum(k, counts.total),
        scores,
        positives,
    )


def lift_at(scores: ArrayLike, positives: ArrayLike, k: int) -> float:
    """How many times denser positives are among the k worst rows than among all."""
    if k < 1:
        raise InvalidInput(f"lift at {k}: k must be at least 1", field="k")
    return _compute_metric(lambda counts: compute_lift(counts, np.full(len(counts.hits), k)), scores, positives)


def compute_all_metrics(scores: ArrayLike, positives: ArrayLike) -> dict[str, float]:
    """All metrics of `METRICS` by name."""
    counts = count_by_group(build_ranking(scores, positives))
    return {name: float(metric(counts)[0]) for name, metric in METRICS.items()}


def compute_noise_matrix(given: ArrayLike, corrected: ArrayLike, n_classes: int) -> Ints:
    """Words by true label (rows) and given label (columns), as in the paper's appendix."""
    truth, label = np.asarray(corrected, dtype=np.intp), np.asarray(given, dtype=np.intp)
    if truth.shape != label.shape:
        raise InvalidInput(f"{len(label)} given labels for {len(truth)} corrected ones", field="corrected")
    if len(truth) and (min(truth.min(), label.min()) < 0 or max(truth.max(), label.max()) >= n_classes):
        raise InvalidInput(f"a label is outside the {n_classes} classes", field="given")
    return np.bincount(truth * n_classes + label, minlength=n_classes**2).reshape(n_classes, n_classes)


class EntityF1(NamedTuple):
    """Exact-match metrics of predicted entities over all sentences. NaN if there is nothing to count."""

    precision: float
    recall: float
    f1: float


def entity_f1(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: Scheme) -> EntityF1:
    """Micro F1 over entities: start, end and type must all agree."""
    n_true = n_predicted = n_both = 0
    for index, (true_labels, labels) in enumerate(zip(truth, predicted, strict=True)):
        if len(true_labels) != len(labels):
            raise InvalidInput(f"{len(labels)} predictions for {len(true_labels)} words", sentence=index)
        true_spans, label_spans = set(parse_spans(true_labels, scheme)), set(parse_spans(labels, scheme))
        n_true += len(true_spans)
        n_predicted += len(label_spans)
        n_both += len(true_spans & label_spans)
    nan = float("nan")
    return EntityF1(
        n_both / n_predicted if n_predicted else nan,
        n_both / n_true if n_true else nan,
        2 * n_both / (n_true + n_predicted) if n_true + n_predicted else nan,
    )


class Interval(NamedTuple):
    """The middle `CONFIDENCE_LEVEL` of the resamples."""

    low: float
    high: float


class Difference(NamedTuple):
    """A metric of one ranking minus that of another, on the same rows."""

    difference: float
    low: float
    high: float
    better: float
    """The share of the resamples in which the first ranking is better."""


def draw_resamples(n_units: int, n: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED) -> NDArray[np.int32]:
    """Draws n bootstrap resamples as counts per unit (sentence): `[n, n_units]`."""
    picks = np.random.default_rng(seed).integers(n_units, size=(n, n_units))
    flat = (picks + np.arange(n)[:, None] * n_units).ravel()
    return np.bincount(flat, minlength=n * n_units).reshape(n, n_units).astype(np.int32)


def compute_resampled_metrics(
    ranking: Ranking, draws: NDArray[np.int32], *, units: NDArray[np.intp] | None = None, names: Sequence[str] = ()
) -> dict[str, Floats]:
    """The metrics of every resample. `units[row]` is the sentence of a word: words are drawn with their sentence."""
    metrics = {name: METRICS[name] for name in names or METRICS}
    step = max(1, _MAX_BLOCK_COUNTS // max(ranking.n_rows, 1))
    parts: dict[str, list[Floats]] = {name: [] for name in metrics}
    for start in range(0, len(draws), step):
        block = draws[start : start + step]
        counts = count_by_group(ranking, block if units is None else block[:, units])
        for name, metric in metrics.items():
            parts[name].append(metric(counts))
    return {name: np.concatenate(values) if values else np.empty(0) for name, values in parts.items()}


def _compute_interval(values: Floats) -> Interval:
    finite = values[np.isfinite(values)]  # the metric of a resample without positives is NaN
    if not len(finite):
        return Interval(float("nan"), float("nan"))
    low, high = np.quantile(finite, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
    return Interval(float(low), float(high))


def bootstrap(
    scores: ArrayLike,
    positives: ArrayLike,
    *,
    n: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
    draws: NDArray[np.int32] | None = None,
    units: NDArray[np.intp] | None = None,
) -> dict[str, Interval]:
    """Percentile intervals of every metric. `draws` reuses resamples drawn before.

    A row drawn twice counts twice at the same rank, which raises AUPRC and AP of resamples a little, so the intervals
    are biased upwards. In the differences of `paired_bootstrap` most of the bias cancels.
    """
    ranking = build_ranking(scores, positives)
    if draws is None:
        draws = draw_resamples(ranking.n_rows if units is None else int(units.max()) + 1, n, seed)
    return {
        name: _compute_interval(values)
        for name, values in compute_resampled_metrics(ranking, draws, units=units).items()
    }


def paired_bootstrap(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    positives: ArrayLike,
    metric: str = "ap",
    *,
    n: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
) -> Difference:
    """The metric of a minus that of b, with its interval over the same resamples."""
    if metric not in METRICS:
        raise InvalidInput(f"unknown metric {metric!r}: use one of {', '.join(METRICS)}", field="metric")
    rankings = [build_ranking(scores, positives) for scores in (scores_a, scores_b)]
    if rankings[0].n_rows != rankings[1].n_rows:
        raise InvalidInput(
            f"{rankings[0].n_rows} scores against {rankings[1].n_rows}: both need the same rows", field="scores"
        )
    a, b = (float(METRICS[metric](count_by_group(ranking))[0]) for ranking in rankings)
    draws = draw_resamples(rankings[0].n_rows, n, seed)
    values_a, values_b = (compute_resampled_metrics(ranking, draws, names=[metric])[metric] for ranking in rankings)
    differences = (values_a - values_b)[np.isfinite(values_a - values_b)]
    share_better = float((differences > 0).mean()) if len(differences) else float("nan")
    return Difference(a - b, *_compute_interval(differences), share_better)
