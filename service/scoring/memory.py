"""What memory makes of the probabilities of a sentence: smoothed probabilities, conventions, and the priority.

Counts come from service/statistics/memory. For each word with probabilities q of merged types and given type G:

1. Mention smoothing, for words with a form: log q' = log q + Σ w · n/(n + ½) · (log M − log q), normalised. M is the
   model's own mean q over n earlier words, from two sources: words of the same form, and words in the same template.
   Recent words of the form count once, and with a history all earlier ones .3 in addition. q' is spread back to the
   classes in proportion.
2. Convention: (c_G − c_J) / (n + 1) with c the given types of earlier words in the same template and J the likeliest
   other type: positive where annotators gave this type in this pattern, negative where they gave the other one.
3. Gate: how far conventions were right so far, from the words on which the model disagrees with the label.

The parameters come from a study on several data sets, the CoNLL-2003 test set among them. A grid that was scored without
that set still gains .032 AUPRC on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from service.labels import OUTSIDE, Scheme, merge_by_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from service.scoring.flat import Floats, Ints

    Integers = NDArray[np.int64]

TYPE_SCALE: Final = 2**20
"""Units of one in sums of type probabilities. M adds 1e-4 to each sum, a hundred times the rounding error."""

HALF_WEIGHT_WORDS: Final = 0.5  # a source with so many words has half of its weight
MEAN_PRIOR: Final = 1e-4  # of each type in M
MIN_TYPE_PROBABILITY: Final = 1e-12  # the logarithm of zero

GATE_SCALE: Final = 2**20
GATE_FACTOR: Final = 5.0
GATE_PRIOR_WORDS: Final = 10
CONVENTION_WEIGHT: Final = 1.2  # on log-odds; the study's .6 is on half of them

MIN_ODDS: Final = 1e-3  # added to a score, so that a convention moves a score of 0 too
SATURATED_DOUBT: Final = 1e-4  # below it, the doubt 1 − score hardly counts: a convention may outweigh it
SATURATED_EXPONENT: Final = 0.02  # but it still decides the order of sentences without a convention


class SmoothingWeights(NamedTuple):
    """The weights of the two sources, and how much a word of the history counts."""

    form: float
    template: float
    history: float

    @property
    def has_history(self) -> bool:
        return self.history > 0


@dataclass(frozen=True)
class TypeMerge:
    """The types of a class list: which class belongs to which type."""

    names: tuple[str, ...]
    of_class: tuple[int, ...]
    outside: int | None  # the type `O`, if there is one

    @classmethod
    def from_classes(cls, classes: Sequence[str], scheme: Scheme | None = None) -> TypeMerge:
        """The types of the classes of a scheme; None: the scheme that their names show."""
        names, of_class = merge_by_type(classes, scheme)
        return cls(names, of_class, names.index(OUTSIDE) if OUTSIDE in names else None)

    @property
    def n_types(self) -> int:
        return len(self.names)

    @cached_property
    def index(self) -> Ints:
        """The type of each class."""
        return np.array(self.of_class, np.intp)

    @cached_property
    def _columns(self) -> tuple[Ints, Ints]:
        """Classes sorted by type, and where each type starts."""
        order = np.argsort(self.index, kind="stable")
        return order, np.searchsorted(self.index[order], np.arange(self.n_types))

    def sum_types(self, probs: Floats) -> Floats:
        """Class probabilities [N, K] as type probabilities [N, T]. Not a matrix product, whose order of sums may vary."""
        if len(self.of_class) == self.n_types and self.of_class == tuple(range(self.n_types)):
            return probs
        order, starts = self._columns
        return np.add.reduceat(probs.take(order, axis=1), starts, axis=1)


class MemoryCounts(NamedTuple):
    """What memory holds about the words of a sentence.

    Per word with a form [M, 1 + T]: the number of earlier words, and their summed type probabilities in units of
    1/TYPE_SCALE. Per word [N, 1 + 2T]: the same of the template, and the number of its words by given type.
    `gate_sum` is in units of 1/GATE_SCALE.
    """

    with_form: Sequence[int]  # the words with a form, as indexes of 0…N−1
    recent: Integers
    older: Integers | None  # of the history, where there is one: words of the form that are not recent
    template: Integers
    gate_sum: int
    gate_words: int
    sentences: tuple[int, ...] = ()  # that each memory has learned from


class WordConventions(NamedTuple):
    """The convention of each word, and the sum over words that the gate learns from."""

    values: Floats
    gate_sum: int
    gate_words: int


def smooth_probs(
    probs: Floats, types: Floats, counts: MemoryCounts, merge: TypeMerge, weights: SmoothingWeights
) -> Floats | None:
    """Class probabilities after mention smoothing; None if they stay. `types` is `merge.sum_types(probs)`."""
    rows = counts.with_form
    if not len(rows):
        return None
    sources = np.empty((2, len(rows), 1 + merge.n_types))
    sources[0] = counts.recent
    if counts.older is not None:  # the history is of all words, the recent ones too
        sources[0] += weights.history * (counts.recent + counts.older)
    sources[1] = counts.template.take(rows, axis=0)[:, : 1 + merge.n_types]
    n_words = sources[:, :, :1]
    if not n_words.any():
        return None
    ratios = sources[:, :, 1:]  # M / q
    ratios += MEAN_PRIOR * TYPE_SCALE
    ratios /= (n_words + MEAN_PRIOR * merge.n_types) * TYPE_SCALE
    ratios /= np.maximum(types.take(rows, axis=0), MIN_TYPE_PROBABILITY)
    np.log(ratios, out=ratios)
    ratios *= n_words / (n_words + HALF_WEIGHT_WORDS)
    # At most .6 · ln 1e12, so that no exponential overflows.
    shift = weights.form * ratios[0] + weights.template * ratios[1]
    moved = probs.take(rows, axis=0)
    moved *= np.exp(shift).take(merge.index, axis=1)
    moved /= moved.sum(axis=1, keepdims=True)
    smoothed = probs.copy()
    smoothed[rows] = moved
    return smoothed


def compute_conventions(types: Floats, given_types: Ints, counts: MemoryCounts, n_types: int) -> WordConventions:
    """What annotators did in the same templates: above 0 where it supports the given type, below where it does not."""
    n_words = counts.template[:, 0]
    known = n_words.nonzero()[0]
    values = np.zeros(len(given_types))
    if not len(known):
        return WordConventions(values, 0, 0)
    given = given_types[known]
    known_types, given_counts = types[known], counts.template[known, 1 + n_types :]
    positions = np.arange(len(known))
    others = known_types.copy()
    others[positions, given] = -1.0
    other = others.argmax(axis=1)
    conventions = (given_counts[positions, given] - given_counts[positions, other]) / (n_words[known] + 1)
    values[known] = conventions
    disagrees = known_types.argmax(axis=1) != given
    if not disagrees.any():
        return WordConventions(values, 0, 0)
    learned = np.rint(conventions[disagrees] * GATE_SCALE).astype(np.int64)
    return WordConventions(values, int(learned.sum()), len(learned))


def compute_gate(gate_sum: int, gate_words: int) -> float:
    """How far conventions count, from 0 to 1."""
    return min(max(GATE_FACTOR * (gate_sum / GATE_SCALE) / (gate_words + GATE_PRIOR_WORDS), 0.0), 1.0)


def apply_conventions(scores: Floats, conventions: Floats, gate: float) -> Floats:
    """The priority of each word: its score, with the log-odds moved by the convention. Low is bad; from 0 to 1.

    A score without a convention keeps its place in the order: (score + 1e-3) / 1.001 up to 1 − SATURATED_DOUBT.
    """
    doubt = 1 - scores
    saturated = doubt < SATURATED_DOUBT
    if saturated.any():
        low = np.maximum(doubt[saturated], 0.0) / SATURATED_DOUBT
        doubt[saturated] = SATURATED_DOUBT * low**SATURATED_EXPONENT
    support = scores + MIN_ODDS
    if gate:
        support = support * np.exp(CONVENTION_WEIGHT * gate * conventions)
    return support / (support + doubt)
