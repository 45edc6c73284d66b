"""A client's connection, with limits that uvicorn's own protocol does not have.

Without them any client, even one without a key, could fill the memory with one header, or hold sockets open by sending
nothing.
"""

from __future__ import annotations

import http
import ipaddress
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.http.connections.exchange import EXCHANGE_KEY, Exchange
from service.api.http.connections.lingering_transport import (
    MAX_LINGER_BYTES,
    MAX_LINGER_HEAD_BYTES,
    LingeringTransport,
)
from service.api.http.problems import PROBLEM_MEDIA_TYPE, encode_problem, to_problem

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 1 << 16
PART_BYTES: Final = 1 << 14
LOG_INTERVAL_S: Final = 10.0
HEAD_TIMEOUT_S: Final = 10.0  # from the first byte of a head, or from the start of the connection
HEAD_TOO_LARGE: Final = f"address and headers are larger than {MAX_HEAD_BYTES:,} bytes: send long values in the body"


class LimitedHttpProtocol(HttpToolsProtocol):
    """Rejects a head that is too large, and closes a connection that sends no complete head in time.

    A connection that waits for its next request may do so for the keep-alive timeout.
    """

    limits: ConnectionLimits | None = None
    received_before = b""  # what another process has read of the connection
    _address: str | None = None  # under which the connection is counted
    _head_bytes = 0  # since the last complete head or part of a body; trailers count too
    _request_seen = False
    _head_timer: asyncio.TimerHandle | None = None
    _lingering: LingeringTransport  # the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class has it
        self._lingering = LingeringTransport(transport, self.loop, self)
        super().connection_made(self._lingering)
        if self.limits is not None:
            address = self.client[0] if self.client else ""
            if refusal := self.limits.open(address):
                self._send_problem(503, refusal)
                self.transport.close()
                return
            self._address = address
        self._start_head_timer()
        if self.received_before:
            received, self.received_before = self.received_before, b""
            self.data_received(received)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        if self.limits is not None and self._address is not None:
            self.limits.close(self._address)
            self._address = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # A head in parts that end at the limit, so that its size counts even if all of it arrives in one read.
        may_be_head = self._is_idle
        start = 0
        while start < len(data) and not self.transport.is_closing():
            size = min(PART_BYTES, MAX_HEAD_BYTES + 1 - self._head_bytes) if may_be_head else len(data)
            part = data[start : start + size]
            start += size
            self._head_bytes += len(part)
            super().data_received(part)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self._reject_head()
                return
        if self._head_timer is None and self._is_idle and not self.transport.is_closing():
            self._start_head_timer()

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        self._cancel_head_timer()
        super().on_headers_complete()
        self.scope[EXCHANGE_KEY] = Exchange(self.cycle)  # type: ignore[typeddict-unknown-key]  # ASGI allows further keys
        self._request_seen = True
        self._lingering.max_unread_bytes = MAX_LINGER_BYTES

    def on_message_complete(self) -> None:
        self._lingering.max_unread_bytes = 0
        super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    @property
    def _is_idle(self) -> bool:
        """Whether no request waits for its response."""
        return not self._request_seen or self.cycle.response_complete

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._on_head_timeout)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self._is_idle and not self.transport.is_closing():
            self._lingering.close_at_once()

    def _reject_head(self) -> None:
        if not self._is_idle:
            self._lingering.close_at_once()
            return
        self._send_problem(431, HEAD_TOO_LARGE)
        self._lingering.max_unread_bytes = MAX_LINGER_HEAD_BYTES
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        # The app may still answer: then it must find a closed connection.
        self._lingering.max_unread_bytes = 0
        super().send_400_response(msg)

    def _send_problem(self, status: int, detail: str) -> None:
        body = encode_problem(to_problem(HTTPException(status, detail)))
        head = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\ncontent-type: {PROBLEM_MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)


class ConnectionLimits:
    """Open connections, in all and by address of the client. One event loop uses it."""

    def __init__(self, *, max_total: int, max_per_address: int) -> None:
        self._max_total = max_total
        self._max_per_address = max_per_address
        self._by_address: Counter[str] = Counter()
        self._total = 0
        self._logged_at = -LOG_INTERVAL_S

    def open(self, address: str) -> str:
        """Counts a connection. Returns why it is refused; then it does not count."""
        if self._by_address[address] >= self._max_per_address and not _is_loopback(address):
            refusal = (
                f"{address} has {self._max_per_address:,} connections open: close some (the limit is "
                "LABELWATCH_API_MAX_CONNECTIONS_PER_ADDRESS)"
            )
        elif self._total >= self._max_total:
            refusal = (
                f"{self._total:,} connections are open, as many as the process has file descriptors for: try again"
            )
        else:
            self._total += 1
            self._by_address[address] += 1
            return ""
        if time.monotonic() - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = time.monotonic()
            logger.warning("connections are refused: %s", refusal)
        return refusal

    def close(self, address: str) -> None:
        self._total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def _is_loopback(address: str) -> bool:
    """A proxy on this machine has the connections of all clients, and who is on it may stop the service anyway."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def build_protocol(limits: ConnectionLimits) -> type[LimitedHttpProtocol]:
    """The class of connections that share these limits."""
    return type("SharedLimitsHttpProtocol", (LimitedHttpProtocol,), {"limits": limits})
