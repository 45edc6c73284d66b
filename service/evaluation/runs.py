"""Judges a whole data set: as in the paper (batch), or sentence by sentence (stream).

batch   flags are prune-by-noise-rate, the rule behind the paper's b_i; `priority` uses weights from the whole data set,
        the judged sentence included.
stream  each sentence, in file order, is judged with the statistics of those before it, then added to them: flags are
        the running confident-learning rule, and `priority` uses the weights at that point.
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
    """One variant judged in one mode. Scores are computed on demand."""

    variant: Variant
    mode: str
    flags: NDArray[np.bool_]
    word_priority: NDArray[np.float64]

    @property
    def flag_rule(self) -> str:
        """The rule behind the flags, in words."""
        if self.mode == BATCH:
            return "prune-by-noise-rate over the whole data set"
        prior = "from the held-out words" if self.variant.held_out else "without a prior"
        return f"confident learning with running thresholds {prior}"

    def compute_sentence_scores(self, method: str, token_score: str | None = None) -> NDArray[np.float64]:
        """Sentence scores by a method of the paper or by `priority`. Low is bad."""
        if method == PRIORITY:
            return np.asarray(segment_min(self.word_priority, self.variant.flat))
        options = {} if token_score is None else {"token_score": token_score}
        flags = self.flags if method in METHODS and METHODS[method].uses_flags else None
        return score_sentences(self.variant.flat, method=method, flags=flags, **options)

    def compute_word_scores(self, token_score: str) -> NDArray[np.float64]:
        """Word scores by a token score or by `priority`."""
        if token_score == PRIORITY:
            return self.word_priority
        if token_score not in TOKEN_SCORES:
            raise InvalidInput(f"unknown token score {token_score!r}: use one of {', '.join(TOKEN_SCORES)}")
        return TOKEN_SCORES[token_score](self.variant.flat.probs, self.variant.flat.given)


def judge_batch(variant: Variant) -> EvaluationRun:
    """Judges every sentence with the statistics of the whole data set."""
    flat = variant.flat
    weights = compute_priority_weights(ClassStats.empty(flat.n_classes).update(flat.probs, flat.given))
    return EvaluationRun(
        variant,
        BATCH,
        prune_by_noise_rate(flat.probs, flat.given),
        compute_weighted_scores(flat.probs, flat.given, weights),
    )


def judge_stream(variant: Variant) -> EvaluationRun:
    """Judges each sentence with the statistics of those before it, in file order, then learns from it."""
    flat = variant.flat
    stats = ClassStats.empty(flat.n_classes)
    flags = np.zeros(len(flat.given), dtype=bool)
    word_priority = np.empty(len(flat.given))
    for start, end in zip(flat.starts.tolist(), flat.ends.tolist(), strict=True):
        probs, given = flat.probs[start:end], flat.given[start:end]
        flags[start:end] = flag_words(probs, given, compute_flag_thresholds(stats, variant.held_out))
        word_priority[start:end] = compute_weighted_scores(probs, given, compute_priority_weights(stats))
        stats = stats.update(probs, given)
    return EvaluationRun(variant, STREAM, flags, word_priority)
