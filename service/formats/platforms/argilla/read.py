"""Reads records of Argilla 2 and stored webhooks.

One submitted response to a span question is one sentence, `argilla:RESPONSE`. Records of the SDK have no response ids:
there it is `argilla:RECORD:USER`, and `argilla:RECORD:USER:QUESTION` if a record has several span questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.errors import InvalidInput
from service.formats.conversion import ConvertedFields, build_reader, build_revision_fields, check_label_option
from service.formats.io.json_objects import read_objects
from service.formats.io.json_values import require_array, require_object, to_name
from service.formats.platforms.argilla.questions import (
    UNKNOWN_SPAN_QUESTION,
    buffer_until_known,
    choose_question,
    find_span_questions,
)
from service.formats.platforms.argilla.responses import (
    PLATFORM,
    add_link,
    build_discarded_fields,
    build_response_fields,
    build_sentence_id,
    extract_values,
)
from service.formats.platforms.argilla.webhook import convert_stored_event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from service.formats.io.json_objects import NumberedObject
    from service.formats.io.source import TextSource
    from service.formats.records import FileRecord, ReadOptions


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    questions: set[str] = set()

    def read_buffered(source: TextSource) -> Iterator[NumberedObject]:
        return buffer_until_known(read_objects(source), questions)

    def convert(record: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
        return from_record(record, options, questions)

    yield from build_reader(convert, read_buffered)(source, options)
    check_label_option(source, options, questions)


def from_record(
    record: Mapping[str, Any], options: ReadOptions, known_questions: AbstractSet[str] = frozenset()
) -> Iterator[ConvertedFields]:
    """The sentences of a record as `records.to_json` or the REST API writes it, one per response.

    `known_questions` are span questions that other records of the same dataset have shown.
    """
    if "type" in record and "data" in record:
        return convert_stored_event(record, options)
    if "responses" not in record or "fields" not in record:
        missing = "responses" if "fields" in record else "fields"
        raise InvalidInput("it is missing: export the records with their responses", field=missing)
    responses = record["responses"]
    questions = find_span_questions(record) | known_questions
    if isinstance(responses, dict):
        return _convert_by_question(responses, record, options, questions & responses.keys())
    return _convert_list(require_array(responses, "responses"), record, options, questions)


def _convert_list(
    responses: list[Any], record: Mapping[str, Any], options: ReadOptions, questions: AbstractSet[str]
) -> Iterator[ConvertedFields]:
    """One object per response, as the REST API writes them."""
    for index, value in enumerate(responses):
        field = f"responses.{index}"
        try:
            response = require_object(value, field)
            status = response.get("status", "submitted")
            if status == "discarded":
                yield build_discarded_fields(response, record, field)
            if status != "submitted":
                continue
            values = extract_values(response.get("values"))
            question = options.label or choose_question(values, questions, f"{field}.values")
            fields = build_response_fields(values, question, record, f"{field}.values", options)
            fields["meta"]["responses"] = "list"
            fields["id"] = build_sentence_id(response, field)
            fields |= build_revision_fields(response.get("updated_at"), f"{field}.updated_at")
            yield _add_user(fields, response, record, options)
        except InvalidInput as error:
            yield error


def _convert_by_question(
    responses: Mapping[str, Any], record: Mapping[str, Any], options: ReadOptions, questions: AbstractSet[str]
) -> Iterator[ConvertedFields]:
    """Question to a list with one answer per user, as the SDK writes them. They have neither times nor ids."""
    has_several = len(questions | ({options.label} & responses.keys())) > 1
    for question, answers in responses.items():
        if options.label not in (None, question):
            continue
        for index, value in enumerate(require_array(answers, f"responses.{question}")):
            field = f"responses.{question}.{index}"
            try:
                answer = require_object(value, field)
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
                fields = build_response_fields(values, question, record, field, options)
                record_id = to_name(record.get("id")) or to_name(record.get("_server_id"))
                if record_id is not None:
                    parts = (PLATFORM, record_id, user, question if has_several else None)
                    fields["id"] = ":".join(part for part in parts if part)
                yield _add_user(fields, answer, record, options)
            except InvalidInput as error:
                yield error


def _collect_other_answers(
    responses: Mapping[str, Any], user: str | None, span_questions: AbstractSet[str]
) -> dict[str, Any]:
    """What the same user has submitted to questions that do not ask for spans."""
    return {
        question: answer.get("value")
        for question, answers in responses.items()
        for answer in (answers if question not in span_questions and isinstance(answers, list) else ())
        if isinstance(answer, dict)
        and to_name(answer.get("user_id")) == user
        and answer.get("status", "submitted") == "submitted"
    }


def _add_user(
    fields: dict[str, Any], response: Mapping[str, Any], record: Mapping[str, Any], options: ReadOptions
) -> dict[str, Any]:
    user = to_name(response.get("user_id"))
    if user is not None:
        fields["annotator"] = user[:256]
    add_link(fields, to_name(record.get("dataset_id")), record.get("_server_id") or record.get("id"), options)
    return fields
