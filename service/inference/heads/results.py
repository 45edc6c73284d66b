"""What inference answers: the class probabilities of a sentence's words, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from service.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence

    Floats = npt.NDArray[np.float64]

NOT_FINITE = "the model answers with numbers that are not finite for this sentence"


@dataclass(frozen=True, slots=True)
class WordProbs:
    """Probabilities [n, K] of a sentence's words, rows summing to 1.

    The row of a word that is not `scored` is uniform and says nothing; `unscored` says why for each of them.
    """

    probs: Floats
    scored: npt.NDArray[np.bool_]
    n_windows: int
    unscored: Mapping[int, str]


InferenceResult = WordProbs | InferenceError


class Head(Protocol):
    """Turns a graph's outputs into word probabilities."""

    def combine(
        self, encoded: Sequence[EncodedSentence], outputs: Sequence[npt.NDArray[Any] | InferenceError], pooling: Pooling
    ) -> list[InferenceResult]:
        """One answer per sentence. `outputs` are those of all windows of all sentences, in order."""
        ...


def softmax_rows(logits: npt.NDArray[Any]) -> Floats:
    """In double precision, and row by row the same whatever the other rows are."""
    powers: Floats = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def find_failure(outputs: Sequence[npt.NDArray[Any] | InferenceError]) -> InferenceError | None:
    """Why a sentence with these windows has no answer; None if it has one."""
    for output in outputs:
        if isinstance(output, InferenceError):
            return output
        if not np.isfinite(output).all():
            return InferenceError(NOT_FINITE)
    return None
