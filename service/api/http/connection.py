"""A client's connection. The server's own knows no limit for what stands before a body, nor a time for it.

Whoever can open a connection, with a key or without, could fill the memory with one header, or keep sockets open by
saying nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.http.problems import PROBLEM_MEDIA_TYPE, encode_problem, to_problem

if TYPE_CHECKING:
    import asyncio

MAX_HEAD_BYTES: Final = 1 << 16
HEAD_TOO_LARGE: Final = f"address and headers are larger than {MAX_HEAD_BYTES:,} bytes: send what is long in the body"


class LimitedHttpProtocol(HttpToolsProtocol):
    """Refuses a head that is too large, and closes where none comes in the time that an idle connection has."""

    _head_bytes = 0  # bytes since a head was complete or a part of a body came; trailers count too
    _request_seen = False
    _head_timer: asyncio.TimerHandle | None = None  # for a head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its parent has it
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._reject_head()
        elif self._head_timer is None and self._is_idle:
            self._start_head_timer()

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        self._cancel_head_timer()
        super().on_headers_complete()
        self._request_seen = True

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    @property
    def _is_idle(self) -> bool:
        """Whether nobody waits for an answer."""
        return not self._request_seen or self.cycle.response_complete

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.timeout_keep_alive, self._on_head_timeout)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self._is_idle and not self.transport.is_closing():
            self.transport.close()

    def _reject_head(self) -> None:
        if self._is_idle:
            told = encode_problem(to_problem(HTTPException(431, HEAD_TOO_LARGE)))
            head = (
                f"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: {PROBLEM_MEDIA_TYPE}\r\n"
                f"Content-Length: {len(told)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + told)
        self.transport.close()
