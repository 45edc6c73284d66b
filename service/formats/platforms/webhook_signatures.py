"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body, with a shared secret."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from service.errors import InvalidInput
from service.formats.io.json_values import parse_timestamp, to_microseconds
from service.formats.webhook import VerifiedWebhook

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
TOLERANCE_S: Final = 300
_SIGNATURE_VERSION: Final = "v1,"
_SECRET_PREFIX: Final = "whsec_"
_BODY_TIMESTAMP: Final = re.compile(rb'"timestamp"\s*:\s*"([^"\\]{1,64})"')


def parse_secret(text: str) -> bytes:
    """A secret as platforms show it: base64, usually with the prefix `whsec_`."""
    encoded = text.strip().removeprefix(_SECRET_PREFIX).rstrip("=")
    try:
        secret = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not secret:
        raise InvalidInput("a webhook's secret is base64, with or without the prefix whsec_", field="secret")
    return secret


def sign(secret: bytes, identity: str, seconds: int, body: bytes) -> str:
    """The signature that the sender puts into the header."""
    signed = f"{identity}.{seconds}.".encode() + body
    return _SIGNATURE_VERSION + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secrets: Sequence[bytes],
    *,
    now: datetime,
    tolerance_s: int = TOLERANCE_S,
) -> VerifiedWebhook:
    """Checks that one of the secrets signed the delivery; raises otherwise. A late one is valid, with the reason.

    Argilla signs the time of the event but sends the time of the delivery, so the timestamp of the body is tried too.
    """
    identity, sent, signatures = (headers.get(name, "") for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    for name, value in ((ID_HEADER, identity), (TIMESTAMP_HEADER, sent), (SIGNATURE_HEADER, signatures)):
        if not value:
            raise InvalidInput("the header is missing: only signed webhooks are accepted", field=name)
    candidates = [signature for signature in signatures.split() if signature.startswith(_SIGNATURE_VERSION)]
    signed_at: int | None = None
    for seconds in _find_signed_times(sent, body):
        for secret in secrets:
            expected = sign(secret, identity, seconds, body).encode()
            for candidate in candidates:  # compares all of them, so that the time taken reveals nothing
                if hmac.compare_digest(expected, candidate.encode(errors="replace")):
                    signed_at = seconds
    if signed_at is None:
        raise InvalidInput("it matches no secret that is configured here", field=SIGNATURE_HEADER)
    late_reason = None
    if abs(to_microseconds(now) / 1e6 - signed_at) > tolerance_s:
        late_reason = f"it is more than {tolerance_s} seconds from now: are the clocks right?"
    return VerifiedWebhook(identity, late_reason)


def _find_signed_times(sent: str, body: bytes) -> list[int]:
    """Times, in whole seconds, that the sender may have signed."""
    times = []
    if sent.isascii() and sent.isdigit() and len(sent) < 16:
        times.append(int(sent))
    match = _BODY_TIMESTAMP.search(body)
    if match:
        with suppress(InvalidInput):
            timestamp = parse_timestamp(match[1].decode(errors="replace"), TIMESTAMP_HEADER)
            times.append(to_microseconds(timestamp) // 1_000_000)
    return times
