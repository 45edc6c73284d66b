"""F1 of each annotator against the model with an interval, shrunk to the mean of the dataset's annotators.

F1 is the ratio 2·matched/(given + found), each a sum over sentences. On the logit scale:

1. The variance of a ratio of sums over sentences (delta method). With few sentences the residuals say little, so they are
   combined with the dispersion of all annotators, which counts as `POOLED_SENTENCES` sentences. The ratio in it is combined with
   that of all annotators too: otherwise a perfect start would have no weight, and a bad one too much.
2. A normal distribution of the annotators of a dataset, with an unknown mean and spread (empirical Bayes). The estimate of an
   annotator is pulled to the mean, the more the fewer sentences there are. The spread is not fixed at one value: the result is
   averaged over a grid, so that a handful of annotators does not make all of them look alike.
3. The interval adds the uncertainty of mean and spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from service.statistics.annotators.sums import AnnotatorSums

    Floats = NDArray[np.float64]

POOLED_SENTENCES = 20
POOLED_SPANS = 20
Z_95 = 1.96
PRIOR_SPREAD = 1.0  # of the spread itself, on the logit scale (half normal)
_SPREADS = np.geomspace(0.03, 4.0, 60)


class F1Estimate(NamedTuple):
    """`f1` is the ratio itself, `estimate` the shrunk one with its 95 % interval."""

    f1: float
    estimate: float
    low: float
    high: float


def estimate_f1(by_annotator: Mapping[str, AnnotatorSums]) -> dict[str, F1Estimate]:
    """The estimates of the annotators that have spans to compare."""
    names = [name for name, sums in by_annotator.items() if sums.totals.sentences_with_spans]
    if not names:
        return {}
    chosen = [by_annotator[name] for name in names]
    spans = [sums.spans for sums in chosen]
    matched = np.array([2.0 * each.matched for each in spans])
    total = np.array([float(each.total) for each in spans])
    sentences = np.array([float(sums.totals.sentences_with_spans) for sums in chosen])
    logits = np.log((matched + 0.5) / (total - matched + 0.5))
    variances = _compute_variances(chosen, matched, total, sentences)
    means, deviations = _shrink(logits, variances)
    # The quantile of Student's t, to the first order of the degrees of freedom.
    margins = Z_95 * (1 + (Z_95**2 + 1) / (4 * (sentences - 1 + POOLED_SENTENCES))) * deviations
    low, high = means - margins, means + margins
    rows = zip(matched / total, _expit(means), _expit(low), _expit(high), strict=True)
    return {name: F1Estimate(*map(float, row)) for name, row in zip(names, rows, strict=True)}


def _compute_variances(chosen: list[AnnotatorSums], matched: Floats, total: Floats, sentences: Floats) -> Floats:
    """The variance of each annotator's F1 on the logit scale."""
    pooled = (matched.sum() + 0.5) / (total.sum() + 1)
    spans_per_sentence = total / sentences
    ratio = (matched + POOLED_SPANS * pooled) / (total + POOLED_SPANS)
    squares = np.array(
        [[sums.totals.matched_squares, sums.totals.products, sums.totals.span_squares] for sums in chosen]
    )
    residuals = 4 * squares[:, 0] - 4 * ratio * squares[:, 1] + ratio**2 * squares[:, 2]
    binomial = ratio * (1 - ratio)
    dispersion = max(float(residuals.sum() / (binomial * total).sum()), 0.1)
    prior = POOLED_SENTENCES * dispersion * binomial * spans_per_sentence
    per_sentence = (residuals + prior) / (sentences - 1 + POOLED_SENTENCES)
    variance: Floats = per_sentence * sentences / total**2 / binomial**2
    return variance


def _shrink(values: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Posterior mean and standard deviation, averaged over spreads of the annotators."""
    precisions = 1 / (variances[:, None] + _SPREADS**2)  # annotators by spreads
    mean_precisions = precisions.sum(axis=0)
    means = (precisions * values[:, None]).sum(axis=0) / mean_precisions
    log_likelihood = 0.5 * (
        np.log(precisions).sum(axis=0)
        - np.log(mean_precisions)
        - (precisions * (values[:, None] - means) ** 2).sum(axis=0)
    )
    # The grid is even in the logarithm of the spread, hence the factor of the spread itself.
    log_weights = log_likelihood - 0.5 * (_SPREADS / PRIOR_SPREAD) ** 2 + np.log(_SPREADS)
    grid = np.exp(log_weights - log_weights.max())
    grid /= grid.sum()
    own = _SPREADS**2 * precisions  # weight of the own value
    posterior = own * values[:, None] + (1 - own) * means
    spread = own * variances[:, None] + (1 - own) ** 2 / mean_precisions
    estimate = posterior @ grid
    variance = (spread + (posterior - estimate[:, None]) ** 2) @ grid
    return estimate, np.sqrt(variance)


def _expit(values: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-values))
    return result
