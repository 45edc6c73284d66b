"""What administrators do with webhooks, over REST and by command: add, list, test, pause, retry and remove endpoints."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from service.contracts import Message
from service.contracts.notification import EndpointStatus, Notification, WebhookEndpoint
from service.contracts.validation import to_invalid_input
from service.notifications.messages import (
    TEST_EVENT,
    build_body,
    build_headers,
    derive_secret,
    format_secret,
)
from service.notifications.state import (
    build_endpoint_record,
    build_removal,
    build_retry,
    create_endpoint,
    find_endpoint,
    read_notification_state,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.contracts.access.audit import AuditAction
    from service.log.protocol import Log, Output
    from service.notifications.client import WebhookClient


class EndpointReport(WebhookEndpoint):
    """An endpoint, how its deliveries go, and how many notifications wait and failed."""

    status: EndpointStatus
    pending: int
    failed: int


class NewEndpoint(WebhookEndpoint):
    """A new endpoint with its secret, which is shown only this once."""

    secret: str


class TestDelivery(Message):
    """The result of a test."""

    delivered: bool
    status: int | None = None
    problem: str | None = None


class BuildAudit(Protocol):
    """Builds the record of the audit trail about a change of an endpoint; None: there is no trail."""

    def __call__(self, action: AuditAction, endpoint_id: str, /) -> Output | None: ...


def build_no_audit(_action: AuditAction, _endpoint_id: str) -> Output | None:
    return None


class WebhookAdmin:
    """Reads the webhooks topic at each call: it is small, and calls are rare. `audit` goes into the log with a change."""

    def __init__(self, log: Log, topic: str, client: WebhookClient, master_key: str) -> None:
        self._log = log
        self._topic = topic
        self._client = client
        self._master_key = master_key

    def list_endpoints(self) -> list[EndpointReport]:
        state = read_notification_state(self._log, self._topic)
        return [
            EndpointReport(
                **endpoint.model_dump(),
                status=state.get_status(endpoint.id),
                pending=len(state.list_messages(endpoint.id, failed=False)),
                failed=len(state.list_messages(endpoint.id, failed=True)),
            )
            for endpoint in state.endpoints.values()
        ]

    def _write(self, outputs: Iterable[Output | None]) -> None:
        self._log.append([output for output in outputs if output is not None])

    def add(self, fields: Mapping[str, Any], audit: BuildAudit = build_no_audit) -> NewEndpoint:
        """Raises InvalidInput, which names the field."""
        state = read_notification_state(self._log, self._topic)
        try:
            endpoint = create_endpoint(state, fields, allowed_hosts=self._client.allowed_hosts)
        except ValidationError as error:
            raise to_invalid_input(error) from None
        secret = format_secret(derive_secret(self._master_key, endpoint.id))
        self._write([build_endpoint_record(self._topic, endpoint), audit("webhook-added", endpoint.id)])
        return NewEndpoint(**endpoint.model_dump(), secret=secret)

    def remove(self, endpoint_id: str, audit: BuildAudit = build_no_audit) -> None:
        state = read_notification_state(self._log, self._topic)
        find_endpoint(state, endpoint_id)
        self._write([*build_removal(state, self._topic, endpoint_id), audit("webhook-removed", endpoint_id)])

    def pause(self, endpoint_id: str, audit: BuildAudit = build_no_audit, *, paused: bool) -> None:
        """Notifications wait while the endpoint is paused, and are sent when it is resumed."""
        endpoint = find_endpoint(read_notification_state(self._log, self._topic), endpoint_id)
        if endpoint.paused != paused:
            changed = build_endpoint_record(self._topic, endpoint.model_copy(update={"paused": paused}))
            self._write([changed, audit("webhook-paused" if paused else "webhook-resumed", endpoint_id)])

    def test(self, endpoint_id: str, *, by: str | None = None) -> TestDelivery:
        """Sends a test at once. It is not repeated."""
        endpoint = find_endpoint(read_notification_state(self._log, self._topic), endpoint_id)
        now = datetime.now(UTC)
        notification = Notification(
            id=f"msg_{secrets.token_hex(16)}", endpoint=endpoint.id, type=TEST_EVENT, timestamp=now, data={"by": by}
        )
        body = build_body(endpoint, notification)
        headers = build_headers(derive_secret(self._master_key, endpoint.id), notification.id, body, now=now)
        result = self._client.send(endpoint.url, headers, body)
        return TestDelivery(delivered=result.is_delivered, status=result.status, problem=result.problem)

    def list_failed(self, endpoint_id: str) -> list[Notification]:
        """Notifications that could not be delivered, the last first."""
        state = read_notification_state(self._log, self._topic)
        find_endpoint(state, endpoint_id)
        return state.list_messages(endpoint_id, failed=True)[::-1]

    def retry(self, endpoint_id: str, audit: BuildAudit = build_no_audit) -> int:
        """Enables the endpoint if it is disabled, and sends everything again that waits or failed."""
        state = read_notification_state(self._log, self._topic)
        find_endpoint(state, endpoint_id)
        records = build_retry(state, self._topic, endpoint_id)
        self._write([*records, audit("webhook-retried", endpoint_id)])
        return len(records) - 1
