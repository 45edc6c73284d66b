"""How well a ranking finds what is wrong: the paper's figures and their bootstrap intervals. Low scores come first.

Tied scores are counted as ranking.py says, so no figure depends on the order of the rows.
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
"""Intervals hold this share of the resamples, cut evenly at both ends."""

_MAX_BLOCK_COUNTS: Final = 2_000_000
"""Counts handled at once, so that word-level resamples stay within a few tens of megabytes."""


def _compute_metric(metric: Callable[[RankingCounts], Floats], scores: ArrayLike, positives: ArrayLike) -> float:
    return float(metric(count_by_group(build_ranking(scores, positives)))[0])


def auroc(scores: ArrayLike, positives: ArrayLike) -> float:
    """Chance that a positive ranks before a negative."""
    return _compute_metric(METRICS["auroc"], scores, positives)


def auprc(scores: ArrayLike, positives: ArrayLike) -> float:
    """Trapezoid under precision over recall from the first ranked row on, as the paper has it."""
    return _compute_metric(METRICS["auprc"], scores, positives)


def average_precision(scores: ArrayLike, positives: ArrayLike) -> float:
    """Mean precision over the positives: the step-wise area, which starts at recall 0."""
    return _compute_metric(METRICS["ap"], scores, positives)


def precision_at(scores: ArrayLike, positives: ArrayLike, k: int) -> float:
    """Share of positives among the k worst rows (all rows where there are fewer than k)."""
    if k < 1:
        raise InvalidInput(f"precision at {k}: at least one row must be looked at", field="k")
    return _compute_metric(
        lambda of: count_hits_at(of, np.minimum(k, of.total)) / np.minimum(k, of.total), scores, positives
    )


def lift_at(scores: ArrayLike, positives: ArrayLike, k: int) -> float:
    """How many times denser positives are among the k worst rows than among all."""
    if k < 1:
        raise InvalidInput(f"lift at {k}: at least one row must be looked at", field="k")
    return _compute_metric(lambda of: compute_lift(of, np.full(len(of.hits), k)), scores, positives)


def compute_all_metrics(scores: ArrayLike, positives: ArrayLike) -> dict[str, float]:
    """Every figure of `METRICS_PATH` by name."""
    of = count_by_group(build_ranking(scores, positives))
    return {name: float(metric(of)[0]) for name, metric in METRICS.items()}


def compute_noise_matrix(given: ArrayLike, corrected: ArrayLike, n_classes: int) -> Ints:
    """Words by truth (rows) and given label (columns), as the paper's appendix has it."""
    truth, label = np.asarray(corrected, dtype=np.intp), np.asarray(given, dtype=np.intp)
    if truth.shape != label.shape:
        raise InvalidInput(f"{len(label)} given labels for {len(truth)} corrected ones", field="corrected")
    if len(truth) and (min(truth.min(), label.min()) < 0 or max(truth.max(), label.max()) >= n_classes):
        raise InvalidInput(f"a label lies outside the {n_classes} classes", field="given")
    return np.bincount(truth * n_classes + label, minlength=n_classes**2).reshape(n_classes, n_classes)


class EntityF1(NamedTuple):
    """Exact-match figures of predicted entities, over all sentences at once; NaN where there is nothing to count."""

    precision: float
    recall: float
    f1: float


def entity_f1(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: Scheme) -> EntityF1:
    """Micro F1 over entities: start, end and type must all agree."""
    expected = found = both = 0
    for index, (true_labels, labels) in enumerate(zip(truth, predicted, strict=True)):
        if len(true_labels) != len(labels):
            raise InvalidInput(f"{len(labels)} predictions for {len(true_labels)} words", sentence=index)
        true_spans, label_spans = set(parse_spans(true_labels, scheme)), set(parse_spans(labels, scheme))
        expected, found, both = (
            expected + len(true_spans),
            found + len(label_spans),
            both + len(true_spans & label_spans),
        )
    nan = float("nan")
    return EntityF1(
        both / found if found else nan,
        both / expected if expected else nan,
        2 * both / (expected + found) if expected + found else nan,
    )


class Interval(NamedTuple):
    """The middle `CONFIDENCE_LEVEL` of the resamples."""

    low: float
    high: float


class Difference(NamedTuple):
    """A figure of one ranking less that of another, on the same rows."""

    difference: float
    low: float
    high: float
    better: float
    """Share of the resamples in which the first ranking is ahead."""


def draw_resamples(n_units: int, n: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED) -> NDArray[np.int32]:
    """Draw n bootstrap resamples as counts per unit (sentence): `[n, n_units]`."""
    picks = np.random.default_rng(seed).integers(n_units, size=(n, n_units))
    flat = (picks + np.arange(n)[:, None] * n_units).ravel()
    return np.bincount(flat, minlength=n * n_units).reshape(n, n_units).astype(np.int32)


def compute_resampled_metrics(
    ranked: Ranking, draws: NDArray[np.int32], *, units: NDArray[np.intp] | None = None, names: Sequence[str] = ()
) -> dict[str, Floats]:
    """Figures of every resample. `units[row]` is the sentence of a word: words are drawn with their sentence."""
    wanted = {name: METRICS[name] for name in names or METRICS}
    step = max(1, _MAX_BLOCK_COUNTS // max(ranked.n_rows, 1))
    parts: dict[str, list[Floats]] = {name: [] for name in wanted}
    for start in range(0, len(draws), step):
        block = draws[start : start + step]
        of = count_by_group(ranked, block if units is None else block[:, units])
        for name, metric in wanted.items():
            parts[name].append(metric(of))
    return {name: np.concatenate(values) if values else np.empty(0) for name, values in parts.items()}


def _compute_interval(values: Floats) -> Interval:
    finite = values[np.isfinite(values)]  # a resample without any positive has no figure
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
    """Percentile intervals of every figure; `draws` that were made before save drawing them again.

    A row drawn twice is found twice at the same place, which lifts AUPRC and AP of resamples a little: the intervals
    lean upwards. In the differences of `paired_bootstrap` most of that cancels.
    """
    ranked = build_ranking(scores, positives)
    if draws is None:
        draws = draw_resamples(ranked.n_rows if units is None else int(units.max()) + 1, n, seed)
    return {
        name: _compute_interval(values)
        for name, values in compute_resampled_metrics(ranked, draws, units=units).items()
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
    """Figure of a less figure of b, with the interval over resamples that both share."""
    if metric not in METRICS:
        raise InvalidInput(f"no figure is called {metric!r}; there are {', '.join(METRICS)}", field="metric")
    ranked = [build_ranking(scores, positives) for scores in (scores_a, scores_b)]
    if ranked[0].n_rows != ranked[1].n_rows:
        raise InvalidInput(
            f"{ranked[0].n_rows} scores against {ranked[1].n_rows}: rows must be the same", field="scores"
        )
    a, b = (float(METRICS[metric](count_by_group(one))[0]) for one in ranked)
    draws = draw_resamples(ranked[0].n_rows, n, seed)
    values_a, values_b = (compute_resampled_metrics(one, draws, names=[metric])[metric] for one in ranked)
    differences = (values_a - values_b)[np.isfinite(values_a - values_b)]
    ahead = float((differences > 0).mean()) if len(differences) else float("nan")
    return Difference(a - b, *_compute_interval(differences), ahead)
