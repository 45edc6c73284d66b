"""What memory says about the words of one sentence, and learning the sentence afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.scoring.confident import compute_weighted_scores
from service.scoring.flat import drop_columns
from service.scoring.memory import apply_conventions, compute_conventions, compute_gate, smooth_probs
from service.statistics.memory.keys import read_keys
from service.statistics.memory.memory import recall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.scoring.flat import Floats, Ints
    from service.scoring.memory import MemoryCounts, SmoothingWeights, TypeMerge, WordConventions
    from service.statistics.memory.keys import SentenceKeys
    from service.statistics.memory.memory import Memory


class ScoredWords(NamedTuple):
    """The words of a sentence, and the model's probabilities and given classes of those that are scored."""

    tokens: Sequence[str]
    probs: Floats
    given: Ints
    scored: Sequence[int] | None = None  # the index of each scored word; None: all are scored


class WordEvidence(NamedTuple):
    """The scored words of a sentence in the light of earlier ones."""

    smoothed: Floats | None  # class probabilities after mention smoothing; None if they are those of the model
    model_probs: Floats
    given: Ints
    types: Floats  # type probabilities of the model alone
    given_types: Ints
    keys: SentenceKeys
    counts: MemoryCounts
    conventions: WordConventions

    @property
    def probs(self) -> Floats:
        """Class probabilities after mention smoothing."""
        return self.model_probs if self.smoothed is None else self.smoothed

    def compute_priorities(self, weights: Floats, *, dropped: Sequence[int] = ()) -> Floats:
        """The priority of each word, with the agreement weights of the classes. `dropped` classes have no probability."""
        probs = drop_columns(self.probs, dropped) if dropped else self.probs
        scores = compute_weighted_scores(probs, self.given, weights)
        return apply_conventions(
            scores, self.conventions.values, compute_gate(self.counts.gate_sum, self.counts.gate_words)
        )

    def teach(self, memory: Memory, merge: TypeMerge) -> None:
        """Adds the sentence to `memory`, after it was judged."""
        memory.learn(self.keys, self.types, self.given_types.tolist(), self.conventions, outside=merge.outside)


def gather_evidence(
    memories: Sequence[Memory],
    words: ScoredWords,
    merge: TypeMerge,
    weights: SmoothingWeights,
) -> WordEvidence:
    """What one or more memories, added up, say about the words."""
    keys = read_keys(words.tokens, words.scored)
    types = merge.sum_types(words.probs)
    given_types = merge.index[words.given]
    counts = recall(memories, keys)
    return WordEvidence(
        smooth_probs(words.probs, types, counts, merge, weights),
        words.probs,
        words.given,
        types,
        given_types,
        keys,
        counts,
        compute_conventions(types, given_types, counts, merge.n_types),
    )
