"""Which addresses notifications may be sent to: public ones, and hosts that the operator allows by name.

An endpoint could otherwise make the service call the network that it runs in. A name is checked when a connection is opened,
and the connection goes to the address that was checked: a name that resolves differently a moment later changes nothing. An
address that is given as such is checked when the endpoint is added, too.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from service.errors import InvalidInput

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_LOCAL_NAME: Final = "localhost"
_ALLOW_HINT: Final = "to allow it, add the host to LABELWATCH_WEBHOOKS_ALLOWED_HOSTS"


class AddressRefused(InvalidInput):
    """The endpoint is not at a public address, and its host is not allowed by name."""


class Target(NamedTuple):
    """Where a URL leads to."""

    scheme: str
    host: str
    port: int
    path: str


def parse_url(url: str, allowed_hosts: frozenset[str]) -> Target:
    """Checks a URL without resolving its name. http is only for hosts that are allowed by name."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput("it is not a URL: give one such as https://example.com/hook", field="url") from None
    host = (parts.hostname or "").rstrip(".")
    if not parts.scheme or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput("it is not a URL: give one such as https://example.com/hook", field="url")
    if parts.scheme not in ("http", "https"):
        raise InvalidInput("use https: give an address such as https://example.com/hook", field="url")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("leave out user and password: deliveries are signed", field="url")
    if parts.scheme == "http" and host not in allowed_hosts:
        raise InvalidInput(
            f"use https, or allow the host by name: LABELWATCH_WEBHOOKS_ALLOWED_HOSTS={host}", field="url"
        )
    if host not in allowed_hosts and _is_known_as_private(host):
        raise AddressRefused(f"{host} is not a public address: {_ALLOW_HINT}", field="url")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), path)


def resolve_target(target: Target, allowed_hosts: frozenset[str]) -> list[str]:
    """The addresses of the host. Raises `AddressRefused` if one is not public and the host is not allowed by name."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OSError(f"{target.host} can't be resolved: {error}") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if target.host not in allowed_hosts:
        for address in addresses:
            if not is_public(address):
                raise AddressRefused(
                    f"{target.host} is at {address}, which is not a public address: {_ALLOW_HINT}", field="url"
                )
    return addresses


def _is_known_as_private(host: str) -> bool:
    """Whether the host is no public address, as far as this can be known without resolving it."""
    if host == _LOCAL_NAME or host.endswith(f".{_LOCAL_NAME}"):
        return True
    try:
        # Also 127.1, 0x7f.1 and 2130706433, which the resolver takes for addresses.
        return not is_public(socket.inet_ntoa(socket.inet_aton(host)))
    except OSError:
        pass
    try:
        return not is_public(host)
    except ValueError:
        return False  # a name


def is_public(address: str) -> bool:
    """Whether the address is in the public internet, also one that stands for an IPv4 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        embedded = ip.ipv4_mapped or ip.sixtofour
        if embedded is None and ip in _NAT64:
            embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if embedded is not None:
            return is_public(str(embedded))
        if ip.teredo is not None:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved
