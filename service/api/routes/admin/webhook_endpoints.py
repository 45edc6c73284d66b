"""Endpoints of outgoing webhooks, for administrators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from service.api.access.actor import get_actor
from service.api.access.caller import get_caller
from service.api.backend import Backend
from service.api.dependencies import BackendDep
from service.api.http.bodies import read_empty_object, read_json_object
from service.api.http.problems import NotFoundError
from service.api.http.threads import run_in_thread
from service.contracts.access.audit import AuditAction
from service.contracts.notification import EventType, Notification
from service.contracts.validation import shorten
from service.errors import ConflictError, InvalidInput
from service.log.protocol import Output
from service.notifications.admin import BuildAudit, EndpointReport, NewEndpoint, TestDelivery, WebhookAdmin

router = APIRouter(prefix="/v1/webhook-endpoints", tags=["outgoing webhooks"])

MAX_LISTED_FAILED = 100
EXAMPLE = {"url": "https://example.com/labelwatch", "events": ["item.decided", "batch.verdict"], "datasets": ["med"]}

EMPTY_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object", "maxProperties": 0, "examples": [{}]}}},
    }
}

EndpointPath = Annotated[str, Path(max_length=64, description="Id of the endpoint", examples=["wh_0123456789abcdef"])]


class EndpointFields(BaseModel):
    """`url` is required."""

    url: str
    events: list[EventType] | None = Field(default=None, description="Events to send; all by default")
    datasets: list[str] | None = Field(default=None, description="Only events of these datasets; all by default")
    body: Literal["standard", "slack"] | None = None


class EndpointList(BaseModel):
    endpoints: list[EndpointReport]


class FailedNotifications(BaseModel):
    notifications: list[Notification] = Field(description=f"At most {MAX_LISTED_FAILED}, the last first")


class Retried(BaseModel):
    notifications: int = Field(description="Notifications that are sent again")


def require_admin(backend: Backend) -> WebhookAdmin:
    if backend.webhooks is None:
        raise ConflictError("outgoing webhooks are off: set LABELWATCH_WEBHOOKS_KEY and restart the service")
    return backend.webhooks


def build_audit(request: Request, backend: Backend) -> BuildAudit:
    actor = get_actor(request)

    def build(action: AuditAction, endpoint_id: str) -> Output | None:
        return actor.build_message(backend.topics.audit, action, subject=endpoint_id) if backend.is_audited else None

    return build


@router.get("", summary="Endpoints of outgoing webhooks")
async def endpoints(backend: BackendDep) -> EndpointList:
    """All endpoints, how their deliveries go, and how many notifications wait or failed."""
    return EndpointList(endpoints=await run_in_thread(require_admin(backend).list_endpoints))


@router.post(
    "",
    summary="Add an endpoint",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": EndpointFields.model_json_schema(), "example": EXAMPLE}},
        }
    },
)
async def add(request: Request, backend: BackendDep) -> NewEndpoint:
    """The answer has the secret that deliveries are signed with (Standard Webhooks). It is not shown again."""
    admin = require_admin(backend)
    fields: dict[str, Any] = dict(await read_json_object(request))
    known = EndpointFields.model_fields
    for name in fields:
        if name not in known:
            raise InvalidInput(f"there is no such field: the fields are {', '.join(known)}", field=shorten(name))
    given = {name: value for name, value in fields.items() if value is not None}
    return await run_in_thread(admin.add, given, build_audit(request, backend))


@router.delete("/{id}", summary="Remove an endpoint", status_code=204)
async def remove(id: EndpointPath, request: Request, backend: BackendDep) -> None:  # noqa: A002 - as the messages call it
    """Nothing is sent to it any more. What waits for it is dropped."""
    with _answer_missing():
        await run_in_thread(require_admin(backend).remove, id, build_audit(request, backend))


@router.patch(
    "/{id}",
    summary="Pause or resume an endpoint",
    status_code=204,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {"paused": {"type": "boolean"}},
                        "required": ["paused"],
                        "additionalProperties": False,
                        "examples": [{"paused": True}],
                    }
                }
            },
        }
    },
)
async def pause(id: EndpointPath, request: Request, backend: BackendDep) -> None:  # noqa: A002 - as above
    """Notifications wait while it is paused, at most 1,000, and are sent when it is resumed."""
    fields = await read_json_object(request)
    for name in fields:
        if name != "paused":
            raise InvalidInput(
                "it can't be changed: only `paused` can. Add another endpoint instead", field=shorten(name)
            )
    paused = fields.get("paused")
    if not isinstance(paused, bool):
        raise InvalidInput("it must be true or false", field="paused")
    with _answer_missing():
        audit = build_audit(request, backend)
        await run_in_thread(lambda: require_admin(backend).pause(id, audit, paused=paused))


@router.post("/{id}/test", summary="Send a test", openapi_extra=EMPTY_BODY)
async def test(id: EndpointPath, request: Request, backend: BackendDep) -> TestDelivery:  # noqa: A002 - as above
    """Sends one notification of the type `webhook.test` at once, and says what the receiver answered."""
    await read_empty_object(request)
    with _answer_missing():
        return await run_in_thread(require_admin(backend).test, id, by=get_caller(request).name)


@router.get("/{id}/failed", summary="Notifications that could not be delivered")
async def failed(id: EndpointPath, backend: BackendDep) -> FailedNotifications:  # noqa: A002 - as above
    """They failed at every attempt, for about 28 hours, or were too many."""
    with _answer_missing():
        found = await run_in_thread(require_admin(backend).list_failed, id)
    return FailedNotifications(notifications=found[:MAX_LISTED_FAILED])


@router.post("/{id}/retry", summary="Send failed notifications again", status_code=202, openapi_extra=EMPTY_BODY)
async def retry(id: EndpointPath, request: Request, backend: BackendDep) -> Retried:  # noqa: A002 - as above
    """Enables a disabled endpoint, and sends everything again that failed or waits."""
    await read_empty_object(request)
    with _answer_missing():
        retried = await run_in_thread(require_admin(backend).retry, id, build_audit(request, backend))
    return Retried(notifications=retried)


@contextmanager
def _answer_missing() -> Iterator[None]:
    """An endpoint that does not exist is answered 404."""
    try:
        yield
    except InvalidInput as error:
        if error.field == "id":
            raise NotFoundError(str(error.problem), field="id") from None
        raise
