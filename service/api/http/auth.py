"""API keys: only their hashes are known here. A key may read, or read and write."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from service.api.http.problems import ForbiddenError, UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import Headers

    from service.settings import ApiKey, KeyScope

KEY_PREFIX = "lw_"
KEY_HEADER = "x-api-key"
GRANTED_SCOPES: dict[KeyScope, frozenset[KeyScope]] = {
    "read": frozenset({"read"}),
    "write": frozenset({"read", "write"}),
}
# What needs no key: whether the service lives, and pages that hold no data.
PUBLIC_PATHS = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/favicon.ico"})
PUBLIC_PREFIXES = ("/docs/", "/console/")
METRICS_PATH = "/metrics"
# Webhooks of senders that can't send a key: where their secret is set, the route asks for their signature instead.
SIGNED_WEBHOOK_PATHS = frozenset({"/v1/webhooks/argilla"})
# Answers that change nothing although they are asked for with a body.
READ_ONLY_POST_PATHS = frozenset({"/v1/score"})


def hash_key(key: str) -> str:
    """Keys are long random text, so that a plain hash keeps them as well as a slow one would."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


def generate_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def get_required_scope(method: str, path: str, *, open_metrics: bool = False, signed: bool = False) -> KeyScope | None:
    """The scope that a request needs; none where it needs no key. What nobody has thought of needs one that writes."""
    if method in ("GET", "HEAD"):
        if path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES) or (open_metrics and path == METRICS_PATH):
            return None
        return "read"
    if signed and method == "POST" and path in SIGNED_WEBHOOK_PATHS:
        return None
    return "read" if method == "POST" and path in READ_ONLY_POST_PATHS else "write"


class Authenticator:
    """The keys that are known."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._keys = tuple(keys)

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything, since no key is set."""
        return not self._keys

    def authorize(self, headers: Headers, scope: KeyScope) -> str | None:
        """The name of the caller's key, none where no keys are set; raises where it may not."""
        if self.is_open:
            return None
        presented = _extract_key(headers)
        if presented is None:
            raise UnauthorizedError("send a key as `Authorization: Bearer KEY` or `X-API-Key: KEY`")
        digest = hash_key(presented)
        found: ApiKey | None = None
        for known in self._keys:  # all of them, always: how long it takes tells nothing
            if hmac.compare_digest(known.digest, digest):
                found = known
        if found is None:
            raise UnauthorizedError("this key is not known: ask for one made with `labelwatch key new`")
        if scope not in GRANTED_SCOPES[found.scope]:
            raise ForbiddenError(f"the key {found.name!r} may only {found.scope}: use one with the scope `{scope}`")
        return found.name


def _extract_key(headers: Headers) -> str | None:
    key = headers.get(KEY_HEADER)
    if key is not None:
        return key.strip()
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" and value.strip() else None
