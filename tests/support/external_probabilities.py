"""Sentences with the probabilities that a model computes for them, as a producer would send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.contracts import LabelledSentence, WordProbabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.inference.classifier import WordProbs


def attach_probabilities(sentence: LabelledSentence, words: WordProbs, classes: Sequence[str]) -> LabelledSentence:
    probabilities = WordProbabilities.model_validate({"classes": tuple(classes), "words": words.probs.tolist()})
    return sentence.model_copy(update={"probabilities": probabilities})
