"""Keys of the API as a way for callers to prove who they are."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING, Any, Final

from service.access.key_text import hash_key
from service.api.access.caller import Caller
from service.api.http.problems import NotReadyError, UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import Headers

    from service.access.key_view import KeyView
    from service.contracts.access.key import StoredKey
    from service.settings import ApiKey

KEY_HEADER: Final = "X-API-Key"


class ApiKeys:
    """Keys of the settings and of the keys topic, which hold only their hashes."""

    usage = "send a key as `Authorization: Bearer KEY` or `X-API-Key: KEY`"
    security_schemes: Mapping[str, Mapping[str, Any]] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A key of `labelwatch key new`"},
        "key": {"type": "apiKey", "in": "header", "name": KEY_HEADER},
    }

    def __init__(self, keys: Sequence[ApiKey], view: KeyView | None = None) -> None:
        self._keys = tuple(keys)
        self._view = view

    @property
    def is_configured(self) -> bool:
        """Raises `NotReadyError` if it is not known yet: then nobody may enter."""
        if self._keys or self._view is None:
            return bool(self._keys)
        require_keys_read(self._view)
        return self._view.has_any

    def identify(self, headers: Headers, address: str | None = None) -> Caller | None:  # noqa: ARG002 - keys work from anywhere
        key = extract_key(headers)
        return None if key is None else self.identify_key(key)

    def identify_key(self, key: str) -> Caller:
        """The caller with this key. Raises `UnauthorizedError` if it is not known."""
        digest = hash_key(key)
        match: ApiKey | StoredKey | None = None
        stored: tuple[StoredKey, ...] = () if self._view is None else self._view.active
        known_keys: list[ApiKey | StoredKey] = [*self._keys, *stored]
        for known in known_keys:  # compares with every key: the time taken does not depend on which one matches
            if hmac.compare_digest(known.digest, digest):
                match = known
        if match is None:
            raise UnauthorizedError("this key is not known: ask for one made with `labelwatch key new`")
        return Caller(match.name, match.role, frozenset(match.datasets) or None)


def require_keys_read(view: KeyView) -> None:
    """Raises `NotReadyError` if the keys of the topic are not known yet."""
    if view.caught_up:
        return
    if view.error is not None:  # waiting may not help, as with a damaged log
        raise NotReadyError("the keys can't be read now: the service's log and /readyz have the reason")
    raise NotReadyError("the keys are still being read: try again in a moment")


def extract_basic_password(headers: Headers) -> str | None:
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return None


def extract_key(headers: Headers) -> str | None:
    key = headers.get(KEY_HEADER)
    if key is not None:
        return key.strip()
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" and value.strip() else None
