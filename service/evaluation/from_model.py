"""Evaluation data from a model: two files of the same sentences, one with the given and one with the true labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.errors import InferenceError, InvalidInput
from service.evaluation.data import MERGED, UNMERGED, EvaluationData
from service.inference.tokenization.word_joining import join_words
from service.labels import UNSCORED, LabelMap, detect_scheme, merge_by_type
from service.scoring.flat import from_flat_arrays, merge_classes
from service.statistics.thresholds import HeldOutStats

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from service.contracts import LabelledSentence
    from service.inference.classifier import InferenceResult
    from service.inference.model.folder import ModelFolder


class EvaluatedSentence(NamedTuple):
    """The scored words of one sentence."""

    probs: NDArray[np.float64]
    given: NDArray[np.intp]
    corrected: NDArray[np.intp]
    keep: bool


def build_evaluation_data(
    folder: ModelFolder,
    given: Sequence[LabelledSentence],
    corrected: Sequence[LabelledSentence],
    results: Iterable[InferenceResult],
    *,
    name: str,
) -> EvaluationData:
    """The classifier's probabilities for the sentences of `given`, with both sets of labels as the model's classes.

    Words without a subword or without a class are left out. Sentences of one character or with a "#" don't count, as in
    the paper.
    """
    check_same_words(given, corrected)
    scheme = detect_scheme([*(s.labels for s in given), *(s.labels for s in corrected)])
    labels = LabelMap.build(
        folder.labels, model_scheme=folder.scheme, dataset_labels=None, dataset_scheme=scheme, unmapped="reject"
    )
    rows = [
        row
        for given_sentence, corrected_sentence, result in zip(given, corrected, results, strict=True)
        if (row := _build_evaluated_sentence(given_sentence, corrected_sentence, result, labels)) is not None
    ]
    if not any(row.keep for row in rows):
        raise InvalidInput("no sentence is left to evaluate", field="given")
    probs = np.concatenate([row.probs for row in rows])
    if labels.merge is not None:
        probs = merge_classes(probs, labels.merge)
    lengths = np.array([len(row.given) for row in rows], np.intp)
    stats = {UNMERGED: folder.held_out, MERGED: folder.held_out_types}
    if labels.merge is not None:
        stats = {UNMERGED: folder.held_out_types}
    held_out = {name: HeldOutStats(held.sums, held.counts) for name, held in stats.items() if held is not None}
    return EvaluationData(
        name,
        from_flat_arrays(probs, np.concatenate([row.given for row in rows]), lengths),
        np.concatenate([row.corrected for row in rows]),
        np.array([row.keep for row in rows]),
        labels.classes,
        merge_by_type(labels.classes, labels.scheme)[1],
        held_out,
    )


def check_same_words(given: Sequence[LabelledSentence], corrected: Sequence[LabelledSentence]) -> None:
    """Checks that both files have the same words in the same sentences."""
    if len(given) != len(corrected):
        raise InvalidInput(
            f"has {len(corrected)} sentences where the given labels have {len(given)}: "
            "both files must have the same sentences in the same order",
            field="corrected",
        )
    for given_sentence, corrected_sentence in zip(given, corrected, strict=True):
        if given_sentence.tokens != corrected_sentence.tokens:
            raise InvalidInput(
                "the words differ from those of the given labels: both files must have the same sentences",
                field="corrected",
                sentence=given_sentence.id,
            )


def _build_evaluated_sentence(
    given_sentence: LabelledSentence, corrected_sentence: LabelledSentence, result: InferenceResult, labels: LabelMap
) -> EvaluatedSentence | None:
    if isinstance(result, InferenceError):
        raise InvalidInput(str(result), sentence=given_sentence.id)
    given = np.array(labels.map(given_sentence.labels, sentence=given_sentence.id).ids, np.intp)
    corrected = np.array(labels.map(corrected_sentence.labels, sentence=corrected_sentence.id).ids, np.intp)
    scored = result.scored & (given != UNSCORED) & (corrected != UNSCORED)
    if not scored.any():
        return None
    text = join_words(given_sentence.tokens).text
    return EvaluatedSentence(result.probs[scored], given[scored], corrected[scored], len(text) > 1 and "#" not in text)
