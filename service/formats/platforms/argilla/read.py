"""Argilla 2: webhooks and records in.

One submitted response to a span question is one sentence, `argilla:RESPONSE`. Records of the SDK name no responses:
there it is `argilla:RECORD:USER`, and `argilla:RECORD:USER:QUESTION` where a record has several span questions. A
discarded response says nothing of the words: it becomes `deleted`. Of a record that is gone Argilla names the record
alone: `argilla:task:RECORD` is `deleted`, and stands for all its responses. Drafts, and other events, are answered and
ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.io.json_objects import read_objects
from service.formats.platforms.argilla.questions import UNTOLD, WHICH, about_of, chosen_of, held_back, shown
from service.formats.platforms.common import (
    Converted,
    Delivery,
    check_named,
    dated,
    delivered,
    kept,
    labelled,
    link_base,
    listing,
    mapping,
    microseconds,
    moment,
    name_of,
    quoted,
    reader,
)
from service.formats.records import Options
from service.formats.text.alignment import read_span
from service.formats.text.offsets import UTF16

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from service.formats.io.json_objects import Numbered
    from service.formats.io.source import Source
    from service.formats.records import Record

PLATFORM: Final = "argilla"
CREATED: Final = "response.created"
UPDATED: Final = "response.updated"
DELETED: Final = "response.deleted"
RECORD_DELETED: Final = "record.deleted"
_KEPT: Final = ("_server_id", "external_id", "metadata", "status", "suggestions")


# -- webhooks ----------------------------------------------------------------------------------------------------------


def from_event(
    event: Mapping[str, Any],
    *,
    received_at: datetime,
    dataset: str = "default",
    options: Options | None = None,
    only: str | None = None,
) -> Delivery:
    """The messages of a webhook's body; `only` names the dataset of Argilla that counts, where the event tells it."""
    options = options or Options()
    kind = event.get("type")
    if not isinstance(kind, str):
        raise InvalidInput("it is missing: is this a webhook of Argilla?", field="type")
    if kind not in (CREATED, UPDATED, DELETED, RECORD_DELETED):
        return Delivery(kind, ignored="only responses that are created, updated or deleted count, and deleted records")
    data = mapping(event.get("data"), "data")
    about = about_of(data).name
    if only is not None and about not in (None, only):
        return Delivery(kind, ignored=f"it is about the dataset {str(about)[:100]}")
    status = data.get("status")
    if kind in (DELETED, RECORD_DELETED):
        at = moment(event["timestamp"], "timestamp") if "timestamp" in event else received_at
        name = _identity(data, "data").removeprefix(f"{PLATFORM}:")
        of_record = {"task": name} if kind == RECORD_DELETED else {}
        fields: dict[str, Any] = {"id": ":".join((PLATFORM, *of_record, name)), "deleted": True}
        fields |= {"revision": microseconds(at), "meta": {"format": PLATFORM, **of_record}}
    elif status == "submitted":
        if about_of(data).questions == {}:
            return Delivery(kind, ignored="no question of its dataset asks for spans")
        fields = _response(data, options)
    elif status == "discarded" and kind == UPDATED:
        fields = _gone(data, "data")
    else:
        return Delivery(kind, ignored=f"the response is {str(status)[:40]}, not submitted")
    if kind == UPDATED:
        fields["update"] = True
    return delivered(kind, [fields], dataset=dataset, max_words=options.max_words)


def _response(data: Mapping[str, Any], options: Options) -> dict[str, Any]:
    record = mapping(data.get("record"), "data.record")
    about = about_of(data)
    questions = about.questions or {}
    if options.label is None and len(questions) > 1:
        raise InvalidInput(f"{', '.join(questions)} {WHICH}", field="data.record.dataset.questions")
    if options.label is not None and questions and options.label not in questions:
        told = f"{options.label} is none of the questions that ask for spans: {', '.join(questions)}"
        raise InvalidInput(told, field="data.record.dataset.questions")
    values = _values(data.get("values"))
    chosen = options.label or chosen_of(values, questions.keys(), "data.values")
    fields = _labelled(values, chosen, record, "data.values", options, text_field=questions.get(chosen))
    fields["id"] = _identity(data, "data")
    fields |= dated(data.get("updated_at"), "data.updated_at")
    user = data.get("user")
    annotator = name_of(user.get("username") or user.get("id")) if isinstance(user, dict) else name_of(user)
    if annotator is not None:
        fields["annotator"] = annotator[:256]
    if isinstance(user, dict) and name_of(user.get("id")) not in (None, annotator):
        fields["meta"]["user"] = name_of(user.get("id"))  # what a record's responses are told by
    _add_link(fields, about.id, record.get("id"), options)
    return fields


# -- records -----------------------------------------------------------------------------------------------------------


def from_record(
    record: Mapping[str, Any], options: Options, known: AbstractSet[str] = frozenset()
) -> Iterator[Converted]:
    """The sentences of a record, as `records.to_json` or the REST API writes it: one a response.

    `known` are questions that other records of the same dataset have shown to be about spans.
    """
    if "type" in record and "data" in record:  # a webhook's body as somebody kept it
        yield from _kept_event(record, options)
        return
    if "responses" not in record or "fields" not in record:
        missing = "responses" if "fields" in record else "fields"
        raise InvalidInput("it is missing: export the records with their responses", field=missing)
    responses = record["responses"]
    questions = shown(record) | known
    if isinstance(responses, dict):
        yield from _by_question(responses, record, options, questions & responses.keys())
        return
    for place, given in enumerate(listing(responses, "responses")):
        field = f"responses.{place}"
        try:
            response = mapping(given, field)
            status = response.get("status", "submitted")
            if status == "discarded":
                yield _gone(response, field)
            if status != "submitted":
                continue
            values = _values(response.get("values"))
            chosen = options.label or chosen_of(values, questions, f"{field}.values")
            fields = _labelled(values, chosen, record, f"{field}.values", options)
            fields["meta"]["responses"] = "list"
            fields["id"] = _identity(response, field)
            fields |= dated(response.get("updated_at"), f"{field}.updated_at")
            yield _with_user(fields, response, record, options)
        except InvalidInput as error:
            yield error


