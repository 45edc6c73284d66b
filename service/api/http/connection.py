"""A client's connection. The server's own knows no limit for what stands before a body, nor a time for it.

Whoever can open a connection, with a key or without, could fill the memory with one header, or keep sockets open by
saying nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.http.problems import MEDIA_TYPE, encoded, problem_of

if TYPE_CHECKING:
    import asyncio

MOST_HEAD_BYTES: Final = 1 << 16
TOO_LARGE: Final = f"address and headers are larger than {MOST_HEAD_BYTES:,} bytes: send what is long in the body"


class Connection(HttpToolsProtocol):
    """Refuses a head that is too large, and closes where none comes in the time that an idle connection has."""

    _unread = 0  # bytes since a head was complete or a part of a body came; trailers count too
    _asked = False
    _waiting: asyncio.TimerHandle | None = None  # for a head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its parent has it
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MOST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse()
        elif self._waiting is None and self._between:
            self._wait()

    def on_headers_complete(self) -> None:
        self._unread = 0
        self._wait_no_more()
        super().on_headers_complete()
        self._asked = True

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    @property
    def _between(self) -> bool:
        """Whether nobody waits for an answer."""
        return not self._asked or self.cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.timeout_keep_alive, self._too_slow)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _too_slow(self) -> None:
        self._waiting = None
        if self._between and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self) -> None:
        if self._between:
            told = encoded(problem_of(HTTPException(431, TOO_LARGE)))
            head = (
                f"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: {MEDIA_TYPE}\r\n"
                f"Content-Length: {len(told)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + told)
        self.transport.close()
