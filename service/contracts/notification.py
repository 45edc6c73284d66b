"""Outgoing webhooks: their endpoints, the notifications that wait for delivery, and what became of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, get_args

from pydantic import Field, JsonValue, StrictBool, StrictStr

from service.contracts.base import DatasetName, Message

MAX_URL_CHARS = 2_048
EventType = Literal["items.flagged", "item.decided", "dataset.misfit", "dataset.model_replaced", "batch.verdict"]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)

EndpointId = Annotated[StrictStr, Field(pattern=r"^wh_[0-9a-f]{16}$")]


class WebhookEndpoint(Message):
    """An address that notifications are sent to. Its secret is not stored: it follows from its id and the service's key."""

    id: EndpointId
    url: StrictStr = Field(min_length=1, max_length=MAX_URL_CHARS)
    events: tuple[EventType, ...] = Field(default=EVENT_TYPES, min_length=1, description="Events that are sent there")
    datasets: tuple[DatasetName, ...] = Field(
        default=(), max_length=100, description="Only of these datasets; none: all"
    )
    body: Literal["standard", "slack"] = Field(
        default="standard", description="`slack`: a body with a `text`, as incoming webhooks of Slack expect it"
    )
    paused: StrictBool = Field(default=False, description="Whether notifications wait until it is resumed")
    created_at: datetime

    def wants(self, event: EventType, dataset: str) -> bool:
        return event in self.events and (not self.datasets or dataset in self.datasets)


class EndpointStatus(Message):
    """How deliveries to an endpoint go."""

    failing_since: datetime | None = None
    last_error: str | None = None
    disabled_at: datetime | None = Field(default=None, description="Nothing is sent from then on")
    enabled_at: datetime | None = Field(
        default=None, description="When it was enabled again: what is older is not sent"
    )
    last_delivered_at: datetime | None = Field(default=None, description="Time of the last delivery, to the minute")


class Notification(Message):
    """A notification for one endpoint that is not delivered yet, or that could not be delivered."""

    id: StrictStr = Field(description="The same at every attempt: receivers drop what they have already")
    endpoint: EndpointId
    type: StrictStr
    timestamp: datetime
    data: dict[str, JsonValue]
    attempts: int = Field(default=0, ge=0)
    next_attempt_at: datetime | None = None
    last_error: str | None = None
    failed_at: datetime | None = Field(default=None, description="Not attempted any more, unless it is retried")
