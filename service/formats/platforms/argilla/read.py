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
from service.formats.platforms.argilla.questions import (
    SEVERAL_SPAN_QUESTIONS,
    UNKNOWN_SPAN_QUESTION,
    buffer_until_known,
    choose_question,
    find_span_questions,
    read_event_dataset,
)
from service.formats.platforms.common import (
    ConvertedEvent,
    ConvertedFields,
    build_converted_event,
    build_labelled_fields,
    build_reader,
    build_revision_fields,
    check_label_option,
    normalize_base_url,
    pack_extra_fields,
    parse_timestamp,
    quote_for_url,
    require_array,
    require_object,
    to_microseconds,
    to_name,
)
from service.formats.records import ReadOptions
from service.formats.text.alignment import read_span
from service.formats.text.offsets import UTF16

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from service.formats.io.json_objects import NumberedObject
    from service.formats.io.source import TextSource
    from service.formats.records import FileRecord

PLATFORM: Final = "argilla"
RESPONSE_CREATED: Final = "response.created"
RESPONSE_UPDATED: Final = "response.updated"
RESPONSE_DELETED: Final = "response.deleted"
RECORD_DELETED: Final = "record.deleted"
_EXTRA_FIELDS: Final = ("_server_id", "external_id", "metadata", "status", "suggestions")


# -- webhooks ----------------------------------------------------------------------------------------------------------


def from_event(
    event: Mapping[str, Any],
    *,
    received_at: datetime,
    dataset: str = "default",
    options: ReadOptions | None = None,
    only: str | None = None,
) -> ConvertedEvent:
    """The messages of a webhook's body; `only` names the dataset of Argilla that counts, where the event tells it."""
    options = options or ReadOptions()
    kind = event.get("type")
    if not isinstance(kind, str):
        raise InvalidInput("it is missing: is this a webhook of Argilla?", field="type")
    if kind not in (RESPONSE_CREATED, RESPONSE_UPDATED, RESPONSE_DELETED, RECORD_DELETED):
        return ConvertedEvent(
            kind, ignored_reason="only responses that are created, updated or deleted count, and deleted records"
        )
    data = require_object(event.get("data"), "data")
    about = read_event_dataset(data).name
    if only is not None and about not in (None, only):
        return ConvertedEvent(kind, ignored_reason=f"it is about the dataset {str(about)[:100]}")
    status = data.get("status")
    if kind in (RESPONSE_DELETED, RECORD_DELETED):
        at = parse_timestamp(event["timestamp"], "timestamp") if "timestamp" in event else received_at
        name = _build_sentence_id(data, "data").removeprefix(f"{PLATFORM}:")
        of_record = {"task": name} if kind == RECORD_DELETED else {}
        fields: dict[str, Any] = {"id": ":".join((PLATFORM, *of_record, name)), "deleted": True}
        fields |= {"revision": to_microseconds(at), "meta": {"format": PLATFORM, **of_record}}
    elif status == "submitted":
        if read_event_dataset(data).questions == {}:
            return ConvertedEvent(kind, ignored_reason="no question of its dataset asks for spans")
        fields = _convert_response(data, options)
    elif status == "discarded" and kind == RESPONSE_UPDATED:
        fields = _build_deletion(data, "data")
    else:
        return ConvertedEvent(kind, ignored_reason=f"the response is {str(status)[:40]}, not submitted")
    if kind == RESPONSE_UPDATED:
        fields["update"] = True
    return build_converted_event(kind, [fields], dataset=dataset, max_words=options.max_words)


