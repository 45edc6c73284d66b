"""Closes a connection so that a client that is still sending reads the answer.

A socket that is closed while bytes arrive resets the connection, and a reset deletes what the client has not read yet. Clients
that send the whole body before they read, such as Python's `http.client`, would see the reset and not the answer. So only the
sending side is closed first. What still arrives is discarded, for a limited time and up to a limited size.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from service.api.http.connections.joined_writes import JoinedWrites

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_LINGER_BYTES: Final = 1 << 27  # of a body; 8 times the largest one that is accepted by default
MAX_LINGER_HEAD_BYTES: Final = 1 << 20  # of a head
MAX_LINGER_S: Final = 10.0  # as long as the head of a request may take
MAX_SILENCE_S: Final = 2.0  # without a byte


class LingeringTransport(JoinedWrites):
    """The transport of a client's connection. `close` lingers while `max_unread_bytes` is not 0; a second one does not."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, protocol: HttpToolsProtocol
    ) -> None:
        super().__init__(transport, loop)
        self._http_protocol = protocol
        # The protocol sets it: how much is discarded of a request that is not read to its end.
        self.max_unread_bytes = 0

    def close(self) -> None:
        if self.max_unread_bytes and not self._transport.is_closing():
            self._linger()
        else:
            super().close()

    def close_at_once(self) -> None:
        """For a client that has no answer to read."""
        self.max_unread_bytes = 0
        self.close()

    def _linger(self) -> None:
        max_bytes, self.max_unread_bytes = self.max_unread_bytes, 0
        self.is_closing = _return_true  # type: ignore[method-assign]  # for uvicorn the connection is closed
        self._flush()
        try:
            if self._transport.can_write_eof():
                self._transport.write_eof()
        except OSError:  # the client has reset the connection
            self._transport.abort()
            return
        self.write = self.writelines = _ignore  # type: ignore[method-assign, assignment]  # as a transport that closes
        self._transport.set_protocol(DiscardingProtocol(self._transport, self._loop, self._http_protocol, max_bytes))
        self._transport.resume_reading()


class DiscardingProtocol(asyncio.Protocol):
    """Reads what a client still sends, and keeps nothing of it. Closes the connection when a limit is reached."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        http_protocol: HttpToolsProtocol,
        max_bytes: int,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._http_protocol = http_protocol  # learns that the connection has ended
        self._max_bytes = max_bytes
        self._received_bytes = self._checked_bytes = 0
        self._end = loop.time() + MAX_LINGER_S
        self._timer = self._start_timer()

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._received_bytes > self._max_bytes:
            self._transport.close()

    def pause_writing(self) -> None:
        self._http_protocol.pause_writing()

    def resume_writing(self) -> None:
        self._http_protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._http_protocol.connection_lost(exc)

    def _start_timer(self) -> asyncio.TimerHandle:
        remaining = self._end - self._loop.time()
        return self._loop.call_later(min(MAX_SILENCE_S, remaining), self._check_time)

    def _check_time(self) -> None:
        is_silent = self._received_bytes == self._checked_bytes
        if is_silent or self._loop.time() >= self._end:
            self._transport.close()
            return
        self._checked_bytes = self._received_bytes
        self._timer = self._start_timer()


def _return_true() -> bool:
    return True


def _ignore(_data: object) -> None:
    return
