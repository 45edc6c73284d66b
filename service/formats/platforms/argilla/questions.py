"""Which of Argilla's questions ask for spans.

A webhook describes its dataset, a record does not. There a question is known by an answer or a suggestion that holds a
span; an empty list is no sign, since answers with several labels are lists too. In a file one record is enough: those
before it are held back until it comes.
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
    "an empty list says nothing of what was asked, and no answer holds a span: name the question for spans"
)


def is_span_answer(value: object) -> bool:
    """Whether an answer can only be one to a span question."""
    return bool(value) and isinstance(value, list) and all(_is_span(one) for one in value)


def _is_span(value: object) -> bool:
    return isinstance(value, dict) and {"start", "end"} <= value.keys()


def read_span_questions(dataset: object) -> dict[str, str | None] | None:
    """The span questions of a dataset, each with the field it is about; none where it does not describe its questions."""
    questions = dataset.get("questions") if isinstance(dataset, dict) else None
    if not isinstance(questions, list) or not questions:
        return None
    found: dict[str, str | None] = {}
    for one in questions:
        settings = one.get("settings") if isinstance(one, dict) else None
        name = to_name(one.get("name")) if isinstance(one, dict) else None
        if isinstance(settings, dict) and settings.get("type") == "span" and name is not None:
            found[name] = to_name(settings.get("field"))
    return found


def find_span_questions(record: Mapping[str, Any]) -> set[str]:
    """The questions that a record itself shows to be about spans."""
    return {name for name, value in _iterate_answers(record) if is_span_answer(value)}


def is_undecided(record: Mapping[str, Any]) -> bool:
    """Whether an empty list in it could be the answer to a span question."""
    return any(value == [] for _, value in _iterate_answers(record, suggestions=False)) and not find_span_questions(
        record
    )


def choose_question(values: Mapping[str, Any], questions: AbstractSet[str], field: str) -> str:
    """The one question of a response that counts, of those that are known to ask for spans."""
    named = [name for name in values if name in questions or is_span_answer(values[name])]
    if not named and len(questions) == 1:  # it was left open
        named = list(questions)
    if len(named) == 1:
        return named[0]
    if named:
        raise InvalidInput(f"{', '.join(named)} {SEVERAL_SPAN_QUESTIONS}", field=field)
    raise InvalidInput(UNKNOWN_SPAN_QUESTION if [] in values.values() else "no answer in it holds spans", field=field)


def buffer_until_known(objects: Iterable[NumberedObject], known: set[str]) -> Iterator[NumberedObject]:
    """The same objects in their order; `known` has their span questions as soon as one of them shows these."""
    held: list[NumberedObject] = []
    for number, found in objects:
        if isinstance(found, dict):
            known |= find_span_questions(found)
        held.append((number, found))
        waits = len(held) > 1 or (isinstance(found, dict) and is_undecided(found))
        if not known and waits and len(held) < MAX_BUFFERED_RECORDS:
            continue
        yield from held
        held.clear()
    yield from held


def _iterate_answers(record: Mapping[str, Any], *, suggestions: bool = True) -> Iterator[tuple[str, object]]:
    """Question and value, however they are written down."""
    responses = record.get("responses")
    if isinstance(responses, dict):
        for name, answers in responses.items():
            for answer in answers if isinstance(answers, list) else ():
                yield name, _get_value(answer)
    for response in responses if isinstance(responses, list) else ():
        values = response.get("values") if isinstance(response, dict) else None
        for name, answer in values.items() if isinstance(values, dict) else ():
            yield name, _get_value(answer)
    suggested = record.get("suggestions") if suggestions else None
    for name, answer in suggested.items() if isinstance(suggested, dict) else ():
        yield name, _get_value(answer)


def _get_value(answer: object) -> object:
    return answer.get("value") if isinstance(answer, dict) else answer


class EventDataset(NamedTuple):
    """What an event tells of the dataset it is about."""

    id: str | None
    name: str | None
    questions: dict[str, str | None] | None


def read_event_dataset(data: Mapping[str, Any]) -> EventDataset:
    record = data.get("record")
    dataset = record.get("dataset") if isinstance(record, dict) else None
    if not isinstance(dataset, dict):
        return EventDataset(None, None, None)
    return EventDataset(to_name(dataset.get("id")), to_name(dataset.get("name")), read_span_questions(dataset))