def _convert_response(data: Mapping[str, Any], options: ReadOptions) -> dict[str, Any]:
    record = require_object(data.get("record"), "data.record")
    about = read_event_dataset(data)
    questions = about.questions or {}
    if options.label is None and len(questions) > 1:
        raise InvalidInput(f"{', '.join(questions)} {SEVERAL_SPAN_QUESTIONS}", field="data.record.dataset.questions")
    if options.label is not None and questions and options.label not in questions:
        told = f"{options.label} is none of the questions that ask for spans: {', '.join(questions)}"
        raise InvalidInput(told, field="data.record.dataset.questions")
    values = _extract_values(data.get("values"))
    chosen = options.label or choose_question(values, questions.keys(), "data.values")
    fields = _build_response_fields(values, chosen, record, "data.values", options, text_field=questions.get(chosen))
    fields["id"] = _build_sentence_id(data, "data")
    fields |= build_revision_fields(data.get("updated_at"), "data.updated_at")
    user = data.get("user")
    annotator = to_name(user.get("username") or user.get("id")) if isinstance(user, dict) else to_name(user)
    if annotator is not None:
        fields["annotator"] = annotator[:256]
    if isinstance(user, dict) and to_name(user.get("id")) not in (None, annotator):
        fields["meta"]["user"] = to_name(user.get("id"))  # what a record's responses are told by
    _add_link(fields, about.id, record.get("id"), options)
    return fields


# -- records -----------------------------------------------------------------------------------------------------------


def from_record(
    record: Mapping[str, Any], options: ReadOptions, known_questions: AbstractSet[str] = frozenset()
) -> Iterator[ConvertedFields]:
    """The sentences of a record, as `records.to_json` or the REST API writes it: one a response.

    `known` are questions that other records of the same dataset have shown to be about spans.
    """
    if "type" in record and "data" in record:  # a webhook's body as somebody kept it
        yield from _convert_stored_event(record, options)
        return
    if "responses" not in record or "fields" not in record:
        missing = "responses" if "fields" in record else "fields"
        raise InvalidInput("it is missing: export the records with their responses", field=missing)
    responses = record["responses"]
    questions = find_span_questions(record) | known_questions
    if isinstance(responses, dict):
        yield from _convert_by_question(responses, record, options, questions & responses.keys())
        return
    for place, given in enumerate(require_array(responses, "responses")):
        field = f"responses.{place}"
        try:
            response = require_object(given, field)
            status = response.get("status", "submitted")
            if status == "discarded":
                yield _build_deletion(response, field)
            if status != "submitted":
                continue
            values = _extract_values(response.get("values"))
            chosen = options.label or choose_question(values, questions, f"{field}.values")
            fields = _build_response_fields(values, chosen, record, f"{field}.values", options)
            fields["meta"]["responses"] = "list"
            fields["id"] = _build_sentence_id(response, field)
            fields |= build_revision_fields(response.get("updated_at"), f"{field}.updated_at")
            yield _add_user(fields, response, record, options)
        except InvalidInput as error:
            yield error


def _convert_by_question(
    responses: Mapping[str, Any], record: Mapping[str, Any], options: ReadOptions, questions: AbstractSet[str]
) -> Iterator[ConvertedFields]:
    """Question to a list with one answer a user, as the SDK writes it; it has neither times nor ids."""
    several = len(questions | ({options.label} & responses.keys())) > 1
    for question, answers in responses.items():
        if options.label not in (None, question):
            continue
        for place, given in enumerate(require_array(answers, f"responses.{question}")):
            field = f"responses.{question}.{place}"
            try:
                answer = require_object(given, field)
                if answer.get("status", "submitted") != "submitted":
                    continue
                if question not in questions and options.label is None:
                    if answer.get("value") == [] and not questions:
                        yield InvalidInput(UNKNOWN_SPAN_QUESTION, field=field)
                    continue
                user = to_name(answer.get("user_id"))
                values = {question: answer.get("value")} | _collect_other_answers(
                    responses, user, questions | {question}
                )
                fields = _build_response_fields(values, question, record, field, options)
                record_id = to_name(record.get("id")) or to_name(record.get("_server_id"))
                if record_id is not None:
                    parts = (PLATFORM, record_id, user, question if several else None)
                    fields["id"] = ":".join(part for part in parts if part)
                yield _add_user(fields, answer, record, options)
            except InvalidInput as error:
                yield error


