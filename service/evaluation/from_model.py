"""Evaluation data from a model: two files of the same sentences, one with the given and one with the true labels."""

from __future__ import annotations

from itertools import compress, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

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

SECOND_CORRECTED: Final = "second-corrected"


class EvaluatedSentence(NamedTuple):
    """The scored words of one sentence."""

    probs: NDArray[np.float64]
    given: NDArray[np.intp]
    corrected: NDArray[np.intp]
    second_corrected: NDArray[np.intp] | None
    words: list[str]
    keep: bool


def build_evaluation_data(
    folder: ModelFolder,
    given: Sequence[LabelledSentence],
    corrected: Sequence[LabelledSentence],
    results: Iterable[InferenceResult],
    *,
    name: str,
    second_corrected: Sequence[LabelledSentence] | None = None,
) -> EvaluationData:
    """The classifier's probabilities for the sentences of `given`, with both sets of labels as the model's classes.

    Words without a subword or without a class are left out. Sentences of one character or with a "#" don't count, as in
    the paper.
    """
    check_same_words(given, corrected)
    if second_corrected is not None:
        check_same_words(given, second_corrected, field=SECOND_CORRECTED)
    files = [given, corrected, second_corrected or ()]
    scheme = detect_scheme([sentence.labels for sentences in files for sentence in sentences])
    labels = LabelMap.build(
        folder.labels, model_scheme=folder.scheme, dataset_labels=None, dataset_scheme=scheme, unmapped="reject"
    )
    rows = [
        row
        for given_sentence, corrected_sentence, second, result in zip(
            given, corrected, second_corrected or repeat(None, len(given)), results, strict=True
        )
        if (row := _build_evaluated_sentence(given_sentence, corrected_sentence, second, result, labels)) is not None
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
        tuple(word for row in rows for word in row.words),
        np.concatenate([row.second_corrected for row in rows if row.second_corrected is not None])
        if second_corrected is not None
        else None,
    )


def check_same_words(
    given: Sequence[LabelledSentence], corrected: Sequence[LabelledSentence], *, field: str = "corrected"
) -> None:
    """Checks that both files have the same words in the same sentences."""
    if len(given) != len(corrected):
        raise InvalidInput(
            f"has {len(corrected)} sentences where the given labels have {len(given)}: "
            "both files must have the same sentences in the same order",
            field=field,
        )
    for given_sentence, corrected_sentence in zip(given, corrected, strict=True):
        if given_sentence.tokens != corrected_sentence.tokens:
            raise InvalidInput(
                "the words differ from those of the given labels: both files must have the same sentences",
                field=field,
                sentence=given_sentence.id,
            )


def _build_evaluated_sentence(
    given_sentence: LabelledSentence,
    corrected_sentence: LabelledSentence,
    second_sentence: LabelledSentence | None,
    result: InferenceResult,
    labels: LabelMap,
) -> EvaluatedSentence | None:
    if isinstance(result, InferenceError):
        raise InvalidInput(str(result), sentence=given_sentence.id)
    given, corrected = (_map_labels(sentence, labels) for sentence in (given_sentence, corrected_sentence))
    second = None if second_sentence is None else _map_labels(second_sentence, labels)
    scored = result.scored & (given != UNSCORED) & (corrected != UNSCORED)
    if second is not None:
        scored &= second != UNSCORED
    if not scored.any():
        return None
    text = join_words(given_sentence.tokens).text
    return EvaluatedSentence(
        result.probs[scored],
        given[scored],
        corrected[scored],
        None if second is None else second[scored],
        list(compress(given_sentence.tokens, scored)),
        len(text) > 1 and "#" not in text,
    )


def _map_labels(sentence: LabelledSentence, labels: LabelMap) -> NDArray[np.intp]:
    return np.array(labels.map(sentence.labels, sentence=sentence.id).ids, np.intp)
