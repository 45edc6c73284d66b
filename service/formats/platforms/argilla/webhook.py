"""Webhooks of Argilla 2.

A submitted response is one sentence, `argilla:RESPONSE`. A discarded response says nothing about the words: it becomes
`deleted`. For a deleted record Argilla names only the record: `argilla:task:RECORD` is `deleted` and stands for all its
responses. Drafts and other events are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from service.contracts import PlatformTask
from service.errors import InvalidInput
from service.formats.conversion import build_revision_fields
from service.formats.io.json_values import parse_timestamp, require_object, to_name
from service.formats.platforms.argilla.questions import (
    SEVERAL_SPAN_QUESTIONS,
    choose_question,
    read_event_dataset,
)
from service.formats.platforms.argilla.responses import (
    PLATFORM,
    add_link,
    build_discarded_fields,
    build_response_fields,
    build_sentence_id,
    extract_values,
    require_response_id,
)
from service.formats.platforms.events import ConvertedEvent, build_converted_event, build_deletion_fields
from service.formats.platforms.webhook_signatures import ID_HEADER, TIMESTAMP_HEADER, parse_secret, verify
from service.formats.records import ReadOptions
from service.formats.webhook import Webhook, WebhookQuery, WebhookSignature

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from service.formats.conversion import ConvertedFields

RESPONSE_CREATED: Final = "response.created"
RESPONSE_UPDATED: Final = "response.updated"
RESPONSE_DELETED: Final = "response.deleted"
RECORD_DELETED: Final = "record.deleted"
_EVENTS: Final = (RESPONSE_CREATED, RESPONSE_UPDATED, RESPONSE_DELETED, RECORD_DELETED)


class ArgillaQuery(WebhookQuery):
    argilla_dataset: str | None = Field(
        default=None, max_length=256, description="Accept only events of this Argilla dataset: its name"
    )
    question: str | None = Field(
        default=None, max_length=256, description="Question that asks for spans, if several do"
    )

    @property
    def label(self) -> str | None:
        return self.question


def convert_event(
    event: Mapping[str, Any], query: ArgillaQuery, received_at: datetime, options: ReadOptions
) -> ConvertedEvent:
    return from_event(
        event, received_at=received_at, dataset=query.dataset, options=options, argilla_dataset=query.argilla_dataset
    )


def from_event(
    event: Mapping[str, Any],
    *,
    received_at: datetime,
    dataset: str = "default",
    options: ReadOptions | None = None,
    argilla_dataset: str | None = None,
) -> ConvertedEvent:
    """The sentences of a webhook's body. Events that name another dataset than `argilla_dataset` are ignored."""
    options = options or ReadOptions()
    kind = event.get("type")
    if not isinstance(kind, str):
        raise InvalidInput("it is missing: is this a webhook of Argilla?", field="type")
    if kind not in _EVENTS:
        return ConvertedEvent(
            kind, ignored_reason="only responses that are created, updated or deleted count, and deleted records"
        )
    data = require_object(event.get("data"), "data")
    named_dataset = read_event_dataset(data).name
    if argilla_dataset is not None and named_dataset not in (None, argilla_dataset):
        return ConvertedEvent(kind, ignored_reason=f"it is about the dataset {str(named_dataset)[:100]}")
    status = data.get("status")
    if kind in (RESPONSE_DELETED, RECORD_DELETED):
        fields = _convert_deletion(event, kind, data, received_at)
    elif status == "submitted":
        if read_event_dataset(data).questions == {}:
            return ConvertedEvent(kind, ignored_reason="no question of its dataset asks for spans")
        fields = _convert_response(data, options)
    elif status == "discarded" and kind == RESPONSE_UPDATED:
        fields = build_discarded_fields(data, data.get("record"), "data")
    else:
        return ConvertedEvent(kind, ignored_reason=f"the response is {str(status)[:40]}, not submitted")
    if kind == RESPONSE_UPDATED:
        fields["update"] = True
    return build_converted_event(kind, [fields], dataset=dataset, max_words=options.max_words)


def convert_stored_event(event: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    """The sentences of a webhook's body that was stored in a file."""
    received_at = parse_timestamp(event.get("timestamp"), "timestamp")
    for sentence in from_event(event, received_at=received_at, options=options).sentences:
        yield sentence.model_dump(exclude_defaults=True, mode="json")


def _convert_deletion(
    event: Mapping[str, Any], kind: str, data: Mapping[str, Any], received_at: datetime
) -> dict[str, Any]:
    deleted_at = parse_timestamp(event["timestamp"], "timestamp") if "timestamp" in event else received_at
    name = require_response_id(data, "data")
    if kind == RECORD_DELETED:
        return build_deletion_fields(PLATFORM, PlatformTask(PLATFORM, name).deletion_id, deleted_at, task=name)
    return build_deletion_fields(PLATFORM, f"{PLATFORM}:{name}", deleted_at)


def _convert_response(data: Mapping[str, Any], options: ReadOptions) -> dict[str, Any]:
    record = require_object(data.get("record"), "data.record")
    dataset = read_event_dataset(data)
    questions = dataset.questions or {}
    if options.label is None and len(questions) > 1:
        raise InvalidInput(f"{', '.join(questions)} {SEVERAL_SPAN_QUESTIONS}", field="data.record.dataset.questions")
    if options.label is not None and questions and options.label not in questions:
        raise InvalidInput(
            f"{options.label} is not one of the questions that ask for spans: {', '.join(questions)}",
            field="data.record.dataset.questions",
        )
    values = extract_values(data.get("values"))
    question = options.label or choose_question(values, questions.keys(), "data.values")
    fields = build_response_fields(values, question, record, "data.values", options, text_field=questions.get(question))
    fields["id"] = build_sentence_id(data, "data")
    fields |= build_revision_fields(data.get("updated_at"), "data.updated_at")
    user = data.get("user")
    annotator = to_name(user.get("username") or user.get("id")) if isinstance(user, dict) else to_name(user)
    if annotator is not None:
        fields["annotator"] = annotator[:256]
    if isinstance(user, dict) and to_name(user.get("id")) not in (None, annotator):
        fields["meta"]["user"] = to_name(user.get("id"))  # responses of a record refer to users by id
    add_link(fields, dataset.id, record.get("id"), options)
    return fields


WEBHOOK: Final = Webhook(
    summary="Take an event of Argilla",
    description="""Responses that are created, updated or deleted, also with their record. Drafts and other events are
ignored.

A webhook of Argilla receives the events of all its datasets: `argilla_dataset` selects one.

If `LABELWATCH_API_ARGILLA_SECRETS` is set, the signature is checked and no key is needed.""",
    example={"type": "response.deleted", "timestamp": "2026-03-01T10:00:00Z", "data": {"id": "r-1"}},
    event_field="type",
    query=ArgillaQuery,
    convert=convert_event,
    signature=WebhookSignature(
        secrets_setting="argilla_secrets",
        parse_secret=parse_secret,
        verify=verify,
        id_header=ID_HEADER,
        timestamp_header=TIMESTAMP_HEADER,
    ),
)
