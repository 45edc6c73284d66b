"""A client's connection, with limits that uvicorn's own protocol does not have.

Without them any client, even one without a key, could fill the memory with one header, or hold sockets open by sending
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.http.problems import PROBLEM_MEDIA_TYPE, encode_problem, to_problem

if TYPE_CHECKING:
    import asyncio

MAX_HEAD_BYTES: Final = 1 << 16
HEAD_TOO_LARGE: Final = f"address and headers are larger than {MAX_HEAD_BYTES:,} bytes: send long values in the body"


class LimitedHttpProtocol(HttpToolsProtocol):
    """Rejects a head that is too large, and closes a connection that sends no complete head within the idle timeout."""

    _head_bytes = 0  # since the last complete head or part of a body; trailers count too
    _request_seen = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class has it
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
        """Whether no request waits for its response."""
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
            body = encode_problem(to_problem(HTTPException(431, HEAD_TOO_LARGE)))
            head = (
                f"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: {PROBLEM_MEDIA_TYPE}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()
