"""Exact bounds for the number of wrong units in a finite population, from a random sample without replacement.

The sample's number of wrong units is hypergeometric. A bound is the most extreme number of wrong units that still makes
the sample, or a more extreme one, at least as probable as `tail` (Clopper-Pearson's rule for finite populations). So each
bound is missed with a probability of at most `tail`, whatever the size and however rare the errors.
"""

from __future__ import annotations

import math

import numpy as np

# Terms that are farther from the mean (or from the number itself, if it is below) add less than rounding does: 10 binomial
# standard deviations and 50 units, by Bernstein's inequality. So the time grows with the root of the sample.
MAX_DEVIATIONS = 10.0
MIN_REACH = 50.0


def compute_bounds(size: int, sample: int, wrong: int, tail: float) -> tuple[int, int]:
    """The lowest and the highest plausible number of wrong units among `size`, of which `sample` were looked at."""
    return compute_lower_bound(size, sample, wrong, tail), compute_upper_bound(size, sample, wrong, tail)


def compute_upper_bound(size: int, sample: int, wrong: int, tail: float) -> int:
    low, high = wrong, size - (sample - wrong)
    while low < high:  # the largest number at which so few wrong ones are not too improbable
        middle = (low + high + 1) // 2
        if compute_cdf(wrong, size, middle, sample) > tail:
            low = middle
        else:
            high = middle - 1
    return low


def compute_lower_bound(size: int, sample: int, wrong: int, tail: float) -> int:
    right = sample - wrong
    return size - compute_upper_bound(size, sample, right, tail)


def compute_cdf(wrong: int, size: int, total_wrong: int, sample: int) -> float:
    """The probability of at most `wrong` wrong units in a sample of a population with `total_wrong` of them."""
    first = max(0, sample - (size - total_wrong))
    if wrong < first:
        return 0.0
    if wrong >= min(sample, total_wrong):
        return 1.0
    mean = sample * total_wrong / size
    reach = MIN_REACH + MAX_DEVIATIONS * math.sqrt(mean * (1 - total_wrong / size))
    if wrong > mean + reach:
        return 1.0
    lowest = max(first, math.floor(min(wrong, mean) - reach))
    last = _log_choose(total_wrong, wrong) + _log_choose(size - total_wrong, sample - wrong) - _log_choose(size, sample)
    k = np.arange(wrong, lowest, -1, dtype=np.float64)
    ratios = np.log(k) + np.log(size - total_wrong - sample + k) - np.log(total_wrong - k + 1) - np.log(sample - k + 1)
    terms = np.concatenate(([0.0], np.cumsum(ratios)))
    return min(1.0, float(np.exp(last + terms).sum()))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
