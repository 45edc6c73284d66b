"""Finds the questions of Argilla that ask for spans.

A webhook describes its dataset, a record does not. There a question is recognised by an answer or a suggestion that
holds a span; an empty list proves nothing, because answers with several labels are lists too. In a file one such record
is enough: the records before it are buffered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.errors import InvalidInput
from service.formats.io.json_values import to_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from service.formats.io.json_objects import NumberedObject

MAX_BUFFERED_RECORDS: Final = 10_000
SEVERAL_SPAN_QUESTIONS: Final = "all ask for spans: say which question counts"
UNKNOWN_SPAN_QUESTION: Final = (
    "an empty list does not show what was asked, and no answer holds a span: name the question for spans"
)


def is_span_answer(value: object) -> bool:
    """Whether an answer can only belong to a span question."""
    return bool(value) and isinstance(value, list) and all(_is_span(item) for item in value)


def _is_span(value: object) -> bool:
    return isinstance(value, dict) and {"start", "end"} <= value.keys()


def read_span_questions(dataset: object) -> dict[str, str | None] | None:
    """The span questions of a dataset, each with its text field; None if the dataset does not list its questions."""
    questions = dataset.get("questions") if isinstance(dataset, dict) else None
    if not isinstance(questions, list) or not questions:
        return None
    fields: dict[str, str | None] = {}
    for question in questions:
        settings = question.get("settings") if isinstance(question, dict) else None
        name = to_name(question.get("name")) if isinstance(question, dict) else None
        if isinstance(settings, dict) and settings.get("type") == "span" and name is not None:
            fields[name] = to_name(settings.get("field"))
    return fields


def read_question_labels(fields: Mapping[str, Any]) -> dict[str, tuple[str, ...]] | None:
    """The labels of each span question; None if `fields` is no dataset, list of questions (`items`) or question."""
    questions = next((fields[name] for name in ("questions", "items") if isinstance(fields.get(name), list)), [fields])
    described = [question for question in questions if _is_question(question)]
    if not described:
        return None
    return {
        str(question["name"]): tuple(_iterate_option_values(question["settings"].get("options")))
        for question in described
        if question["settings"].get("type") == "span"
    }


def _is_question(value: object) -> bool:
    return (
        isinstance(value, dict) and to_name(value.get("name")) is not None and isinstance(value.get("settings"), dict)
    )


def _iterate_option_values(options: object) -> Iterator[str]:
    for option in options if isinstance(options, list) else ():
        value = to_name(option.get("value") if isinstance(option, dict) else option)
        if value is not None:
            yield value


def find_span_questions(record: Mapping[str, Any]) -> set[str]:
    """The span questions that a record itself proves."""
    return {name for name, value in _iterate_answers(record) if is_span_answer(value)}


def is_undecided(record: Mapping[str, Any]) -> bool:
    """Whether a record has an empty list that could answer a span question."""
    return any(value == [] for _, value in _iterate_answers(record, suggestions=False)) and not find_span_questions(
        record
    )


def choose_question(values: Mapping[str, Any], questions: AbstractSet[str], field: str) -> str:
    """The span question of a response; raises if it has none or several."""
    answered = [name for name in values if name in questions or is_span_answer(values[name])]
    if not answered and len(questions) == 1:  # the only span question was not answered
        answered = list(questions)
    if len(answered) == 1:
        return answered[0]
    if answered:
        raise InvalidInput(f"{', '.join(answered)} {SEVERAL_SPAN_QUESTIONS}", field=field)
    raise InvalidInput(UNKNOWN_SPAN_QUESTION if [] in values.values() else "no answer in it holds spans", field=field)


def buffer_until_known(objects: Iterable[NumberedObject], known: set[str]) -> Iterator[NumberedObject]:
    """Yields the objects in order. Adds their span questions to `known`, and buffers objects that need them."""
    buffer: list[NumberedObject] = []
    for line, record in objects:
        if isinstance(record, dict):
            known |= find_span_questions(record)
        buffer.append((line, record))
        is_waiting = len(buffer) > 1 or (isinstance(record, dict) and is_undecided(record))
        if not known and is_waiting and len(buffer) < MAX_BUFFERED_RECORDS:
            continue
        yield from buffer
        buffer.clear()
    yield from buffer


def _iterate_answers(record: Mapping[str, Any], *, suggestions: bool = True) -> Iterator[tuple[str, object]]:
    """Pairs of question and value, from all forms in which Argilla writes answers."""
    responses = record.get("responses")
    if isinstance(responses, dict):
        for name, answers in responses.items():
            for answer in answers if isinstance(answers, list) else ():
                yield name, unwrap_answer(answer)
    for response in responses if isinstance(responses, list) else ():
        values = response.get("values") if isinstance(response, dict) else None
        for name, answer in values.items() if isinstance(values, dict) else ():
            yield name, unwrap_answer(answer)
    suggested = record.get("suggestions") if suggestions else None
    for name, answer in suggested.items() if isinstance(suggested, dict) else ():
        yield name, unwrap_answer(answer)


def unwrap_answer(answer: object) -> object:
    """The value of an answer, without the object that Argilla wraps around it."""
    return answer.get("value") if isinstance(answer, dict) else answer


class EventDataset(NamedTuple):
    """The dataset of an event, as far as the event describes it."""

    id: str | None
    name: str | None
    questions: dict[str, str | None] | None


def read_event_dataset(data: Mapping[str, Any]) -> EventDataset:
    record = data.get("record")
    dataset = record.get("dataset") if isinstance(record, dict) else None
    if not isinstance(dataset, dict):
        return EventDataset(None, None, None)
    return EventDataset(to_name(dataset.get("id")), to_name(dataset.get("name")), read_span_questions(dataset))