def _by_question(
    responses: Mapping[str, Any], record: Mapping[str, Any], options: Options, questions: AbstractSet[str]
) -> Iterator[Converted]:
    """Question to a list with one answer a user, as the SDK writes it; it has neither times nor ids."""
    several = len(questions | ({options.label} & responses.keys())) > 1
    for question, answers in responses.items():
        if options.label not in (None, question):
            continue
        for place, given in enumerate(listing(answers, f"responses.{question}")):
            field = f"responses.{question}.{place}"
            try:
                answer = mapping(given, field)
                if answer.get("status", "submitted") != "submitted":
                    continue
                if question not in questions and options.label is None:
                    if answer.get("value") == [] and not questions:
                        yield InvalidInput(UNTOLD, field=field)
                    continue
                user = name_of(answer.get("user_id"))
                values = {question: answer.get("value")} | _beside(responses, user, questions | {question})
                fields = _labelled(values, question, record, field, options)
                record_id = name_of(record.get("id")) or name_of(record.get("_server_id"))
                if record_id is not None:
                    parts = (PLATFORM, record_id, user, question if several else None)
                    fields["id"] = ":".join(part for part in parts if part)
                yield _with_user(fields, answer, record, options)
            except InvalidInput as error:
                yield error


def _beside(responses: Mapping[str, Any], user: str | None, spans: AbstractSet[str]) -> dict[str, Any]:
    """What the same user has submitted to questions that ask for something else."""
    return {
        question: one.get("value")
        for question, answers in responses.items()
        for one in (answers if question not in spans and isinstance(answers, list) else ())
        if isinstance(one, dict)
        and name_of(one.get("user_id")) == user
        and one.get("status", "submitted") == "submitted"
    }


def _kept_event(event: Mapping[str, Any], options: Options) -> Iterator[Converted]:
    at = moment(event.get("timestamp"), "timestamp")
    for sentence in from_event(event, received_at=at, options=options).sentences:
        yield sentence.model_dump(exclude_defaults=True, mode="json")


# -- both --------------------------------------------------------------------------------------------------------------


def _labelled(
    values: Mapping[str, Any],
    chosen: str,
    record: Mapping[str, Any],
    field: str,
    options: Options,
    *,
    text_field: str | None = None,
) -> dict[str, Any]:
    # A question that may be left open has no answer: no entity was found.
    spans = [
        read_span(value, f"{field}.{chosen}.{place}")
        for place, value in enumerate(listing(values.get(chosen) or [], f"{field}.{chosen}"))
    ]
    texts = mapping(record.get("fields"), "fields")
    name = options.word or text_field or ("text" if "text" in texts else next(iter(texts), "text"))
    if options.word is None and text_field is None and "text" not in texts and len(texts) != 1:
        raise InvalidInput(f"which of {', '.join(list(texts)[:10])} is the text? Name its field", field="fields")
    # Its editor stores offsets as the browser counts them; who writes answers by the SDK counts characters.
    fields = labelled(texts.get(name), spans, options, field=f"fields.{name}", unit=UTF16)
    fields["meta"] |= {"format": PLATFORM, "question": chosen, "field": name}
    record_id = name_of(record.get("id"))
    if record_id is not None:
        fields["meta"]["record"] = record_id
    others = {part: value for part, value in record.items() if part in _KEPT and value}
    others["fields"] = {part: value for part, value in texts.items() if part != name}
    others["values"] = {part: value for part, value in values.items() if part != chosen}
    fields["meta"] |= kept({part: value for part, value in others.items() if value})
    return fields


def _values(values: object) -> dict[str, Any]:
    found = values.items() if isinstance(values, dict) else ()
    return {name: one.get("value") if isinstance(one, dict) else one for name, one in found}


def _with_user(
    fields: dict[str, Any], response: Mapping[str, Any], record: Mapping[str, Any], options: Options
) -> dict[str, Any]:
    user = name_of(response.get("user_id"))
    if user is not None:
        fields["annotator"] = user[:256]
    _add_link(fields, name_of(record.get("dataset_id")), record.get("_server_id") or record.get("id"), options)
    return fields


def _gone(response: Mapping[str, Any], field: str) -> dict[str, Any]:
    fields = {"id": _identity(response, field), "deleted": True, "meta": {"format": PLATFORM, "discarded": True}}
    return fields | dated(response.get("updated_at"), f"{field}.updated_at")


def _identity(response: Mapping[str, Any], field: str) -> str:
    name = name_of(response.get("id"))
    if name is None:
        raise InvalidInput("it is missing", field=f"{field}.id")
    return f"{PLATFORM}:{name}"


def _add_link(fields: dict[str, Any], dataset: str | None, record: object, options: Options) -> None:
    name = name_of(record)
    if options.base_url is not None and dataset and name:
        base = link_base(options.base_url)
        fields["source"] = f"{base}/dataset/{quoted(dataset)}/annotation-mode?_search={quoted(name)}"


def read(source: Source, options: Options) -> Iterator[Record]:
    known: set[str] = set()

    def objects(source: Source) -> Iterator[Numbered]:
        return held_back(read_objects(source), known)

    yield from reader(lambda found, options: from_record(found, options, known), objects)(source, options)
    check_named(source, options, known)
