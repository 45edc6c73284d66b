"""Flags and scores of a whole data set, as the paper has them (batch) or one sentence after the other (stream).

batch   flags are prune-by-noise-rate, the rule behind the paper's b_i; `priority` weighs by statistics of the whole
        data set, the sentence itself included.
stream  in file order each sentence is judged by what the sentences before it have taught, then it teaches: flags are
        the running confident-learning rule, and `priority` has the weights of that moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from service.errors import InvalidInput
from service.scoring.confident import compute_weighted_scores, flag_words, prune_by_noise_rate
from service.scoring.flat import segment_min
from service.scoring.sentence import METHODS, score_sentences
from service.scoring.token import TOKEN_SCORES
from service.statistics.class_stats import ClassStats
from service.statistics.thresholds import compute_flag_thresholds, compute_priority_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from service.evaluation.data import Variant

BATCH: Final = "batch"
STREAM: Final = "stream"
PRIORITY: Final = "priority"


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """One variant judged in one mode; scores are made from it on demand."""

    variant: Variant
    mode: str
    flags: NDArray[np.bool_]
    word_priority: NDArray[np.float64]

    @property
    def flag_rule(self) -> str:
        """Which rule made the flags, in words."""
        if self.mode == BATCH:
            return "prune-by-noise-rate over the whole data set"
        prior = "from the held-out words" if self.variant.held_out else "without a prior"
        return f"confident learning with running thresholds {prior}"

    def compute_sentence_scores(self, method: str, token_score: str | None = None) -> NDArray[np.float64]:
        """Scores by the paper's method or by `priority`; low is bad."""
        if method == PRIORITY:
            return np.asarray(segment_min(self.word_priority, self.variant.flat))
        named = {} if token_score is None else {"token_score": token_score}
        flags = self.flags if method in METHODS and METHODS[method].uses_flags else None
        return score_sentences(self.variant.flat, method=method, flags=flags, **named)

    def compute_word_scores(self, token_score: str) -> NDArray[np.float64]:
        """Scores of the single words by a token score or by `priority`."""
        if token_score == PRIORITY:
            return self.word_priority
        if token_score not in TOKEN_SCORES:
            raise InvalidInput(f"unknown token score {token_score!r}: use one of {', '.join(TOKEN_SCORES)}")
        return TOKEN_SCORES[token_score](self.variant.flat.probs, self.variant.flat.given)


def judge_batch(variant: Variant) -> EvaluationRun:
    """Judge everything by everything."""
    flat = variant.flat
    weights = compute_priority_weights(ClassStats.empty(flat.n_classes).update(flat.probs, flat.given))
    return EvaluationRun(
        variant,
        BATCH,
        prune_by_noise_rate(flat.probs, flat.given),
        compute_weighted_scores(flat.probs, flat.given, weights),
    )


def judge_stream(variant: Variant) -> EvaluationRun:
    """Judge each sentence by those before it, in file order, then learn from it."""
    flat = variant.flat
    stats = ClassStats.empty(flat.n_classes)
    flags = np.zeros(len(flat.given), dtype=bool)
    words = np.empty(len(flat.given))
    for start, end in zip(flat.starts.tolist(), flat.ends.tolist(), strict=True):
        probs, given = flat.probs[start:end], flat.given[start:end]
        flags[start:end] = flag_words(probs, given, compute_flag_thresholds(stats, variant.held_out))
        words[start:end] = compute_weighted_scores(probs, given, compute_priority_weights(stats))
        stats = stats.update(probs, given)
    return EvaluationRun(variant, STREAM, flags, words)
