"""`POST /v1/webhooks/…`: events of annotation platforms, into the input topic. Nothing is judged in the request.

Label Studio waits one second for the answer and never sends again, so there is nothing to wait for but the log. What
can't be read is refused with its field, and kept as a dead letter: nobody looks at the answers that a webhook gets.
So is what was signed too long ago. An event that was delivered before is not taken again.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.backend import get_backend, get_request_id
from service.api.http.bodies import read_json_object, run_in_thread
from service.api.http.problems import UnauthorizedError
from service.contracts import DatasetName
from service.errors import DecodeError, InvalidInput, StateError, StreamError
from service.formats import ReadOptions
from service.formats.platforms.argilla import read as argilla
from service.formats.platforms.common import ConvertedEvent
from service.formats.platforms.label_studio import read as label_studio
from service.formats.platforms.webhook_signatures import ID_HEADER as WEBHOOK_ID
from service.formats.platforms.webhook_signatures import TIMESTAMP_HEADER, parse_secret, verify
from service.log.codec import build_dead_letter, build_sentence_message
from service.log.protocol import Record
from service.log.topics import MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.api.backend import Backend
    from service.contracts import LabelledSentence
    from service.log.protocol import Output

logger = logging.getLogger(__name__)

MAX_DEAD_LETTER_BYTES = MAX_OUTPUT_BYTES - (1 << 16)  # headers count too

MAX_REVISION = 2**63 - 1
ALREADY_DELIVERED = "it was delivered before"

router = APIRouter(tags=["webhooks"])

DatasetQuery = Annotated[DatasetName, Query(description="Dataset of the annotations: give each project its own")]
TextFieldQuery = Annotated[
    str | None, Query(max_length=256, description="Field of the text, where the project does not tell it")
]
ControlQuery = Annotated[
    str | None, Query(max_length=256, description="Control that labels the spans, where there are several")
]
ArgillaDatasetQuery = Annotated[
    str | None, Query(max_length=256, description="Take only what is about this dataset of Argilla: its name")
]
QuestionQuery = Annotated[
    str | None, Query(max_length=256, description="Question that asks for spans, where several do")
]


class WebhookResult(BaseModel):
    """What became of an event."""

    event: str
    ids: list[str] = Field(
        description="Of the sentences that are in the log now; none where the event says nothing new"
    )
    ignored: str | None = Field(default=None, description="Why there is nothing to do, or what of it can't be read")
    request_id: str


class EventConverter(Protocol):
    def __call__(
        self, event: Mapping[str, Any], *, received_at: datetime, dataset: str, options: ReadOptions
    ) -> ConvertedEvent: ...


def _build_body_schema(example: dict[str, Any]) -> dict[str, Any]:
    """The platform says what it sends; the body is told loosely here."""
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object", "examples": [example]}}},
        }
    }


@router.post(
    "/v1/webhooks/label-studio",
    status_code=202,
    response_model=WebhookResult,
    summary="Take an event of Label Studio",
    openapi_extra=_build_body_schema({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 41}]}),
)
async def label_studio_event(
    request: Request, dataset: DatasetQuery = "default", field: TextFieldQuery = None, control: ControlQuery = None
) -> Response:
    """Annotations that are created, updated or deleted, also with their task. Other events are ignored.

    Set the key as a header of the webhook: `Authorization: Bearer KEY`.
    """
    options = ReadOptions(word=field, label=control, base_url=get_backend(request).settings.label_studio_url)
    return await _ingest_event(request, label_studio.from_event, label_studio.PLATFORM, dataset, options)


@router.post(
    "/v1/webhooks/argilla",
    status_code=202,
    response_model=WebhookResult,
    summary="Take an event of Argilla",
    openapi_extra=_build_body_schema(
        {"type": "response.deleted", "timestamp": "2026-03-01T10:00:00Z", "data": {"id": "r-1"}}
    ),
)
async def argilla_event(
    request: Request,
    *,
    dataset: DatasetQuery = "default",
    argilla_dataset: ArgillaDatasetQuery = None,
    field: TextFieldQuery = None,
    question: QuestionQuery = None,
) -> Response:
    """Responses that are created, updated or deleted, also with their record; other events and drafts are ignored.

    A webhook of Argilla is told of all its datasets: `argilla_dataset` picks one.

    Where `LABELWATCH_API_ARGILLA_SECRETS` is set the signature is checked and no key is needed.
    """
    backend, raw = get_backend(request), await request.body()
    settings = backend.settings
    late = None
    if settings.webhook_secrets:
        secrets = [parse_secret(one) for one in settings.webhook_secrets]
        try:
            late = verify(raw, request.headers, secrets, now=datetime.now(UTC)).late_reason
        except InvalidInput as error:
            raise UnauthorizedError(str(error)) from None
    options = ReadOptions(word=field, label=question, base_url=settings.argilla_url)
    convert = partial(argilla.from_event, only=argilla_dataset)
    with backend.deliveries.deduplicate(_list_event_keys(request, raw)) as new:
        if not new:
            backend.telemetry.count_webhook(argilla.PLATFORM, "repeated")
            return _build_response(request, ConvertedEvent("", ignored_reason=ALREADY_DELIVERED))
        if late is not None:
            # Whoever signed it once, anybody can have kept it: it is not taken, but nothing is lost either.
            await _append_dead_letter(
                backend, argilla.PLATFORM, raw, InvalidInput(late, field=TIMESTAMP_HEADER), outcome="late"
            )
            return _build_response(request, ConvertedEvent("", ignored_reason=f"{late} It is kept as a dead letter"))
        return await _ingest_event(request, convert, argilla.PLATFORM, dataset, options)


def _list_event_keys(request: Request, raw: bytes) -> list[str]:
    """By which an event is known again: its id, or where a new attempt has a new one, its body, which has its time."""
    identity = request.headers.get(WEBHOOK_ID)
    if not identity:
        return []
    return [f"{request.url.query}\n{name}" for name in (identity, hashlib.sha256(raw).hexdigest())]


async def _ingest_event(
    request: Request, convert: EventConverter, platform: str, dataset: str, options: ReadOptions
) -> Response:
    backend, request_id = get_backend(request), get_request_id(request)
    raw = await request.body()
    try:
        event = await read_json_object(request)
    except DecodeError as error:
        await _append_dead_letter(backend, platform, raw, error)
        raise

    def work() -> tuple[ConvertedEvent, list[Output]]:
        scheme = backend.state_view.get_judge(dataset).scheme
        chosen = ReadOptions(
            word=options.word,
            label=options.label,
            base_url=options.base_url,
            max_words=backend.max_words,
            scheme=scheme,
        )
        now = datetime.now(UTC)
        found = convert(event, received_at=now, dataset=dataset, options=chosen)
        found = replace(
            found,
            sentences=_bump_deletion_revisions(backend, _with_task_deletions(backend, found, dataset, now), dataset),
        )
        return found, [
            build_sentence_message(backend.topics.sentences, sentence, request_id=request_id)
            for sentence in found.sentences
        ]

    try:
        found, messages = await run_in_thread(work)
    except InvalidInput as error:
        await _append_dead_letter(backend, platform, raw, error)
        raise
    if messages:
        backend.deliveries.record_revisions(found.sentences)
        await backend.appender.append(messages)
    if found.errors:
        await _append_dead_letter(backend, platform, raw, found.errors[0])
        of = f"{len(found.errors)} of {len(found.errors) + len(found.sentences)}"
        told = f"{of} can't be read: the event is kept as a dead letter; the first: {found.errors[0]}"
        return _build_response(request, replace(found, ignored_reason=told))
    backend.telemetry.count_webhook(platform, "taken" if messages else "ignored")
    return _build_response(request, found)


def _build_response(request: Request, delivery: ConvertedEvent) -> Response:
    ids = [sentence.id or "" for sentence in delivery.sentences]
    answer = WebhookResult(
        event=delivery.event[:100], ids=ids, ignored=delivery.ignored_reason, request_id=get_request_id(request)
    )
    return Response(answer.model_dump_json(), status_code=202, media_type="application/json")


# -- deletions ---------------------------------------------------------------------------------------------------------


def _with_task_deletions(
    backend: Backend, delivery: ConvertedEvent, dataset: str, now: datetime
) -> tuple[LabelledSentence, ...]:
    """With the annotations that are known to have gone with their task: the queue closes the others when they come."""
    if not delivery.deleted_tasks:
        return delivery.sentences
    try:
        gone = [
            one
            for task in delivery.deleted_tasks
            for one in backend.queue.find_task_item_ids(dataset, label_studio.PLATFORM, task)
        ]
    except StateError:  # it is being built anew
        gone = []
    return (*delivery.sentences, *label_studio.build_deletions(gone, received_at=now, dataset=dataset))


def _bump_deletion_revisions(
    backend: Backend, sentences: tuple[LabelledSentence, ...], dataset: str
) -> tuple[LabelledSentence, ...]:
    """A deletion without a time of its own is no older than what it deletes, whatever our clock says."""
    undated = [one for one in sentences if _is_undated(one)]
    if not undated:
        return sentences
    newest = backend.deliveries.get_newest_revision(dataset)
    try:
        known = list(backend.queue.get_revisions(dataset, [one.id or "" for one in undated]).values())
    except StateError:  # it is being built anew
        known = []
    least = min(max([*known, *([] if newest is None else [newest])], default=-MAX_REVISION) + 1, MAX_REVISION)
    return tuple(
        one.model_copy(update={"revision": least}) if _is_undated(one) and one.revision < least else one
        for one in sentences
    )


def _is_undated(sentence: LabelledSentence) -> bool:
    return sentence.deleted and sentence.annotated_at is None


# -- dead letters ------------------------------------------------------------------------------------------------------


async def _append_dead_letter(
    backend: Backend, platform: str, raw: bytes, error: InvalidInput, *, outcome: Literal["refused", "late"] = "refused"
) -> None:
    """As a dead letter, whose origin is the webhook. Of an event larger than the topic takes its beginning is kept."""
    logger.warning("an event of %s is refused: %s", platform, error)
    letter = build_dead_letter(
        backend.topics.dead_letters, Record(f"webhook:{platform}", 0, 0, None, raw[:MAX_DEAD_LETTER_BYTES]), error
    )
    try:
        await backend.appender.append([letter])
    except StreamError:
        if outcome == "late":
            raise
        # the answer of what is refused says it as well
        backend.telemetry.count_webhook(platform, outcome)
    else:
        backend.telemetry.count_webhook(platform, outcome, stage=error.stage)
