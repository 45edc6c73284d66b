"""Cross-fitted heads: linear heads over word features, each trained without one fold of the sentences.

A sentence is judged by the head that never saw its words, at training time and ever after. So a data set can be audited
with the model that was trained on it, and no list of training sentences has to be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from service.errors import InferenceError
from service.inference.features.folds import compute_fold
from service.inference.features.hashing import FeatureHasher
from service.inference.features.states import pool_states
from service.inference.heads.results import InferenceResult, WordProbs, find_failure, softmax_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from service.inference.heads.weights import HeadWeights
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence

    States = npt.NDArray[np.float32]

CENTER, LEFT, RIGHT = range(3)


class CrossFittedHead:
    """Turns words and their encoder states into class probabilities. Safe to use from several threads."""

    def __init__(self, weights: HeadWeights) -> None:
        self._weights = weights
        self._hasher = FeatureHasher()

    def combine(
        self,
        encoded: Sequence[EncodedSentence],
        outputs: Sequence[npt.NDArray[Any] | InferenceError],
        pooling: Pooling,  # noqa: ARG002 - states of subwords are always averaged, as in training
    ) -> list[InferenceResult]:
        answers: list[InferenceResult] = []
        position = 0
        for sentence in encoded:
            own = outputs[position : position + len(sentence.windows)]
            position += len(sentence.windows)
            answers.append(find_failure(own) or self._answer(sentence, own))
        return answers

    def _answer(
        self, sentence: EncodedSentence, outputs: Sequence[npt.NDArray[Any] | InferenceError]
    ) -> InferenceResult:
        n_words = sentence.n_words
        rows = [part for part in outputs if not isinstance(part, InferenceError)]
        states = None
        if self._weights.state_width:
            none = np.zeros((0, self._weights.state_width), np.float32)
            states = pool_states(np.concatenate([none, *rows]), sentence.overlaps, n_words)
        probs = self.predict(sentence.words, states)
        scored = np.ones(n_words, np.bool_)
        unscored = list(sentence.unscored)
        scored[unscored] = False
        probs[unscored] = 1 / probs.shape[1]
        return WordProbs(probs, scored, len(sentence.windows), sentence.unscored)

    def predict(self, words: Sequence[str], states: States | None) -> npt.NDArray[np.float64]:
        """The probabilities [n, K] of a sentence's words, by the head of its fold."""
        return softmax_rows(self.compute_logits(words, states, compute_fold(words, self._weights.n_folds)))

    def compute_logits(self, words: Sequence[str], states: States | None, fold: int) -> npt.NDArray[np.float64]:
        """The logits of one head.

        Each sentence is multiplied by itself: shapes, and so the last bits, do not depend on batch mates.
        """
        weights, k = self._weights, self._weights.n_classes
        offsets = weights.offsets[fold].astype(np.float64)
        features = self._hasher.hash_sentence(words)
        rows = weights.buckets[fold][features.buckets]
        logits = np.add.reduceat(rows, features.starts[:-1], axis=0).astype(np.float64)
        logits += offsets[CENTER]
        if states is not None:
            parts = (states @ weights.states[fold]).astype(np.float64)
            logits += parts[:, :k]
            logits[1:] += parts[:-1, k : 2 * k] + offsets[LEFT]
            logits[:-1] += parts[1:, 2 * k :] + offsets[RIGHT]
        return logits
