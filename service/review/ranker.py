"""The ranker: it learns from decisions which types are wrong more often, or less often, than their scores say.

A word has the logit z = x0 + u[type of its given label] + v[that type, suggested type], with x0 = ½·ln((1 − s)/s) and s its
weighted score. A word that was not shown as doubtful has no suggested type, and no v. A sentence has the largest logit of its
words. The coefficient of x0 is fixed at 1. A bias is fitted, but does not affect the order. The offsets u and v have Gaussian
priors. So without decisions the order is that of the priority, and few decisions change little.

The fit depends on the set of decisions alone: they are sorted by time and key, whatever order the partitions of the topic
were read in, and Newton's method always starts at zero. So all replicas fit the same numbers. The fit uses decisions in
batches (`round_down_to_batch`): a queue that changes its order with every decision is hard to work on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from service.labels import get_entity_type
from service.review.decisions import find_wrong_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from service.contracts import Decision, Flag, Shown

TypePair: TypeAlias = tuple[str, str]
"""The types of the given and of the suggested label."""

MIN_SCORE: Final = 1e-6
MAX_SCORE: Final = 1 - 1e-3
MIN_DECISIONS: Final = 25
MIN_BATCH_SIZE: Final = 5
BATCH_DIVISOR: Final = 20
PRIOR_PRECISION: Final = 10.0
# The smallest tried (5, 10, 20, 40) that costs no more than noise where errors are of all kinds.
PAIR_PRECISION: Final = 40.0
# Almost no prior, and still enough to keep the bias finite while no reviewer has found an error.
BIAS_PRECISION: Final = 1e-2
MAX_STEPS: Final = 100
STEP_TOLERANCE: Final = 1e-9
MAX_HALVINGS: Final = 40


def to_logit(score: float) -> float:
    """x0 of a weighted word score."""
    s = min(max(score, MIN_SCORE), MAX_SCORE)
    return 0.5 * math.log((1 - s) / s)


def to_rank(z: float) -> float:
    """The score that has this logit, in (0, 1): low is bad, and with no offsets it is the clipped priority."""
    return 1 / (1 + math.exp(2 * z))


class WordKind(NamedTuple):
    """What the ranker knows of a word beside its score: the type of its given label, and the suggested type if any."""

    given: str
    suggested: str | None = None

    @property
    def pair(self) -> TypePair | None:
        return None if self.suggested is None else (self.given, self.suggested)


@dataclass(frozen=True, slots=True)
class ReviewedWords:
    """The words that one decision is about: their kind, x0, and whether the label was wrong."""

    kinds: tuple[WordKind, ...]
    logits: tuple[float, ...]
    wrong: tuple[bool, ...]


def find_word_kinds(labels: Sequence[str], doubtful: Sequence[Flag]) -> list[WordKind]:
    """The kind of each word. `doubtful` are the flags, or the worst word of a sentence without any."""
    suggested = {flag.index: flag.suggested for flag in doubtful}
    return [_build_word_kind(label, suggested.get(index)) for index, label in enumerate(labels)]


@lru_cache(maxsize=4096)
def _build_word_kind(label: str, suggested: str | None) -> WordKind:
    return WordKind(get_entity_type(label), None if suggested is None else get_entity_type(suggested))


def extract_reviewed_words(decision: Decision, shown: Shown) -> ReviewedWords | None:
    """The verdict ok: all words are right. An error that names no word: the worst word is wrong, the others are unknown."""
    if decision.withdrawn or decision.verdict == "unsure":
        return None
    scored = [(index, score) for index, score in enumerate(shown.scores) if score is not None and math.isfinite(score)]
    wrong = find_wrong_words(decision, shown)
    if wrong is None:
        scored = sorted(scored, key=lambda pair: pair[1])[:1]
        wrong = frozenset(index for index, _ in scored)
    labelled = [(index, score) for index, score in scored if index < len(shown.labels)]
    if not labelled:
        return None
    kinds = find_word_kinds(shown.labels, shown.doubtful)
    return ReviewedWords(
        tuple(kinds[index] for index, _ in labelled),
        tuple(to_logit(score) for _, score in labelled),
        tuple(index in wrong for index, _ in labelled),
    )


def round_down_to_batch(decisions: int) -> int:
    """How many of the decisions the fit uses: 25, 30, 35, …, and from 100 on in steps of a twentieth."""
    used = 0
    following = MIN_DECISIONS
    while following <= decisions:
        used = following
        following += max(MIN_BATCH_SIZE, used // BATCH_DIVISOR)
    return used


@dataclass(frozen=True, slots=True)
class Ranker:
    """The offset of each type and of each pair of types. Without `enabled`, the queue is sorted by priority."""

    enabled: bool = False
    offsets: Mapping[str, float] = field(default_factory=dict)
    pair_offsets: Mapping[TypePair, float] = field(default_factory=dict)
    bias: float = 0.0
    decisions: int = 0

    @classmethod
    def refit(cls, decisions: Sequence[ReviewedWords]) -> Ranker:
        """Fits the first decisions of the sequence. All replicas must pass the same order: sums round by it."""
        used = decisions[: round_down_to_batch(len(decisions))]
        if not used:
            return cls()
        kinds = [kind for words in used for kind in words.kinds]
        types = sorted({kind.given for kind in kinds})
        pairs = sorted({kind.pair for kind in kinds if kind.pair is not None})
        type_numbers = {name: number for number, name in enumerate(types)}
        pair_numbers = {pair: number for number, pair in enumerate(pairs)}
        words = WordArrays(
            types=np.array([type_numbers[kind.given] for kind in kinds], np.intp),
            pairs=np.array([len(pairs) if kind.pair is None else pair_numbers[kind.pair] for kind in kinds], np.intp),
            logits=np.array([logit for words in used for logit in words.logits], np.float64),
            wrong=np.array([is_wrong for words in used for is_wrong in words.wrong], np.float64),
            pair_types=np.array([type_numbers[given] for given, _ in pairs], np.intp),
            n_types=len(types),
        )
        fitted = fit_offsets(words)
        return cls(
            enabled=True,
            offsets=dict(zip(types, fitted.types.tolist(), strict=True)),
            pair_offsets=dict(zip(pairs, fitted.pairs.tolist(), strict=True)),
            bias=fitted.bias,
            decisions=len(used),
        )

    def rank(self, priority: float | None, lowest_scores: Sequence[tuple[WordKind, float]]) -> float:
        """The rank of a sentence, from its priority and the lowest weighted score of each kind of word in it."""
        if not self.enabled or not lowest_scores:
            return 1.0 if priority is None else priority
        return to_rank(max(to_logit(score) + self._get_offset(kind) for kind, score in lowest_scores))

    def ranks_like(self, other: Ranker) -> bool:
        """Whether both give every sentence the same rank."""
        return (self.enabled, self.offsets, self.pair_offsets) == (other.enabled, other.offsets, other.pair_offsets)

    def _get_offset(self, kind: WordKind) -> float:
        given, suggested = kind
        offset = self.offsets.get(given, 0.0)
        return offset if suggested is None else offset + self.pair_offsets.get((given, suggested), 0.0)


@dataclass(frozen=True, slots=True)
class WordArrays:
    """The words of all decisions. `pairs` is the number of pairs for a word without a pair."""

    types: npt.NDArray[np.intp]
    pairs: npt.NDArray[np.intp]
    logits: npt.NDArray[np.float64]
    wrong: npt.NDArray[np.float64]
    pair_types: npt.NDArray[np.intp]
    """The given type of each pair."""
    n_types: int

    @property
    def n_pairs(self) -> int:
        return len(self.pair_types)

    def compute_logits(self, offsets: Offsets) -> npt.NDArray[np.float64]:
        by_pair: npt.NDArray[np.float64] = np.append(offsets.pairs, 0.0)[self.pairs]
        return self.logits + offsets.types[self.types] + by_pair + offsets.bias

    def sum_by_type(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return _sum_groups(self.types, values, self.n_types)

    def sum_by_pair(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return _sum_groups(self.pairs, values, self.n_pairs + 1)[: self.n_pairs]

    def sum_pairs_by_type(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return _sum_groups(self.pair_types, values, self.n_types)


class Offsets(NamedTuple):
    """The fitted numbers, or a step of them."""

    types: npt.NDArray[np.float64]
    pairs: npt.NDArray[np.float64]
    bias: float

    def subtract(self, step: Offsets, scale: float) -> Offsets:
        return Offsets(self.types - scale * step.types, self.pairs - scale * step.pairs, self.bias - scale * step.bias)

    def get_largest(self) -> float:
        return max(float(np.abs(self.types).max(initial=0)), float(np.abs(self.pairs).max(initial=0)), abs(self.bias))


def fit_offsets(words: WordArrays) -> Offsets:
    """The MAP offsets and bias, by damped Newton. Without damping the method diverges on confident words, so a step is
    halved until the objective falls.
    """
    offsets = Offsets(np.zeros(words.n_types), np.zeros(words.n_pairs), 0.0)
    value = compute_objective(words, offsets)
    for _ in range(MAX_STEPS):
        step = _compute_newton_step(words, offsets)
        scale = 1.0
        for _ in range(MAX_HALVINGS):
            tried = offsets.subtract(step, scale)
            tried_value = compute_objective(words, tried)
            if tried_value <= value:
                break
            scale /= 2
        else:
            break  # no step lowers the objective: this is the optimum to machine precision
        offsets, value = tried, tried_value
        if scale * step.get_largest() < STEP_TOLERANCE:
            break
    return offsets


def _compute_newton_step(words: WordArrays, offsets: Offsets) -> Offsets:
    """Newton's step without a solver: each pair involves one type, and each type the bias.

    So the pairs are eliminated from the rows of their types, then the types from the row of the bias, and each of them has
    one divisor left.
    """
    p = _sigmoid(words.compute_logits(offsets))
    slopes, curves = p - words.wrong, p * (1 - p)
    pair_curve = words.sum_by_pair(curves)
    pair_gradient = words.sum_by_pair(slopes) + PAIR_PRECISION * offsets.pairs
    pair_diagonal = pair_curve + PAIR_PRECISION
    type_slope = words.sum_by_type(slopes)
    removed_gradient = words.sum_pairs_by_type(pair_curve * pair_gradient / pair_diagonal)
    gradient = type_slope + PRIOR_PRECISION * offsets.types - removed_gradient
    curve = words.sum_by_type(curves) - words.sum_pairs_by_type(pair_curve * pair_curve / pair_diagonal)
    diagonal = curve + PRIOR_PRECISION
    bias_gradient = float(type_slope.sum() - removed_gradient.sum()) + BIAS_PRECISION * offsets.bias
    corner = float(curve.sum()) + BIAS_PRECISION - float((curve * curve / diagonal).sum())
    bias_step = (bias_gradient - float((curve * gradient / diagonal).sum())) / corner
    type_steps = (gradient - curve * bias_step) / diagonal
    pair_steps = (pair_gradient - pair_curve * (type_steps[words.pair_types] + bias_step)) / pair_diagonal
    return Offsets(type_steps, pair_steps, bias_step)


def compute_objective(words: WordArrays, offsets: Offsets) -> float:
    """The objective that the fit minimises: the log-loss of the words plus the priors."""
    z = words.compute_logits(offsets)
    loss = np.logaddexp(0.0, z) - words.wrong * z
    type_penalty = PRIOR_PRECISION / 2 * (offsets.types @ offsets.types)
    pair_penalty = PAIR_PRECISION / 2 * (offsets.pairs @ offsets.pairs)
    return float(loss.sum() + type_penalty + pair_penalty + BIAS_PRECISION / 2 * offsets.bias * offsets.bias)


def _sum_groups(
    groups: npt.NDArray[np.intp], values: npt.NDArray[np.float64], n_groups: int
) -> npt.NDArray[np.float64]:
    return np.bincount(groups, values, n_groups).astype(np.float64, copy=False)


def _sigmoid(z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    tail = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + tail), tail / (1 + tail))
