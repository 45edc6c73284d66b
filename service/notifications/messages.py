"""The body and the signed headers of a notification."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Final

from service.errors import SettingsError
from service.formats.platforms.webhook_signatures import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from service.contracts.notification import Notification, WebhookEndpoint

SECRET_PREFIX: Final = "whsec_"
TEST_EVENT: Final = "webhook.test"
NO_KEY: Final = (
    "LABELWATCH_WEBHOOKS_KEY: outgoing webhooks need it: set it to at least 32 random characters, such as those of "
    "`openssl rand -base64 32`, for every process"
)


def derive_secret(master_key: str, endpoint_id: str) -> bytes:
    """The secret of an endpoint. It is not stored: who reads the topic can't sign."""
    if not master_key:
        raise SettingsError(NO_KEY)
    return hmac.digest(master_key.encode(), f"labelwatch webhook {endpoint_id}".encode(), hashlib.sha256)


def format_secret(secret: bytes) -> str:
    """As receivers of Standard Webhooks expect it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def build_body(endpoint: WebhookEndpoint, notification: Notification) -> bytes:
    if endpoint.body == "slack":
        body: dict[str, Any] = {"text": describe_event(notification.type, notification.data)}
    else:
        timestamp = notification.timestamp.isoformat().replace("+00:00", "Z")
        body = {"type": notification.type, "timestamp": timestamp, "data": notification.data}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def build_headers(secret: bytes, notification_id: str, body: bytes, *, now: datetime) -> dict[str, str]:
    seconds = int(now.timestamp())
    return {
        "Content-Type": "application/json",
        "User-Agent": "labelwatch",
        ID_HEADER: notification_id,
        TIMESTAMP_HEADER: str(seconds),
        SIGNATURE_HEADER: sign(secret, notification_id, seconds, body),
    }


# -- in words ----------------------------------------------------------------------------------------------------------


def describe_event(event: str, data: Mapping[str, Any]) -> str:
    """One line of text, with the characters escaped that Slack gives a meaning."""
    describe = _DESCRIPTIONS.get(event)
    text = f"labelwatch: {event}" if describe is None else describe(data)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _describe_verdict(data: Mapping[str, Any]) -> str:
    interval = f"{data['low']:.2%} to {data['high']:.2%}"
    return f"{data['dataset']}, batch {data['batch']}: {data['verdict']}. Wrong sentences: {interval} (limit {data['max_error_rate']:.2%})"


_DESCRIPTIONS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "items.flagged": lambda data: f"{data['dataset']}: {data['items']:,} new in review",
    "item.decided": lambda data: (
        f"{data['dataset']}/{data['id']}: {data['reviewer']} "
        + ("withdrew a decision" if data["withdrawn"] else f"decided {data.get('verdict', '')}".rstrip())
    ),
    "dataset.misfit": lambda data: f"{data['dataset']}: {data['problem']}",
    "dataset.model_replaced": lambda data: (
        f"{data['dataset']} is judged by {data['model'] or 'the default model'} instead of "
        f"{data['previous'] or 'the default model'}"
    ),
    "batch.verdict": _describe_verdict,
    TEST_EVENT: lambda data: f"labelwatch: a test of this webhook by {data.get('by') or 'an administrator'}",
}
