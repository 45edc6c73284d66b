"""The ranker: it learns from decisions which types are wrong more often, or less often, than their scores say.

A word has the logit z = x0 + u[type of its given label], with x0 = ½·ln((1 − s)/s) and s its weighted score. A sentence has
the largest logit of its words. The coefficient of x0 is fixed at 1. A bias is fitted, but does not affect the order. The
offsets u have a Gaussian prior. So without decisions the order is that of the priority, and few decisions change little.

The fit depends on the set of decisions alone: they are sorted by time and key, whatever order the partitions of the topic
were read in, and Newton's method always starts at zero. So all replicas fit the same numbers. The fit uses decisions in
batches (`round_down_to_batch`): a queue that changes its order with every decision is hard to work on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from service.labels import get_entity_type
from service.review.decisions import find_wrong_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from service.contracts import Decision, Shown

MIN_SCORE: Final = 1e-6
MAX_SCORE: Final = 1 - 1e-3
MIN_DECISIONS: Final = 25
MIN_BATCH_SIZE: Final = 5
BATCH_DIVISOR: Final = 20
PRIOR_PRECISION: Final = 10.0
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


@dataclass(frozen=True, slots=True)
class ReviewedWords:
    """The words that one decision is about: the type of the given label, x0, and whether the label was wrong."""

    types: tuple[str, ...]
    logits: tuple[float, ...]
    wrong: tuple[bool, ...]


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
    return ReviewedWords(
        tuple(get_entity_type(shown.labels[index]) for index, _ in labelled),
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
    """The offset of each type. Without `enabled`, the queue is sorted by priority."""

    enabled: bool = False
    offsets: Mapping[str, float] = field(default_factory=dict)
    bias: float = 0.0
    decisions: int = 0

    @classmethod
    def refit(cls, decisions: Sequence[ReviewedWords]) -> Ranker:
        """Fits the first decisions of the sequence. All replicas must pass the same order: sums round by it."""
        used = decisions[: round_down_to_batch(len(decisions))]
        if not used:
            return cls()
        names = sorted({name for words in used for name in words.types})
        number = {name: k for k, name in enumerate(names)}
        types = np.array([number[name] for words in used for name in words.types], np.intp)
        logits = np.array([logit for words in used for logit in words.logits], np.float64)
        wrong = np.array([is_wrong for words in used for is_wrong in words.wrong], np.float64)
        offsets, bias = fit_offsets(types, logits, wrong, len(names))
        return cls(
            enabled=True, offsets=dict(zip(names, offsets.tolist(), strict=True)), bias=bias, decisions=len(used)
        )

    def rank(self, priority: float | None, lowest_scores: Sequence[tuple[str, float]]) -> float:
        """The rank of a sentence, from its priority and the lowest weighted score of each type in it."""
        if not self.enabled or not lowest_scores:
            return 1.0 if priority is None else priority
        return to_rank(max(to_logit(score) + self.offsets.get(name, 0.0) for name, score in lowest_scores))


def fit_offsets(
    types: npt.NDArray[np.intp], logits: npt.NDArray[np.float64], wrong: npt.NDArray[np.float64], n_types: int
) -> tuple[npt.NDArray[np.float64], float]:
    """The MAP offsets and bias, by damped Newton.

    Each word involves one offset and the bias, so the Hessian is a bordered diagonal matrix and the step needs no solver:
    the border is eliminated, then the diagonal divides. Without damping the method diverges on confident words, so a step
    is halved until the objective falls.
    """
    offsets, bias = np.zeros(n_types), 0.0
    value = compute_objective(types, logits, wrong, offsets, bias)
    for _ in range(MAX_STEPS):
        p = _sigmoid(logits + offsets[types] + bias)
        slope = np.bincount(types, p - wrong, n_types)
        curve = np.bincount(types, p * (1 - p), n_types)
        gradient = slope + PRIOR_PRECISION * offsets
        bias_gradient = float(slope.sum()) + BIAS_PRECISION * bias
        diagonal = curve + PRIOR_PRECISION
        corner = float(curve.sum()) + BIAS_PRECISION - float((curve * curve / diagonal).sum())
        bias_step = (bias_gradient - float((curve * gradient / diagonal).sum())) / corner
        step = (gradient - curve * bias_step) / diagonal
        scale = 1.0
        for _ in range(MAX_HALVINGS):
            tried, tried_bias = offsets - scale * step, bias - scale * bias_step
            tried_value = compute_objective(types, logits, wrong, tried, tried_bias)
            if tried_value <= value:
                break
            scale /= 2
        else:
            break  # no step lowers the objective: this is the optimum to machine precision
        offsets, bias, value = tried, tried_bias, tried_value
        if scale * max(float(np.abs(step).max(initial=0.0)), abs(bias_step)) < STEP_TOLERANCE:
            break
    return offsets, bias


def compute_objective(
    types: npt.NDArray[np.intp],
    logits: npt.NDArray[np.float64],
    wrong: npt.NDArray[np.float64],
    offsets: npt.NDArray[np.float64],
    bias: float,
) -> float:
    """The objective that the fit minimises: the log-loss of the words plus the priors."""
    z = logits + offsets[types] + bias
    loss = np.logaddexp(0.0, z) - wrong * z
    return float(loss.sum() + PRIOR_PRECISION / 2 * (offsets @ offsets) + BIAS_PRECISION / 2 * bias * bias)


def _sigmoid(z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    tail = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + tail), tail / (1 + tail))
