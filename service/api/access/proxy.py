"""Users of a trusted proxy, which has logged them in and passes their name and groups in headers.

Only requests that come from the proxy's own addresses may have these headers: from anywhere else they are ignored. The
address is that of the connection itself, never one that a header such as `X-Forwarded-For` names.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from service.access.key_text import KEY_PREFIX
from service.api.access.api_keys import extract_key
from service.api.access.caller import Caller
from service.api.http.hosts import is_origin_of_host
from service.api.http.problems import ForbiddenError, UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import Headers

    from service.settings import ApiSettings

MAX_NAME_CHARS: Final = 128
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
ROLE_ORDER: Final = ("admin", "reviewer", "annotator", "read", "score", "send")  # the first that a user has counts


class ProxyUsers:
    """Identifies the users of the proxy that the settings describe."""

    security_schemes: Mapping[str, Mapping[str, Any]] = {}

    def __init__(self, settings: ApiSettings) -> None:
        self._user_header = settings.proxy_user_header
        self._groups_header = settings.proxy_groups_header
        self._roles = settings.group_roles
        self._networks = settings.proxy_networks

    @property
    def is_configured(self) -> bool:
        return bool(self._networks)

    @property
    def usage(self) -> str:
        return "log in at the proxy in front of the service"

    def identify(self, headers: Headers, address: str | None) -> Caller | None:
        """The user; None if the request does not come from the proxy, has no user, or has a key of its own."""
        if not self._is_trusted(address):
            return None
        names = _read_header(headers, self._user_header)
        if not names or (extract_key(headers) or "").startswith(KEY_PREFIX):
            return None
        if len(names) != 1 or not 0 < len(names[0].strip()) <= MAX_NAME_CHARS:
            raise UnauthorizedError(f"the proxy must send one {self._user_header} header with the name of the user")
        return self._build_caller(names[0].strip(), headers)

    def _build_caller(self, name: str, headers: Headers) -> Caller:
        sent = {part.strip() for value in _read_header(headers, self._groups_header) for part in value.split(",")}
        granted = [self._roles[group] for group in sorted(sent) if group in self._roles]
        if not granted:
            raise ForbiddenError(
                f"the user {name[:64]!r} is in none of the groups that have a role: {', '.join(self._roles) or 'there are none'}"
            )
        role = min((each.role for each in granted), key=ROLE_ORDER.index)
        limits = [each.datasets for each in granted if each.role == role]
        datasets = None if not all(limits) else frozenset(dataset for limit in limits for dataset in limit)
        return Caller(name, role, datasets, kind="user")

    def _is_trusted(self, address: str | None) -> bool:
        if address is None or not self._networks:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._networks)


def _read_header(headers: Headers, name: str) -> list[str]:
    """The values of a header. Proxies send names as UTF-8, while `Headers` reads each byte as one character."""
    return [_decode_utf8(value) for value in headers.getlist(name)]


def _decode_utf8(value: str) -> str:
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def check_same_origin(caller: Caller, method: str, headers: Headers, origins: frozenset[str]) -> None:
    """Raises `ForbiddenError` for a change that a page of another origin makes in the name of a user of the proxy.

    Browsers send the proxy's cookie with such a request. They also say where it comes from: in `Sec-Fetch-Site`, or in
    `Origin`. Without either header the client is no browser.
    """
    if caller.kind != "user" or method in SAFE_METHODS:
        return
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and origin in origins:
        return
    same_origin = origin is None or is_origin_of_host(origin, headers.get("host", ""))
    if site in ("same-origin", "none") or (site is None and same_origin):
        return
    raise ForbiddenError(
        f"a page of {(origin or 'another origin')[:80]!r} may not change anything here: add it to LABELWATCH_API_CORS_ORIGINS"
    )
