"""Finds out who calls.

A new way for callers to prove who they are is one class with the members of `AuthMethod`, added to the methods in
`create_app`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from service.api.access.api_keys import ApiKeys, extract_basic_password
from service.api.access.caller import ANYBODY
from service.api.http.path_keys import BASIC_AUTH_OPERATIONS, NO_KEY, PathKey, find_address_role
from service.api.http.problems import ForbiddenError, RequestError, UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import Headers
    from starlette.requests import HTTPConnection

    from service.api.access.caller import Caller


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

    def identify(self, headers: Headers, address: str | None) -> Caller | None:
        """The caller; None if the request has no credentials of this kind. Raises `UnauthorizedError` for wrong ones.

        `address`: that of the client's connection.
        """


class Authenticator:
    """Identifies the caller of every request of an app. Without configured credentials every caller may do everything."""

    def __init__(self, methods: Sequence[AuthMethod], *, path_keys: ApiKeys | None = None) -> None:
        """`path_keys`: the keys that paths may hold (see `service.api.http.path_keys`)."""
        self._methods = tuple(methods)
        self._path_keys = path_keys or ApiKeys(())

    @property
    def security_schemes(self) -> dict[str, Mapping[str, Any]]:
        return {name: scheme for method in self._methods for name, scheme in method.security_schemes.items()}

    @property
    def is_open(self) -> bool:
        """Whether every caller may do everything."""
        return not any(method.is_configured for method in self._methods)

    def identify(self, headers: Headers, address: str | None = None) -> Caller:
        """The caller. Raises `UnauthorizedError` for an unknown one."""
        if self.is_open:
            return ANYBODY
        for method in self._methods:
            caller = method.identify(headers, address)
            if caller is not None:
                return caller
        raise UnauthorizedError("; or ".join(method.usage for method in self._methods if method.is_configured))

    def identify_path(self, path: str, headers: Headers) -> Caller:
        """As `identify`, for addresses of platforms: the key is in the path, and valid for one dataset."""
        if self.is_open:
            return ANYBODY
        named = PathKey.parse(path)
        if named is None:
            role = find_address_role(path)
            raise UnauthorizedError(f"the address must be /{role}/DATASET/KEY: enter all of it in the platform")
        key: str | None = named.key
        if key == NO_KEY and named.operation in BASIC_AUTH_OPERATIONS:
            key = extract_basic_password(headers)
        if not key or key == NO_KEY:
            raise UnauthorizedError(
                f"there is no key: enter the address /{named.role}/DATASET/KEY, or send the key as the password of "
                "basic authentication"
            )
        caller = self._path_keys.identify_key(key)
        if caller.role != named.role:
            raise ForbiddenError(
                f"the key {caller.name!r} is not for this address: create one with `labelwatch key new --name NAME --role "
                f"{named.role} --dataset {named.dataset}`"
            )
        caller.check_dataset(named.dataset)
        return caller


def is_still_known(connection: HTTPConnection, caller: Caller) -> bool:
    """Whether the credentials of a long-lived request still belong to the same caller, with the same rights."""
    authenticator: Authenticator = connection.app.state.authenticator
    try:
        return (
            authenticator.identify(connection.headers, connection.client.host if connection.client else None) == caller
        )
    except RequestError:
        return False
