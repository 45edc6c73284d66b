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

    from service.settings import ApiKey, Scope

PREFIX = "lw_"
HEADER = "x-api-key"
SCOPES: dict[Scope, frozenset[Scope]] = {"read": frozenset({"read"}), "write": frozenset({"read", "write"})}
# What needs no key: whether the service lives, and pages that hold no data.
OPEN = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/favicon.ico"})
OPEN_FOLDERS = ("/docs/", "/console/")
METRICS = "/metrics"
# Webhooks of senders that can't send a key: where their secret is set, the route asks for their signature instead.
SIGNED = frozenset({"/v1/webhooks/argilla"})
# Answers that change nothing although they are asked for with a body.
READING_POSTS = frozenset({"/v1/score"})


def digest_of(key: str) -> str:
    """Keys are long random text, so that a plain hash keeps them as well as a slow one would."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def needed(method: str, path: str, *, open_metrics: bool = False, signed: bool = False) -> Scope | None:
    """The scope that a request needs; none where it needs no key. What nobody has thought of needs one that writes."""
    if method in ("GET", "HEAD"):
        if path in OPEN or path.startswith(OPEN_FOLDERS) or (open_metrics and path == METRICS):
            return None
        return "read"
    if signed and method == "POST" and path in SIGNED:
        return None
    return "read" if method == "POST" and path in READING_POSTS else "write"


class Keys:
    """The keys that are known."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._keys = tuple(keys)

    @property
    def open(self) -> bool:
        """Whether everybody may do everything, since no key is set."""
        return not self._keys

    def check(self, headers: Headers, scope: Scope) -> str | None:
        """The name of the caller's key, none where no keys are set; raises where it may not."""
        if self.open:
            return None
        presented = _presented(headers)
        if presented is None:
            raise UnauthorizedError("send a key as `Authorization: Bearer KEY` or `X-API-Key: KEY`")
        digest = digest_of(presented)
        found: ApiKey | None = None
        for known in self._keys:  # all of them, always: how long it takes tells nothing
            if hmac.compare_digest(known.digest, digest):
                found = known
        if found is None:
            raise UnauthorizedError("this key is not known: ask for one made with `labelwatch key new`")
        if scope not in SCOPES[found.scope]:
            raise ForbiddenError(f"the key {found.name!r} may only {found.scope}: use one with the scope `{scope}`")
        return found.name


def _presented(headers: Headers) -> str | None:
    key = headers.get(HEADER)
    if key is not None:
        return key.strip()
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" and value.strip() else None