def _collect_other_answers(responses: Mapping[str, Any], user: str | None, spans: AbstractSet[str]) -> dict[str, Any]:
    """What the same user has submitted to questions that ask for something else."""
    return {
        question: one.get("value")
        for question, answers in responses.items()
        for one in (answers if question not in spans and isinstance(answers, list) else ())
        if isinstance(one, dict)
        and to_name(one.get("user_id")) == user
        and one.get("status", "submitted") == "submitted"
    }


def _convert_stored_event(event: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    at = parse_timestamp(event.get("timestamp"), "timestamp")
    for sentence in from_event(event, received_at=at, options=options).sentences:
        yield sentence.model_dump(exclude_defaults=True, mode="json")


# -- both --------------------------------------------------------------------------------------------------------------


def _build_response_fields(
    values: Mapping[str, Any],
    question: str,
    record: Mapping[str, Any],
    field: str,
    options: ReadOptions,
    *,
    text_field: str | None = None,
) -> dict[str, Any]:
    # A question that may be left open has no answer: no entity was found.
    spans = [
        read_span(value, f"{field}.{question}.{place}")
        for place, value in enumerate(require_array(values.get(question) or [], f"{field}.{question}"))
    ]
    texts = require_object(record.get("fields"), "fields")
    name = options.word or text_field or ("text" if "text" in texts else next(iter(texts), "text"))
    if options.word is None and text_field is None and "text" not in texts and len(texts) != 1:
        raise InvalidInput(f"which of {', '.join(list(texts)[:10])} is the text? Name its field", field="fields")
    # Its editor stores offsets as the browser counts them; who writes answers by the SDK counts characters.
    fields = build_labelled_fields(texts.get(name), spans, options, field=f"fields.{name}", unit=UTF16)
    fields["meta"] |= {"format": PLATFORM, "question": question, "field": name}
    record_id = to_name(record.get("id"))
    if record_id is not None:
        fields["meta"]["record"] = record_id
    others = {part: value for part, value in record.items() if part in _EXTRA_FIELDS and value}
    others["fields"] = {part: value for part, value in texts.items() if part != name}
    others["values"] = {part: value for part, value in values.items() if part != question}
    fields["meta"] |= pack_extra_fields({part: value for part, value in others.items() if value})
    return fields


def _extract_values(values: object) -> dict[str, Any]:
    found = values.items() if isinstance(values, dict) else ()
    return {name: one.get("value") if isinstance(one, dict) else one for name, one in found}


def _add_user(
    fields: dict[str, Any], response: Mapping[str, Any], record: Mapping[str, Any], options: ReadOptions
) -> dict[str, Any]:
    user = to_name(response.get("user_id"))
    if user is not None:
        fields["annotator"] = user[:256]
    _add_link(fields, to_name(record.get("dataset_id")), record.get("_server_id") or record.get("id"), options)
    return fields


def _build_deletion(response: Mapping[str, Any], field: str) -> dict[str, Any]:
    fields = {
        "id": _build_sentence_id(response, field),
        "deleted": True,
        "meta": {"format": PLATFORM, "discarded": True},
    }
    return fields | build_revision_fields(response.get("updated_at"), f"{field}.updated_at")


def _build_sentence_id(response: Mapping[str, Any], field: str) -> str:
    name = to_name(response.get("id"))
    if name is None:
        raise InvalidInput("it is missing", field=f"{field}.id")
    return f"{PLATFORM}:{name}"


def _add_link(fields: dict[str, Any], dataset: str | None, record: object, options: ReadOptions) -> None:
    name = to_name(record)
    if options.base_url is not None and dataset and name:
        base = normalize_base_url(options.base_url)
        fields["source"] = f"{base}/dataset/{quote_for_url(dataset)}/annotation-mode?_search={quote_for_url(name)}"


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    known: set[str] = set()

    def objects(source: TextSource) -> Iterator[NumberedObject]:
        return buffer_until_known(read_objects(source), known)

    yield from build_reader(lambda found, options: from_record(found, options, known), objects)(source, options)
    check_label_option(source, options, known)
