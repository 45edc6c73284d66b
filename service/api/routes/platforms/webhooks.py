"""`POST /v1/webhooks/…`: appends events of annotation platforms to the input topic. Nothing is judged in the request.

Label Studio waits one second for the answer and never retries, so a request waits for the log only. An event that
cannot be read is rejected with its field and stored as a dead letter, because nobody sees the answer of a webhook. An
event that was signed too long ago becomes a dead letter too. An event that was delivered before is not ingested again.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.backend import get_backend, get_request_id
from service.api.http.bodies import read_json_object
from service.api.http.problems import UnauthorizedError
from service.api.http.threads import run_in_thread
from service.api.ingest.platform_settings import get_platform_url, get_webhook_path, parse_webhook_secrets
from service.api.ingest.request_origin import get_request_origin
from service.api.ingest.webhook_deletions import complete_deletions
from service.errors import DecodeError, InvalidInput, StreamError
from service.formats import FORMATS, ReadOptions
from service.formats.platforms.events import ConvertedEvent
from service.log.codec import build_dead_letter, build_sentence_message
from service.log.protocol import Record
from service.log.topics import MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from service.api.backend import Backend
    from service.formats import Format
    from service.formats.webhook import Webhook, WebhookQuery, WebhookSignature
    from service.log.protocol import Output

logger = logging.getLogger(__name__)

MAX_DEAD_LETTER_BYTES = MAX_OUTPUT_BYTES - (1 << 16)  # headers count too
ALREADY_DELIVERED = "it was delivered before"

router = APIRouter(tags=["webhooks"])


class WebhookResult(BaseModel):
    """What became of an event."""

    event: str
    ids: list[str] = Field(description="Ids of the sentences that were appended to the log; none if there are none")
    ignored: str | None = Field(
        default=None, description="Why nothing was appended, or which part of the event cannot be read"
    )
    request_id: str


def _build_handler(form: Format, webhook: Webhook[Any]) -> Callable[..., Awaitable[Response]]:
    async def receive_event(request: Request, query: WebhookQuery) -> Response:
        if webhook.signature is None:
            return await ingest_event(request, form, webhook, query)
        return await _ingest_signed_event(request, form, webhook, webhook.signature, query)

    # FastAPI takes the parameters of a route from these annotations; each platform has its own query.
    receive_event.__annotations__["query"] = Annotated[webhook.query, Query()]
    return receive_event


for _form in FORMATS.values():
    if _form.webhook is not None:
        router.add_api_route(
            get_webhook_path(_form),
            _build_handler(_form, _form.webhook),
            methods=["POST"],
            name=f"{_form.name.replace('-', '_')}_event",
            status_code=202,
            response_model=WebhookResult,
            summary=_form.webhook.summary,
            description=_form.webhook.description,
            openapi_extra={
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": [_form.webhook.event_field],
                                "examples": [_form.webhook.example],
                            }
                        }
                    },
                }
            },
        )


async def _ingest_signed_event(
    request: Request, form: Format, webhook: Webhook[Any], signature: WebhookSignature, query: WebhookQuery
) -> Response:
    """Checks the signature if secrets are set, and ingests an event once. Its deliveries carry an id."""
    backend, raw = get_backend(request), await request.body()
    late_reason = None
    secrets = parse_webhook_secrets(backend.settings, form)
    if secrets:
        usable = [each.secret for each in secrets if each.dataset in (None, query.dataset)]
        try:
            late_reason = signature.verify(raw, request.headers, usable, now=datetime.now(UTC)).late_reason
        except InvalidInput as error:
            raise UnauthorizedError(str(error)) from None
    async with backend.deliveries.deduplicate(_list_delivery_keys(request, signature.id_header, raw, query)) as is_new:
        if not is_new:
            backend.telemetry.count_webhook(form.name, "repeated")
            return _build_response(request, ConvertedEvent("", ignored_reason=ALREADY_DELIVERED))
        if late_reason is not None:
            # The signature is valid, but anybody may replay a stored delivery: store it without ingesting it.
            late = InvalidInput(late_reason, field=signature.timestamp_header)
            await _append_dead_letter(backend, form.name, raw, late, outcome="late")
            return _build_response(
                request, ConvertedEvent("", ignored_reason=f"{late_reason} It is stored as a dead letter")
            )
        return await ingest_event(request, form, webhook, query)


def _list_delivery_keys(request: Request, id_header: str, raw: bytes, query: WebhookQuery) -> list[str]:
    """Keys that recognise a repeated delivery: its id, and its body, because a retry may have a new id."""
    delivery_id = request.headers.get(id_header)
    if not delivery_id:
        return []
    # The id is signed, so it stands for itself. Two webhooks of a platform may send one event to two datasets of ours.
    return [delivery_id, f"{query.model_dump_json()}\n{hashlib.sha256(raw).hexdigest()}"]


async def ingest_event(request: Request, form: Format, webhook: Webhook[Any], query: WebhookQuery) -> Response:
    """Appends the sentences of an event, whose sender may do so."""
    backend = get_backend(request)
    raw = await request.body()
    try:
        body = await read_json_object(request)
    except DecodeError as error:
        await _append_dead_letter(backend, form.name, raw, error)
        raise

    def convert() -> tuple[ConvertedEvent, list[Output]]:
        options = ReadOptions(
            word=query.field,
            label=query.label,
            base_url=get_platform_url(backend.settings, form),
            max_words=backend.max_words,
            scheme=backend.state_view.get_judge(query.dataset).scheme,
        )
        received_at = datetime.now(UTC)
        event = webhook.convert(body, query, received_at, options)
        sentences = complete_deletions(backend, form.name, event, dataset=query.dataset, received_at=received_at)
        topic = backend.topics.sentences
        origin = get_request_origin(request)
        messages = [build_sentence_message(topic, sentence, origin=origin) for sentence in sentences]
        return replace(event, sentences=sentences), messages

    try:
        event, messages = await run_in_thread(convert)
    except InvalidInput as error:
        await _append_dead_letter(backend, form.name, raw, error)
        raise
    if messages:
        backend.deliveries.record_revisions(event.sentences)
        await backend.appender.append(messages)
    if event.errors:
        await _append_dead_letter(backend, form.name, raw, event.errors[0])
        share = f"{len(event.errors)} of {len(event.errors) + len(event.sentences)}"
        reason = f"{share} can't be read: the event is stored as a dead letter; the first: {event.errors[0]}"
        return _build_response(request, replace(event, ignored_reason=reason))
    backend.telemetry.count_webhook(form.name, "taken" if messages else "ignored")
    return _build_response(request, event)


def _build_response(request: Request, event: ConvertedEvent) -> Response:
    result = WebhookResult(
        event=event.event[:100],
        ids=[sentence.id or "" for sentence in event.sentences],
        ignored=event.ignored_reason,
        request_id=get_request_id(request),
    )
    return Response(result.model_dump_json(), status_code=202, media_type="application/json")


async def _append_dead_letter(
    backend: Backend, platform: str, raw: bytes, error: InvalidInput, *, outcome: Literal["refused", "late"] = "refused"
) -> None:
    """Stores an event as a dead letter whose origin is the webhook. An event larger than the topic allows is cut."""
    logger.warning("an event of %s is refused: %s", platform, error)
    letter = build_dead_letter(
        backend.topics.dead_letters, Record(f"webhook:{platform}", 0, 0, None, raw[:MAX_DEAD_LETTER_BYTES]), error
    )
    try:
        await backend.appender.append([letter])
    except StreamError:
        if outcome == "late":
            raise
        # the answer to a rejected event names the same error
        backend.telemetry.count_webhook(platform, outcome)
    else:
        backend.telemetry.count_webhook(platform, outcome, stage=error.stage)
