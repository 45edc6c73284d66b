"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body, with a secret that both sides know."""

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
    """A secret as platforms show it: base64, mostly with `whsec_` before it."""
    bare = text.strip().removeprefix(_SECRET_PREFIX).rstrip("=")
    try:
        secret = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not secret:
        raise InvalidInput("a webhook's secret is base64, with or without whsec_ before it", field="secret")
    return secret


def sign(secret: bytes, identity: str, seconds: int, body: bytes) -> str:
    """The signature that a sender puts in the header."""
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
    """The message's id if one of the secrets has signed it, and why it is not of now; else raises.

    Argilla signs the time of the event and sends the time of sending: the event's, which the signed body holds, counts
    as well.
    """
    identity, sent, signatures = (headers.get(name, "") for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    for name, value in ((ID_HEADER, identity), (TIMESTAMP_HEADER, sent), (SIGNATURE_HEADER, signatures)):
        if not value:
            raise InvalidInput("the header is missing: only signed webhooks are taken", field=name)
    given = [one for one in signatures.split() if one.startswith(_SIGNATURE_VERSION)]
    right: int | None = None
    for seconds in _find_signed_times(sent, body):
        for secret in secrets:
            expected = sign(secret, identity, seconds, body).encode()
            for one in given:  # all of them, always: how long it takes tells nothing
                if hmac.compare_digest(expected, one.encode(errors="replace")):
                    right = seconds
    if right is None:
        raise InvalidInput("it is of no secret that is known here", field=SIGNATURE_HEADER)
    late = None
    if abs(to_microseconds(now) / 1e6 - right) > tolerance_s:
        late = f"it is more than {tolerance_s} seconds from now: are the clocks right?"
    return VerifiedWebhook(identity, late)


def _find_signed_times(sent: str, body: bytes) -> list[int]:
    """Whole seconds that may have been signed."""
    found = []
    if sent.isascii() and sent.isdigit() and len(sent) < 16:
        found.append(int(sent))
    told = _BODY_TIMESTAMP.search(body)
    if told:
        with suppress(InvalidInput):
            found.append(
                to_microseconds(parse_timestamp(told[1].decode(errors="replace"), TIMESTAMP_HEADER)) // 1_000_000
            )
    return found
