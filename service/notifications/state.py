"""The webhooks topic: endpoints, their status, notifications that wait, positions in other topics, and what was last notified.

endpoint/ID            the endpoint                        written by commands and REST
status/ID              how its deliveries go               written by the deliverer, and to enable it again
message/ID/MESSAGE     a notification to deliver           deleted when it is delivered
positions/TOPIC        the next offset of each partition   from which a topic is read
condition/…            the value that was last notified    such as the model of a dataset
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from service.contracts.notification import EndpointStatus, Notification, WebhookEndpoint
from service.errors import ConflictError, InvalidInput
from service.log.protocol import Output
from service.log.read import read_topic
from service.notifications.addresses import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.log.protocol import Log, Record

MAX_ENDPOINTS: Final = 50
UNREADABLE_ERRORS: Final = (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError)
NO_STATUS: Final = EndpointStatus()


class NotificationState:
    """The contents of the topic. Records that can't be read are ignored: a newer release may have written them."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.endpoints: dict[str, WebhookEndpoint] = {}
        self.statuses: dict[str, EndpointStatus] = {}
        self.messages: dict[str, dict[str, Notification]] = {}  # by endpoint and id, in the order of the topic
        self.positions: dict[str, dict[int, int]] = {}
        self.conditions: dict[str, Any] = {}
        for record in records:
            self.apply(record)

    def apply(self, record: Record | Output) -> None:
        with suppress(*UNREADABLE_ERRORS):
            self.apply_strictly(record)

    def apply_strictly(self, record: Record | Output) -> None:
        """Raises one of `UNREADABLE_ERRORS` for a record that can't be read."""
        kind, _, name = (record.key or b"").decode(errors="replace").partition("/")
        self._apply(kind, name, record.value)

    def _apply(self, kind: str, name: str, value: bytes | None) -> None:
        if kind == "endpoint":
            _put(self.endpoints, name, None if value is None else WebhookEndpoint.model_validate_json(value))
        elif kind == "status":
            _put(self.statuses, name, None if value is None else EndpointStatus.model_validate_json(value))
        elif kind == "message":
            endpoint, _, message_id = name.partition("/")
            notification = None if value is None else Notification.model_validate_json(value)
            _put(self.messages.setdefault(endpoint, {}), message_id, notification)
        elif kind == "positions":
            loaded = None if value is None else {int(key): int(offset) for key, offset in json.loads(value).items()}
            _put(self.positions, name, loaded)
        elif kind == "condition":
            _put(self.conditions, name, None if value is None else json.loads(value)["value"])

    def get_status(self, endpoint_id: str) -> EndpointStatus:
        return self.statuses.get(endpoint_id, NO_STATUS)

    def list_messages(self, endpoint_id: str, *, failed: bool) -> list[Notification]:
        found = self.messages.get(endpoint_id, {}).values()
        return [each for each in found if (each.failed_at is not None) == failed]

    def get_start_ms(self, endpoint: WebhookEndpoint) -> int:
        """Since when it is notified: it was added then, or enabled again. In milliseconds, as the log has times."""
        start = self.get_status(endpoint.id).enabled_at or endpoint.created_at
        return int(start.timestamp() * 1000)

    def list_active(self) -> list[WebhookEndpoint]:
        return [each for each in self.endpoints.values() if self.get_status(each.id).disabled_at is None]


def _put(mapping: dict[str, Any], key: str, value: object) -> None:
    mapping.pop(key, None)
    if value is not None:
        mapping[key] = value


def read_notification_state(log: Log, topic: str) -> NotificationState:
    return NotificationState(read_topic(log, topic))


# -- records -----------------------------------------------------------------------------------------------------------


def build_endpoint_record(topic: str, endpoint: WebhookEndpoint) -> Output:
    return Output(topic, f"endpoint/{endpoint.id}".encode(), endpoint.model_dump_json().encode())


def build_status_record(topic: str, endpoint_id: str, status: EndpointStatus) -> Output:
    value = None if status == NO_STATUS else status.model_dump_json(exclude_none=True).encode()
    return Output(topic, f"status/{endpoint_id}".encode(), value)


def build_message_record(topic: str, notification: Notification, *, delivered: bool = False) -> Output:
    key = f"message/{notification.endpoint}/{notification.id}".encode()
    return Output(topic, key, None if delivered else notification.model_dump_json(exclude_none=True).encode())


def build_positions_record(topic: str, source: str, positions: Mapping[int, int] | None) -> Output:
    value = None if positions is None else json.dumps({str(key): positions[key] for key in sorted(positions)}).encode()
    return Output(topic, f"positions/{source}".encode(), value)


def build_condition_record(topic: str, name: str, value: object) -> Output:
    loaded = None if value is None else json.dumps({"value": value}).encode()
    return Output(topic, f"condition/{name}".encode(), loaded)


# -- what commands and REST do -----------------------------------------------------------------------------------------


def create_endpoint(
    state: NotificationState, fields: Mapping[str, Any], *, allowed_hosts: frozenset[str], now: datetime | None = None
) -> WebhookEndpoint:
    """A new endpoint; InvalidInput, which names the field, if it can't be one."""
    if len(state.endpoints) >= MAX_ENDPOINTS:
        raise ConflictError(f"there are {MAX_ENDPOINTS} endpoints, which is the limit: remove one first")
    parse_url(str(fields.get("url", "")), allowed_hosts)
    return WebhookEndpoint.model_validate(
        {**fields, "id": f"wh_{secrets.token_hex(8)}", "created_at": now or datetime.now(UTC)}
    )


def find_endpoint(state: NotificationState, endpoint_id: str) -> WebhookEndpoint:
    endpoint = state.endpoints.get(endpoint_id)
    if endpoint is None:
        raise InvalidInput(f"there is no endpoint {endpoint_id!r}: list them to see their ids", field="id")
    return endpoint


def build_removal(state: NotificationState, topic: str, endpoint_id: str) -> list[Output]:
    """Deletes an endpoint with everything that waits for it."""
    names = [f"endpoint/{endpoint_id}", f"status/{endpoint_id}"]
    names += [f"message/{endpoint_id}/{message_id}" for message_id in state.messages.get(endpoint_id, {})]
    return [Output(topic, name.encode(), None) for name in names]


def build_retry(state: NotificationState, topic: str, endpoint_id: str) -> list[Output]:
    """Enables an endpoint again and sends what failed again, at once. What happened while it was disabled is not sent."""
    retried = [
        each.model_copy(update={"attempts": 0, "next_attempt_at": None, "failed_at": None})
        for each in state.messages.get(endpoint_id, {}).values()
    ]
    before = state.get_status(endpoint_id)
    status = clear_problems(before)
    if before.disabled_at is not None:
        status = status.model_copy(update={"enabled_at": datetime.now(UTC)})
    records = [build_message_record(topic, each) for each in retried]
    return [*records, build_status_record(topic, endpoint_id, status)]


def clear_problems(status: EndpointStatus) -> EndpointStatus:
    """The status of an endpoint that works."""
    kept = {"last_delivered_at": status.last_delivered_at, "enabled_at": status.enabled_at}
    return NO_STATUS.model_copy(update=kept)
