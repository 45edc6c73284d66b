"""`POST /v1/webhooks/…`: events of annotation platforms, into the input topic. Nothing is judged in the request.

Label Studio waits one second for the answer and never sends again, so there is nothing to wait for but the log. What
can't be read is refused with its field, and kept as a dead letter: nobody looks at the answers that a webhook gets.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.backend import backend_of, request_id_of
from service.api.bodies import in_thread, json_object
from service.api.problems import TooLargeError, UnauthorizedError
from service.api.routes.sentences import message_of
from service.contracts import DatasetName
from service.errors import DecodeError, InvalidInput, StreamError
from service.formats import Options, argilla, label_studio
from service.formats.standard_webhooks import read_secret, verify
from service.stream.base import Record
from service.stream.codec import dead_letter
from service.stream.topics import MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.api.backend import Backend
    from service.formats.platforms import Delivery
    from service.stream.base import Output

log = logging.getLogger(__name__)

MAX_KEPT_BYTES = MAX_OUTPUT_BYTES - (1 << 16)  # headers count too

router = APIRouter(tags=["webhooks"])

Dataset = Annotated[DatasetName, Query(description="Dataset of the annotations: give each project its own")]
TextField = Annotated[
    str | None, Query(max_length=256, description="Field of the text, where the project does not tell it")
]
Control = Annotated[
    str | None, Query(max_length=256, description="Control that labels the spans, where there are several")
]
ArgillaDataset = Annotated[
    str | None, Query(max_length=256, description="Take only what is about this dataset of Argilla: its name")
]
Question = Annotated[str | None, Query(max_length=256, description="Question that asks for spans, where several do")]


class Taken(BaseModel):
    """What became of an event."""

    event: str
    ids: list[str] = Field(
        description="Of the sentences that are in the log now; none where the event says nothing new"
    )
    ignored: str | None = Field(default=None, description="Why there is nothing to do")
    request_id: str


class Converter(Protocol):
    def __call__(
        self, event: Mapping[str, Any], *, received_at: datetime, dataset: str, options: Options
    ) -> Delivery: ...


def _body(example: dict[str, Any]) -> dict[str, Any]:
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
    response_model=Taken,
    summary="Take an event of Label Studio",
    openapi_extra=_body({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 41}]}),
)
async def label_studio_event(
    request: Request, dataset: Dataset = "default", field: TextField = None, control: Control = None
) -> Response:
    """Annotations that are created, updated or deleted, also with their task. Other events are ignored.

    Set the key as a header of the webhook: `Authorization: Bearer KEY`.
    """
    options = Options(word=field, label=control, base_url=backend_of(request).settings.label_studio_url)
    return await _take(request, label_studio.from_event, label_studio.PLATFORM, dataset, options)


@router.post(
    "/v1/webhooks/argilla",
    status_code=202,
    response_model=Taken,
    summary="Take an event of Argilla",
    openapi_extra=_body({"type": "response.deleted", "timestamp": "2026-03-01T10:00:00Z", "data": {"id": "r-1"}}),
)
async def argilla_event(
    request: Request,
    *,
    dataset: Dataset = "default",
    argilla_dataset: ArgillaDataset = None,
    field: TextField = None,
    question: Question = None,
) -> Response:
    """Responses that are created, updated or deleted; other events and drafts are ignored.

    A webhook of Argilla is told of all its datasets: `argilla_dataset` picks one.

    Where `LABELWATCH_API_ARGILLA_SECRETS` is set the signature is checked and no key is needed.
    """
    settings = backend_of(request).settings
    if settings.webhook_secrets:
        secrets = [read_secret(one) for one in settings.webhook_secrets]
        try:
            verify(await request.body(), request.headers, secrets, now=datetime.now(UTC))
        except InvalidInput as error:
            raise UnauthorizedError(str(error)) from None
    options = Options(word=field, label=question, base_url=settings.argilla_url)
    convert = partial(argilla.from_event, only=argilla_dataset)
    return await _take(request, convert, argilla.PLATFORM, dataset, options)


async def _take(request: Request, convert: Converter, platform: str, dataset: str, options: Options) -> Response:
    backend, request_id = backend_of(request), request_id_of(request)
    raw = await request.body()
    try:
        event = await json_object(request)
    except DecodeError as error:
        await _keep(backend, platform, raw, error)
        raise

    def work() -> tuple[Delivery, list[Output]]:
        scheme = backend.mirror.judge(dataset).scheme
        chosen = Options(
            word=options.word,
            label=options.label,
            base_url=options.base_url,
            max_words=backend.max_words,
            scheme=scheme,
        )
        now = datetime.now(UTC)
        found = convert(event, received_at=now, dataset=dataset, options=chosen)
        if found.tasks:
            gone = [one for task in found.tasks for one in backend.queue.of_task(dataset, platform, task)]
            ignored = None if gone else "none of their annotations is in review"
            sentences = label_studio.deletions(gone, received_at=now, dataset=dataset)
            found = replace(found, sentences=sentences, ignored=ignored)
        return found, [message_of(backend, sentence, request_id) for sentence in found.sentences]

    try:
        found, messages = await in_thread(work)
    except InvalidInput as error:
        await _keep(backend, platform, raw, error)
        raise
    except TooLargeError as error:
        await _keep(backend, platform, raw, InvalidInput(str(error), field=error.field))
        raise
    if messages:
        await backend.append(messages)
    ids = [sentence.id or "" for sentence in found.sentences]
    answer = Taken(event=found.event[:100], ids=ids, ignored=found.ignored, request_id=request_id)
    return Response(answer.model_dump_json(), status_code=202, media_type="application/json")


async def _keep(backend: Backend, platform: str, raw: bytes, error: InvalidInput) -> None:
    """As a dead letter, whose origin is the webhook. Of an event larger than the topic takes its beginning is kept."""
    log.warning("an event of %s is refused: %s", platform, error)
    letter = dead_letter(
        backend.topics.dead_letters, Record(f"webhook:{platform}", 0, 0, None, raw[:MAX_KEPT_BYTES]), error
    )
    with suppress(StreamError):  # the answer says it as well
        await backend.append([letter])
