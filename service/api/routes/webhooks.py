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

from service.api.backend import backend_of, request_id_of
from service.api.http.bodies import in_thread, json_object
from service.api.http.problems import TooLargeError, UnauthorizedError
from service.api.routes.sentences import message_of
from service.contracts import DatasetName
from service.errors import DecodeError, InvalidInput, StateError, StreamError
from service.formats import Options
from service.formats.platforms.argilla import read as argilla
from service.formats.platforms.common import Delivery
from service.formats.platforms.label_studio import read as label_studio
from service.formats.platforms.webhook_signatures import ID as WEBHOOK_ID
from service.formats.platforms.webhook_signatures import TIMESTAMP, read_secret, verify
from service.log.codec import dead_letter
from service.log.protocol import Record
from service.log.topics import MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.api.backend import Backend
    from service.contracts import LabelledSentence
    from service.log.protocol import Output

log = logging.getLogger(__name__)

MAX_KEPT_BYTES = MAX_OUTPUT_BYTES - (1 << 16)  # headers count too

MAX_REVISION = 2**63 - 1
REPEATED = "it was delivered before"

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
    ignored: str | None = Field(default=None, description="Why there is nothing to do, or what of it can't be read")
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
    """Responses that are created, updated or deleted, also with their record; other events and drafts are ignored.

    A webhook of Argilla is told of all its datasets: `argilla_dataset` picks one.

    Where `LABELWATCH_API_ARGILLA_SECRETS` is set the signature is checked and no key is needed.
    """
    backend, raw = backend_of(request), await request.body()
    settings = backend.settings
    late = None
    if settings.webhook_secrets:
        secrets = [read_secret(one) for one in settings.webhook_secrets]
        try:
            late = verify(raw, request.headers, secrets, now=datetime.now(UTC)).late
        except InvalidInput as error:
            raise UnauthorizedError(str(error)) from None
    options = Options(word=field, label=question, base_url=settings.argilla_url)
    convert = partial(argilla.from_event, only=argilla_dataset)
    with backend.deliveries.once(_names(request, raw)) as new:
        if not new:
            backend.telemetry.webhook(argilla.PLATFORM, "repeated")
            return _answer(request, Delivery("", ignored=REPEATED))
        if late is not None:
            # Whoever signed it once, anybody can have kept it: it is not taken, but nothing is lost either.
            await _keep(backend, argilla.PLATFORM, raw, InvalidInput(late, field=TIMESTAMP), outcome="late")
            return _answer(request, Delivery("", ignored=f"{late} It is kept as a dead letter"))
        return await _take(request, convert, argilla.PLATFORM, dataset, options)


def _names(request: Request, raw: bytes) -> list[str]:
    """By which an event is known again: its id, or where a new attempt has a new one, its body, which has its time."""
    identity = request.headers.get(WEBHOOK_ID)
    if not identity:
        return []
    return [f"{request.url.query}\n{name}" for name in (identity, hashlib.sha256(raw).hexdigest())]


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
        found = replace(found, sentences=_dated(backend, _with_known(backend, found, dataset, now), dataset))
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
        backend.deliveries.brought(found.sentences)
        await backend.append(messages)
    if found.refused:
        await _keep(backend, platform, raw, found.refused[0])
        of = f"{len(found.refused)} of {len(found.refused) + len(found.sentences)}"
        told = f"{of} can't be read: the event is kept as a dead letter; the first: {found.refused[0]}"
        return _answer(request, replace(found, ignored=told))
    backend.telemetry.webhook(platform, "taken" if messages else "ignored")
    return _answer(request, found)


def _answer(request: Request, found: Delivery) -> Response:
    ids = [sentence.id or "" for sentence in found.sentences]
    answer = Taken(event=found.event[:100], ids=ids, ignored=found.ignored, request_id=request_id_of(request))
    return Response(answer.model_dump_json(), status_code=202, media_type="application/json")


# -- deletions ---------------------------------------------------------------------------------------------------------


def _with_known(backend: Backend, found: Delivery, dataset: str, now: datetime) -> tuple[LabelledSentence, ...]:
    """With the annotations that are known to have gone with their task: the queue closes the others when they come."""
    if not found.tasks:
        return found.sentences
    try:
        gone = [one for task in found.tasks for one in backend.queue.of_task(dataset, label_studio.PLATFORM, task)]
    except StateError:  # it is being built anew
        gone = []
    return (*found.sentences, *label_studio.deletions(gone, received_at=now, dataset=dataset))


def _dated(backend: Backend, sentences: tuple[LabelledSentence, ...], dataset: str) -> tuple[LabelledSentence, ...]:
    """A deletion without a time of its own is no older than what it deletes, whatever our clock says."""
    undated = [one for one in sentences if _is_undated(one)]
    if not undated:
        return sentences
    newest = backend.deliveries.newest(dataset)
    try:
        known = list(backend.queue.revisions(dataset, [one.id or "" for one in undated]).values())
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


async def _keep(
    backend: Backend, platform: str, raw: bytes, error: InvalidInput, *, outcome: Literal["refused", "late"] = "refused"
) -> None:
    """As a dead letter, whose origin is the webhook. Of an event larger than the topic takes its beginning is kept."""
    log.warning("an event of %s is refused: %s", platform, error)
    letter = dead_letter(
        backend.topics.dead_letters, Record(f"webhook:{platform}", 0, 0, None, raw[:MAX_KEPT_BYTES]), error
    )
    try:
        await backend.append([letter])
    except StreamError:
        if outcome == "late":
            raise
        # the answer of what is refused says it as well
        backend.telemetry.webhook(platform, outcome)
    else:
        backend.telemetry.webhook(platform, outcome, stage=error.stage)
