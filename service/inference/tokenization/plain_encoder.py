"""Encodes sentences for a model without an encoder graph: words only, no subwords."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from service.inference.pooling import Overlaps
from service.inference.tokenization.encoder import EncodedSentence, explain_unreadable_words

if TYPE_CHECKING:
    from collections.abc import Sequence


class PlainEncoder:
    """Finds the words that nothing can be said of. Safe to use from several threads."""

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[EncodedSentence]:
        none = np.zeros(0, np.intp)
        overlaps = Overlaps(none, none, np.zeros(0), none)
        return [
            EncodedSentence(len(words), 0, (), overlaps, explain_unreadable_words(index, words), words)
            for index, words in enumerate(sentences)
        ]
