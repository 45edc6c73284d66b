"""Class statistics: per class, the sum of the model's probabilities of the given label, and the number of words.

Probabilities are added as integers in units of 1/SCALE. Integer addition does not depend on the order, so any split of
a stream into batches, partitions and merges gives the same bits. Python's integers never overflow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from service.errors import InvalidInput, StateError
from service.scoring.confident import compute_thresholds
from service.statistics.snapshots import MAX_COUNT, SnapshotFormat, read_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Integers = NDArray[np.integer[Any]]

SCALE = 2**40
"""Units of one: the error of a probability is at most 4.5e-13, far less than the 1e-6 of the flag rule."""

PROBABILITY_TOLERANCE = 1e-3
"""A row may sum to 1 ± this (scoring.flat), so one probability may exceed 1 by as much."""

_SCALE = float(SCALE)
_MAX_PARTS = round(SCALE * (1 + PROBABILITY_TOLERANCE))
_MAX_PARTS_FLOAT = float(_MAX_PARTS)
_MAX_LOOP_WORDS = 64  # a Python loop takes 9 µs for 20 words and 20 µs for 60, numpy 24 µs for either
_MAX_CHUNK_WORDS = 2**22  # the int64 sum of so many scaled probabilities can't overflow
_ROWS = np.arange(_MAX_LOOP_WORDS)
_FIELDS = ("sums", "counts", "agree_sums", "agree_counts")

# Version 2 has `smoothed`. A reader of version 1 ignores it and weighs priorities without memory.
CLASS_STATS_FORMAT = SnapshotFormat("class statistics", version=2, fields=_FIELDS, optional=("smoothed",), min_reader=1)


@dataclass(frozen=True, slots=True)
class ClassStats:
    """Sums of p(given) and numbers of words per given class: over all words, and where the model agrees.

    The model agrees with a word if its argmax (of equal classes the first) is the given class. Raw sums only: priors are
    added on reading (thresholds.py). Immutable: `update` and `merge` return new statistics.
    """

    sums: tuple[int, ...]
    counts: tuple[int, ...]
    agree_sums: tuple[int, ...]
    agree_counts: tuple[int, ...]
    smoothed: ClassStats | None = None
    """The same of the probabilities after mention smoothing, for the weights behind `priority`; None: they are equal."""

    @classmethod
    def empty(cls, n_classes: int) -> ClassStats:
        """Statistics of no words."""
        if n_classes < 1:
            raise InvalidInput(f"there must be at least one class, not {n_classes}", field="n_classes")
        zeros = (0,) * n_classes
        return cls(zeros, zeros, zeros, zeros)

    @property
    def n_classes(self) -> int:
        return len(self.sums)

    @property
    def n_words(self) -> int:
        return sum(self.counts)

    @property
    def is_empty(self) -> bool:
        return not any(self.counts)

    def update(self, probs: Floats, given: Integers, *, smoothed: Floats | None = None) -> ClassStats:
        """These statistics with the words of one or more sentences added: probs [N, K], given [N].

        `smoothed` has the probabilities after mention smoothing, where they differ.
        """
        stats = self._update_own(probs, given)
        if self.smoothed is None and (smoothed is None or not len(given)):
            return stats
        return ClassStats(
            stats.sums,
            stats.counts,
            stats.agree_sums,
            stats.agree_counts,
            self.get_smoothed().update(probs if smoothed is None else smoothed, given),
        )

    def get_smoothed(self) -> ClassStats:
        """The statistics of the probabilities after mention smoothing."""
        return self if self.smoothed is None else self.smoothed

    def _update_own(self, probs: Floats, given: Integers) -> ClassStats:
        """`update` without `smoothed`."""
        if probs.ndim != 2 or probs.shape[1] != self.n_classes:
            raise InvalidInput(f"shape {probs.shape} where [words, {self.n_classes} classes] is needed", field="probs")
        if given.shape != probs.shape[:1]:
            raise InvalidInput(f"shape {given.shape} for {probs.shape[0]} words", field="given")
        if given.dtype.kind not in "iu":
            raise InvalidInput(f"labels of type {given.dtype} are not integers", field="given")
        if len(given) <= _MAX_LOOP_WORDS:
            return self._update_short(probs, given) if len(given) else replace(self, smoothed=None)
        stats = self
        for start in range(0, len(given), _MAX_CHUNK_WORDS):
            stats = stats._update_many(probs[start : start + _MAX_CHUNK_WORDS], given[start : start + _MAX_CHUNK_WORDS])
        return stats

    def _update_short(self, probs: Floats, given: Integers) -> ClassStats:
        try:
            own = probs[_ROWS[: len(given)], given]
        except IndexError:
            _raise_invalid_word(probs, given)
        scaled = np.rint(np.multiply(own, _SCALE, dtype=np.float64))
        sums, counts = list(self.sums), list(self.counts)
        agree_sums, agree_counts = list(self.agree_sums), list(self.agree_counts)
        for label, part, best in zip(given.tolist(), scaled.tolist(), probs.argmax(axis=1).tolist(), strict=True):
            if not 0.0 <= part <= _MAX_PARTS_FLOAT or label < 0:  # numpy counts a negative index from the end
                _raise_invalid_word(probs, given)
            parts = int(part)
            sums[label] += parts
            counts[label] += 1
            if best == label:
                agree_sums[label] += parts
                agree_counts[label] += 1
        return ClassStats(tuple(sums), tuple(counts), tuple(agree_sums), tuple(agree_counts))

    def _update_many(self, probs: Floats, given: Integers) -> ClassStats:
        if given.min() < 0 or given.max() >= self.n_classes:
            _raise_invalid_word(probs, given)
        labels = given.astype(np.intp, copy=False)
        scaled = np.rint(np.multiply(probs[np.arange(len(labels)), labels], _SCALE, dtype=np.float64))
        if not (scaled.min() >= 0.0 and scaled.max() <= _MAX_PARTS):  # in this form a NaN fails too
            _raise_invalid_word(probs, given)
        parts = scaled.astype(np.int64)
        agrees = probs.argmax(axis=1) == labels
        return ClassStats(
            _add(self.sums, _sum_by_class(parts, labels, self.n_classes)),
            _add(self.counts, np.bincount(labels, minlength=self.n_classes).tolist()),
            _add(self.agree_sums, _sum_by_class(parts[agrees], labels[agrees], self.n_classes)),
            _add(self.agree_counts, np.bincount(labels[agrees], minlength=self.n_classes).tolist()),
        )

    def merge(self, other: ClassStats) -> ClassStats:
        """The sum of both. The order of merges does not matter."""
        if len(self.sums) != len(other.sums):
            raise StateError(f"statistics of {self.n_classes} and of {other.n_classes} classes can't be merged")
        has_smoothed = self.smoothed is not None or other.smoothed is not None
        return ClassStats(
            _add(self.sums, other.sums),
            _add(self.counts, other.counts),
            _add(self.agree_sums, other.agree_sums),
            _add(self.agree_counts, other.agree_counts),
            self.get_smoothed().merge(other.get_smoothed()) if has_smoothed else None,
        )

    def compute_given_means(self, *, prior_words: int = 0, prior_mean: float = 0.0) -> NDArray[np.float64]:
        """Mean p(k) over the words given k and `prior_words` more at `prior_mean`; without any word, `prior_mean`."""
        return _compute_means(self.sums, self.counts, prior_words, prior_mean)

    def compute_agreeing_means(self, *, prior_words: int = 0, prior_mean: float = 0.0) -> NDArray[np.float64]:
        """The same over the words given k where the model agrees."""
        return _compute_means(self.agree_sums, self.agree_counts, prior_words, prior_mean)

    def compute_thresholds(self) -> NDArray[np.float64]:
        """Confident-learning thresholds of these words alone, without priors, as in one batch pass."""
        return compute_thresholds(np.array([s / SCALE for s in self.sums]), np.array(self.counts, dtype=np.int64))

    def snapshot(self) -> dict[str, object]:
        """As a JSON object."""
        smoothed = {} if self.smoothed is None else {"smoothed": self.smoothed.snapshot()}
        return CLASS_STATS_FORMAT.write({**{name: list(getattr(self, name)) for name in _FIELDS}, **smoothed})

    @classmethod
    def restore(cls, snapshot: object) -> ClassStats:
        """Reads `snapshot()` back; StateError if it is not valid."""
        fields = CLASS_STATS_FORMAT.read(snapshot)
        sums, counts, agree_sums, agree_counts = (read_counts(fields[name], f"`{name}`") for name in _FIELDS)
        stats = cls(sums, counts, agree_sums, agree_counts)
        if not 0 < len(stats.sums) == len(stats.counts) == len(stats.agree_sums) == len(stats.agree_counts):
            lengths = ", ".join(f"{name} {len(getattr(stats, name))}" for name in _FIELDS)
            raise StateError(f"class statistics need one entry per class in each list, the lengths are: {lengths}")
        if max(stats.counts) > MAX_COUNT:
            raise StateError(f"class statistics of {max(stats.counts)} words in one class can't be real")
        for k, (s, n, agree_s, agree_n) in enumerate(
            zip(stats.sums, stats.counts, stats.agree_sums, stats.agree_counts, strict=True)
        ):
            if agree_s > agree_n * _MAX_PARTS or not 0 <= s - agree_s <= (n - agree_n) * _MAX_PARTS:
                raise StateError(f"the statistics of class {k} contradict each other: no words can have given them")
        return stats if fields.get("smoothed") is None else stats._with_smoothed(cls.restore(fields["smoothed"]))

    def _with_smoothed(self, smoothed: ClassStats) -> ClassStats:
        if smoothed.smoothed is not None or smoothed.counts != self.counts:
            raise StateError("`smoothed` should be the statistics of the same words, with the same counts")
        return replace(self, smoothed=smoothed)


def _add(ours: tuple[int, ...], theirs: Sequence[int]) -> tuple[int, ...]:
    return tuple([a + b for a, b in zip(ours, theirs, strict=True)])


def _sum_by_class(parts: NDArray[np.int64], labels: NDArray[np.intp], n_classes: int) -> list[int]:
    sums = np.zeros(n_classes, dtype=np.int64)
    np.add.at(sums, labels, parts)  # bincount would add in float64, which is exact only up to 2**53
    return [int(s) for s in sums]


def _compute_means(
    sums: tuple[int, ...], counts: tuple[int, ...], prior_words: int, prior_mean: float
) -> NDArray[np.float64]:
    prior = prior_words * prior_mean
    return np.array(
        [
            (s / SCALE + prior) / (n + prior_words) if n + prior_words else prior_mean
            for s, n in zip(sums, counts, strict=True)
        ]
    )


def _raise_invalid_word(probs: Floats, given: Integers) -> NoReturn:
    """Names the first word that can't be added."""
    n_classes = probs.shape[1]
    outside = np.flatnonzero((given < 0) | (given >= n_classes))
    if len(outside):
        word = int(outside[0])
        raise InvalidInput(f"label {given[word]} is not a class from 0 to {n_classes - 1}", field="given", word=word)
    own = probs[np.arange(len(given)), given]
    word = int(np.argmin((own >= 0) & (own <= 1 + PROBABILITY_TOLERANCE)))
    raise InvalidInput(f"probability {own[word]} is not between 0 and 1", field="probs", word=word)
