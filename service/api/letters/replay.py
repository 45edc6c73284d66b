"""Sends dead letters to the input topic again, after the checks that the stream makes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.api.ingest.parsed_records import ensure_id
from service.contracts import read_sentence
from service.datasets.waiting import fits_model
from service.errors import InvalidInput, MissingModelError
from service.judging.class_source import get_external_classes

if TYPE_CHECKING:
    from collections.abc import Collection

    from service.api.access.caller import Caller
    from service.api.backend import Backend
    from service.contracts import LabelledSentence
    from service.log.dead_letters import DeadLetter
    from service.log.protocol import RecordPosition

NO_VALUE: Final = "the message has no value: write the sentence"
MAX_PROBLEMS: Final = 5


class BulkOutcome(NamedTuple):
    letters: list[DeadLetter]
    problems: list[str]
    n_invalid: int


def check_letter(backend: Backend, letter: DeadLetter) -> LabelledSentence:
    """The sentence of a letter as it is. Raises `InvalidInput` if it would be a dead letter again."""
    if letter.record.value is None:
        raise InvalidInput(NO_VALUE)
    sentence = read_sentence(letter.record.value, max_words=backend.max_words)
    check_labels(backend, sentence)
    return sentence


def check_corrected(backend: Backend, fields: dict[str, Any]) -> LabelledSentence:
    """The sentence that somebody made of a letter; unknown fields are errors, as everywhere over REST."""
    raw = json.dumps(fields, ensure_ascii=True).encode()  # strict types, as in the stream
    sentence = read_sentence(raw, max_words=backend.max_words, unknown_fields="forbid", location="sentence")
    check_labels(backend, sentence, location="sentence")
    return ensure_id(sentence)


def check_labels(backend: Backend, sentence: LabelledSentence, *, location: str | None = None) -> None:
    """As a worker does: a dataset that no model fits stores the sentence whatever its labels."""
    view = backend.state_view
    try:
        judge = view.get_context(sentence.dataset, get_external_classes(sentence)).judge
    except MissingModelError:
        return  # the worker waits for the model
    if sentence.deleted or not fits_model(judge, view.snapshot.get_arrivals(sentence.dataset).total):
        return
    try:
        judge.to_class_ids(sentence)
    except InvalidInput as error:
        if location is None:
            raise
        field = location if error.field is None else f"{location}.{error.field}"
        raise InvalidInput(error.problem, field=field, word=error.word, token=error.token) from error


def select_valid(backend: Backend, positions: Collection[RecordPosition], caller: Caller) -> BulkOutcome:
    """Reads letters and keeps those that would be assessed now."""
    letters: list[DeadLetter] = []
    problems: list[str] = []
    n_invalid = 0
    for letter in backend.dead_letters.read_all(positions):
        try:
            sentence = check_letter(backend, letter)
        except InvalidInput as error:
            n_invalid += 1
            if len(problems) < MAX_PROBLEMS and str(error) not in problems:
                problems.append(str(error))
            continue
        if caller.may_use(sentence.dataset):
            letters.append(letter)
    return BulkOutcome(letters, problems, n_invalid)
