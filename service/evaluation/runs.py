"""Judges a whole data set: as in the paper (batch), or sentence by sentence (stream).

batch   flags are prune-by-noise-rate, the rule behind the paper's b_i; `priority` uses weights from the whole data set,
        the judged sentence included.
stream  each sentence, in file order, is judged with the statistics of those before it, then added to them: flags are
        the running confident-learning rule, and `priority` uses the weights at that point, without and with memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from service.errors import InvalidInput
from service.labels import OUTSIDE
from service.scoring.confident import compute_weighted_scores, flag_words, prune_by_noise_rate
from service.scoring.flat import segment_min
from service.scoring.memory import TypeMerge
from service.scoring.sentence import METHODS, score_sentences
from service.scoring.token import TOKEN_SCORES
from service.statistics.class_stats import ClassStats
from service.statistics.memory.evidence import ScoredWords, gather_evidence
from service.statistics.memory.memory import MEMORY_MODES, Memory
from service.statistics.thresholds import compute_flag_thresholds, compute_priority_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from service.evaluation.data import Variant

BATCH: Final = "batch"
STREAM: Final = "stream"
PRIORITY: Final = "priority"
NO_MEMORY: Final = "off"
DEFAULT_MEMORY: Final = "auto"


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """One variant judged in one mode. Scores are computed on demand."""

    variant: Variant
    mode: str
    flags: NDArray[np.bool_]
    word_priority: NDArray[np.float64]
    memory: str = NO_MEMORY
    """The mode of the memory behind `memory_priority`."""
    memory_priority: NDArray[np.float64] | None = None

    @property
    def memories(self) -> tuple[str, ...]:
        """The memory settings that `priority` was computed with."""
        return (NO_MEMORY,) if self.memory_priority is None else (NO_MEMORY, self.memory)

    @property
    def flag_rule(self) -> str:
        """The rule behind the flags, in words."""
        if self.mode == BATCH:
            return "prune-by-noise-rate over the whole data set"
        prior = "from the held-out words" if self.variant.held_out else "without a prior"
        return f"confident learning with running thresholds {prior}"

    def compute_sentence_scores(
        self, method: str, token_score: str | None = None, *, memory: str = NO_MEMORY
    ) -> NDArray[np.float64]:
        """Sentence scores by a method of the paper or by `priority`. Low is bad."""
        if method == PRIORITY:
            return np.asarray(segment_min(self.get_word_priority(memory), self.variant.flat))
        options = {} if token_score is None else {"token_score": token_score}
        flags = self.flags if method in METHODS and METHODS[method].uses_flags else None
        return score_sentences(self.variant.flat, method=method, flags=flags, **options)

    def get_word_priority(self, memory: str = NO_MEMORY) -> NDArray[np.float64]:
        """The word scores behind `priority`, without memory or with the one that the run used."""
        if memory == NO_MEMORY:
            return self.word_priority
        if self.memory_priority is None or memory != self.memory:
            raise InvalidInput(f"this run has no priority with memory {memory!r}", field="memory")
        return self.memory_priority

    def compute_word_scores(self, token_score: str, *, memory: str = NO_MEMORY) -> NDArray[np.float64]:
        """Word scores by a token score or by `priority`."""
        if token_score == PRIORITY:
            return self.get_word_priority(memory)
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


def judge_stream(variant: Variant, *, memory: str = DEFAULT_MEMORY) -> EvaluationRun:
    """Judges each sentence with the statistics of those before it, in file order, then learns from it.

    `memory` is the dataset setting; it needs the words of the variant.
    """
    flat = variant.flat
    stats = ClassStats.empty(flat.n_classes)
    flags = np.zeros(len(flat.given), dtype=bool)
    word_priority = np.empty(len(flat.given))
    for start, end in zip(flat.starts.tolist(), flat.ends.tolist(), strict=True):
        probs, given = flat.probs[start:end], flat.given[start:end]
        flags[start:end] = flag_words(probs, given, compute_flag_thresholds(stats, variant.held_out))
        word_priority[start:end] = compute_weighted_scores(probs, given, compute_priority_weights(stats))
        stats = stats.update(probs, given)
    if variant.words is None or memory == NO_MEMORY:
        return EvaluationRun(variant, STREAM, flags, word_priority)
    return EvaluationRun(variant, STREAM, flags, word_priority, memory, compute_memory_priority(variant, memory))


def compute_memory_priority(
    variant: Variant,
    memory: str = DEFAULT_MEMORY,
    *,
    order: Sequence[int] | None = None,
    partitions: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """The word scores behind `priority` with memory, as a worker computes them.

    `order` is the order in which the sentences arrive, `partitions` the partition of each: a partition has a memory of
    its own, the class statistics are those of all.
    """
    flat, words = variant.flat, variant.words
    if words is None:
        raise InvalidInput("memory needs the words of the sentences", field="words")
    weights, merge = MEMORY_MODES[memory], _build_type_merge(variant)
    stats = ClassStats.empty(flat.n_classes)
    memories: dict[int, Memory] = {}
    priority = np.empty(len(flat.given))
    starts, ends = flat.starts.tolist(), flat.ends.tolist()
    for sentence in range(flat.n_sentences) if order is None else order:
        start, end = starts[sentence], ends[sentence]
        partition = 0 if partitions is None else partitions[sentence]
        own_memory = memories.setdefault(partition, Memory.create(merge.n_types, has_history=weights.has_history))
        scored = ScoredWords(words[start:end], flat.probs[start:end], flat.given[start:end])
        evidence = gather_evidence([own_memory], scored, merge, weights)
        priority[start:end] = evidence.compute_priorities(compute_priority_weights(stats))
        stats = stats.update(evidence.probs, scored.given)
        evidence.teach(own_memory, merge)
    return priority


def _build_type_merge(variant: Variant) -> TypeMerge:
    """The types of the variant's classes. Class names that follow no scheme are types themselves."""
    try:
        return TypeMerge.from_classes(variant.classes)
    except InvalidInput:
        outside = variant.classes.index(OUTSIDE) if OUTSIDE in variant.classes else None
        return TypeMerge(variant.classes, tuple(range(len(variant.classes))), outside)
