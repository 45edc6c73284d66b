"""Which names the service answers to while it has no keys.

Without keys, what protects the service is that only this machine or network reaches it. A browser in this network may show
a foreign page, and its owner may let the page's own name point to this service (DNS rebinding). Such a request has the
foreign name in `Host`. So without keys a name with a dot must be configured; addresses and names without a dot are not
what a foreign page can be loaded from.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from service.api.http.problems import BadRequestError, ForbiddenError

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from service.settings import ApiSettings

# RFC 9110 and RFC 3986, without the characters that a URL may have and no name has, such as those of an escape.
_NAME_AND_PORT: Final = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._~-]+))(?::[0-9]*)?")
LOCAL_SUFFIX: Final = ".localhost"  # browsers resolve it to this machine


class HostCheck:
    """Checks `Host` and `Origin` of requests to a service without keys."""

    def __init__(self, settings: ApiSettings) -> None:
        self._hosts = frozenset({*settings.known_hosts, settings.host.lower()})
        self._origins = frozenset(settings.origins)

    def check(self, headers: Headers) -> None:
        """Raises `BadRequestError` without one valid Host, `ForbiddenError` for a foreign one or a foreign Origin."""
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise BadRequestError(f"{len(hosts)} Host headers: send one")
        name = _parse_name(hosts[0])
        if not self._is_accepted(name):
            raise ForbiddenError(
                f"without API keys the service does not answer to the name {name[:80]!r}: add it to LABELWATCH_API_HOSTS, or "
                "use keys: create the first with `labelwatch key new --name NAME --role admin`, or set LABELWATCH_API_KEYS"
            )
        for origin in headers.getlist("origin"):
            if origin not in self._origins and not is_origin_of_host(origin, hosts[0]):
                raise ForbiddenError(
                    f"without API keys pages of {origin[:80]!r} may send no requests: add it to LABELWATCH_API_CORS_ORIGINS"
                )

    def _is_accepted(self, name: str) -> bool:
        if name in self._hosts or name.endswith(LOCAL_SUFFIX) or ("." not in name and ":" not in name):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def is_origin_of_host(origin: str, host: str) -> bool:
    """Whether a page of the origin comes from the service itself, under the name in its Host header."""
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # it is no origin
        return False


def _parse_name(host: str) -> str:
    """The name in a Host header, without its port and without the brackets of an IPv6 address."""
    match = _NAME_AND_PORT.fullmatch(host)
    if match is None or (match["ipv6"] and not _is_ipv6(match["ipv6"])):
        raise BadRequestError(
            "the Host header is not a valid name: send the name or the address of the service, such as localhost:8765"
        )
    return (match["ipv6"] or match["name"]).lower()


def _is_ipv6(address: str) -> bool:
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True
