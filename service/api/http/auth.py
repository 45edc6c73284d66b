"""Who may call what.

The `Authenticator` of an app says which scope a request needs, and whether its caller has it. A new way for callers to
prove who they are is one class with the members of `AuthMethod`, added to the methods in `create_app`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from service.api.http.path_keys import BASIC_AUTH_OPERATIONS, LABEL_STUDIO_PREFIX, NO_KEY, PathKey
from service.api.http.problems import ForbiddenError, UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import Headers
    from starlette.requests import HTTPConnection

    from service.settings import ApiKey, KeyScope

CALLER_KEY: Final = "caller"  # in the state of a request: the name of its key
KEY_PREFIX: Final = "lw_"
KEY_HEADER: Final = "X-API-Key"
GRANTED_SCOPES: Final[dict[KeyScope, frozenset[KeyScope]]] = {
    "read": frozenset({"read"}),
    "write": frozenset({"read", "write"}),
    "label-studio": frozenset({"label-studio"}),
}
# Public: liveness, readiness, and pages without data.
PUBLIC_PATHS: Final = frozenset({"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/favicon.ico"})
PUBLIC_PREFIXES: Final = ("/docs/", "/console/")
METRICS_PATH: Final = "/metrics"
READ_ONLY_POST_PATHS: Final = frozenset({"/v1/score"})


def hash_key(key: str) -> str:
    """SHA-256 is enough: keys are 256 random bits, so a slow password hash would add nothing."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


def generate_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


class Caller(NamedTuple):
    name: str
    scope: KeyScope
    dataset: str | None = None  # the only one that the caller may use; None: all


class AuthMethod(Protocol):
    """One way for callers to prove who they are."""

    @property
    def is_configured(self) -> bool: ...

    @property
    def usage(self) -> str:
        """How to send the credentials, for a caller who sent none."""

    @property
    def security_schemes(self) -> Mapping[str, Mapping[str, Any]]:
        """OpenAPI security schemes by name."""

    def identify(self, headers: Headers) -> Caller | None:
        """The caller; None if the request has no credentials of this kind. Raises `UnauthorizedError` for wrong ones."""


class ApiKeys:
    """Keys from the settings, which hold only their hashes."""

    usage = "send a key as `Authorization: Bearer KEY` or `X-API-Key: KEY`"
    security_schemes: Mapping[str, Mapping[str, Any]] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A key of `labelwatch key new`"},
        "key": {"type": "apiKey", "in": "header", "name": KEY_HEADER},
    }

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._keys = tuple(keys)

    @property
    def is_configured(self) -> bool:
        return bool(self._keys)

    def identify(self, headers: Headers) -> Caller | None:
        key = _extract_key(headers)
        return None if key is None else self.identify_key(key)

    def identify_key(self, key: str) -> Caller:
        """The caller with this key. Raises `UnauthorizedError` if it is not known."""
        digest = hash_key(key)
        match: ApiKey | None = None
        for known in self._keys:  # compares with every key: the time taken does not depend on which one matches
            if hmac.compare_digest(known.digest, digest):
                match = known
        if match is None:
            raise UnauthorizedError("this key is not known: ask for one made with `labelwatch key new`")
        return Caller(match.name, match.scope, match.dataset)


class Authenticator:
    """Checks every request of an app. Without configured credentials every caller may do everything."""

    def __init__(
        self,
        methods: Sequence[AuthMethod],
        *,
        open_metrics: bool = False,
        signed_paths: frozenset[str] = frozenset(),
        path_keys: ApiKeys | None = None,
    ) -> None:
        """`open_metrics`: /metrics needs no key. `signed_paths`: webhooks that check a signature instead of a key.

        `path_keys`: the keys that paths may hold (see `service.api.http.path_keys`).
        """
        self._methods = tuple(methods)
        self._is_open = not any(method.is_configured for method in methods)
        self._open_metrics = open_metrics
        self._signed_paths = signed_paths
        self._path_keys = path_keys or ApiKeys(())

    @property
    def security_schemes(self) -> dict[str, Mapping[str, Any]]:
        return {name: scheme for method in self._methods for name, scheme in method.security_schemes.items()}

    def get_required_scope(self, method: str, path: str) -> KeyScope | None:
        """The scope that a request needs; None for public paths. A path without a rule of its own is not public."""
        if path.startswith(LABEL_STUDIO_PREFIX):
            return "label-studio"
        if method in ("GET", "HEAD"):
            is_public = path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES)
            return None if is_public or (self._open_metrics and path == METRICS_PATH) else "read"
        if method == "POST" and path in self._signed_paths:
            return None
        return "read" if method == "POST" and path in READ_ONLY_POST_PATHS else "write"

    @property
    def is_open(self) -> bool:
        """Whether every caller may do everything."""
        return self._is_open

    def is_signed(self, path: str) -> bool:
        """Whether the path checks signatures instead of keys."""
        return path in self._signed_paths

    def authorize_path(self, path: str, headers: Headers) -> str | None:
        """As `authorize`, for the scope `label-studio`: its key is in the path, and valid for one dataset."""
        if self._is_open:
            return None
        named = PathKey.parse(path)
        if named is None:
            raise UnauthorizedError("the address must be /label-studio/DATASET/KEY: enter all of it in Label Studio")
        key: str | None = named.key
        if key == NO_KEY and named.operation in BASIC_AUTH_OPERATIONS:
            key = _extract_basic_password(headers)
        if not key or key == NO_KEY:
            raise UnauthorizedError(
                "there is no key: enter the address /label-studio/DATASET/KEY, or send the key as the password of "
                "basic authentication"
            )
        caller = self._path_keys.identify_key(key)
        if caller.scope != "label-studio":
            raise ForbiddenError(
                f"the key {caller.name!r} is not for addresses: create one with `labelwatch key new NAME --scope "
                f"label-studio --dataset {named.dataset}`"
            )
        if caller.dataset != named.dataset:
            raise ForbiddenError(f"the key {caller.name!r} is for dataset {caller.dataset}, not for {named.dataset}")
        return caller.name

    def authorize(self, headers: Headers, scope: KeyScope) -> str | None:
        """The caller's name; None if every caller may do everything.

        Raises `UnauthorizedError` for an unknown caller, `ForbiddenError` for one without the scope.
        """
        if self._is_open:
            return None
        caller = self._identify(headers)
        if scope not in GRANTED_SCOPES[caller.scope]:
            may = "be part of an address in Label Studio" if caller.scope == "label-studio" else caller.scope
            raise ForbiddenError(f"the key {caller.name!r} may only {may}: use one with the scope `{scope}`")
        return caller.name

    def has_scope(self, headers: Headers, scope: KeyScope) -> bool:
        """Whether a known caller has the scope."""
        return self._is_open or scope in GRANTED_SCOPES[self._identify(headers).scope]

    def _identify(self, headers: Headers) -> Caller:
        for method in self._methods:
            caller = method.identify(headers)
            if caller is not None:
                return caller
        raise UnauthorizedError("; or ".join(method.usage for method in self._methods))


def get_authenticator(connection: HTTPConnection) -> Authenticator:
    return cast("Authenticator", connection.app.state.authenticator)


def _extract_basic_password(headers: Headers) -> str | None:
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return None


def _extract_key(headers: Headers) -> str | None:
    key = headers.get(KEY_HEADER)
    if key is not None:
        return key.strip()
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" and value.strip() else None
