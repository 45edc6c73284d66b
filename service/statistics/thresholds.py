"""Flag thresholds and priority weights from raw statistics, with priors added on reading."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from service.contracts.defaults import MIN_WORDS, PRIOR_WORDS
from service.errors import InvalidInput
from service.scoring.confident import MIN_THRESHOLD, UNREACHABLE_THRESHOLD, compute_agreement_weights
from service.statistics.class_stats import PROBABILITY_TOLERANCE, SCALE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from service.statistics.class_stats import ClassStats

PRIORITY_PRIOR_WORDS = 20
PRIORITY_PRIOR_MEAN = 0.95
"""The prior of both means behind `priority`. Held-out statistics give an AUPRC of .480 to .483 instead of .486."""


@dataclass(frozen=True, slots=True)
class HeldOutStats:
    """A model's sums and counts per class, over words that it was not trained on."""

    sums: tuple[float, ...]
    counts: tuple[int, ...]
    means: tuple[float | None, ...] = field(init=False)  # None for a class without words

    def __post_init__(self) -> None:
        if len(self.sums) != len(self.counts):
            raise InvalidInput(f"{len(self.sums)} sums for {len(self.counts)} counts", field="held_out")
        for k, (s, n) in enumerate(zip(self.sums, self.counts, strict=True)):
            if n < 0 or not math.isfinite(s) or not 0 <= s <= n * (1 + PROBABILITY_TOLERANCE):
                raise InvalidInput(f"class {k}: {n} words can't have the sum {s}", field="held_out")
        means = tuple(s / n if n else None for s, n in zip(self.sums, self.counts, strict=True))
        object.__setattr__(self, "means", means)


def compute_flag_thresholds(
    stats: ClassStats,
    held_out: HeldOutStats | None,
    *,
    prior_words: int = PRIOR_WORDS,
    min_words: int = MIN_WORDS,
) -> NDArray[np.float64]:
    """The thresholds of the flag rule, one per class.

    A class with held-out words starts from their mean, weighted as `prior_words` words. A class without them has a
    threshold from `min_words` words of its own on; before that it has `confident.UNREACHABLE_THRESHOLD` and causes no flag.
    """
    if held_out is None or prior_words == 0:
        priors: Sequence[float | None] = (None,) * stats.n_classes
    elif len(held_out.counts) == stats.n_classes:
        priors = held_out.means
    else:
        raise InvalidInput(
            f"held-out statistics of {len(held_out.counts)} classes for {stats.n_classes}", field="held_out"
        )
    thresholds = []
    for s, n, prior in zip(stats.sums, stats.counts, priors, strict=True):  # 3 µs for 9 classes, with numpy 7 µs
        if prior is not None:
            threshold = (s / SCALE + prior_words * prior) / (n + prior_words)
        elif n and n >= min_words:
            threshold = s / SCALE / n
        else:
            threshold = UNREACHABLE_THRESHOLD
        thresholds.append(max(threshold, MIN_THRESHOLD))
    return np.array(thresholds)


def find_warming_up(stats: ClassStats, min_words: int = MIN_WORDS) -> tuple[int, ...]:
    """The classes with fewer than `min_words` words of their own. Prior words don't count."""
    return tuple([k for k, n in enumerate(stats.counts) if n < min_words])


def compute_priority_weights(
    stats: ClassStats,
    *,
    prior_words: int = PRIORITY_PRIOR_WORDS,
    prior_mean: float = PRIORITY_PRIOR_MEAN,
) -> NDArray[np.float64]:
    """The agreement weights behind `priority`, one per class. For priority with memory pass `stats.get_smoothed()`."""
    return compute_agreement_weights(
        stats.compute_given_means(prior_words=prior_words, prior_mean=prior_mean),
        stats.compute_agreeing_means(prior_words=prior_words, prior_mean=prior_mean),
    )
