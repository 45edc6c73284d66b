"""A request that has arrived as a whole, and its answer as one write: uvicorn's request and response without ASGI.

The messages of ASGI, and the copies of headers between its layers, take a fifth of the time of a small request.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Scope
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

EXCHANGE_KEY: Final = "labelwatch.exchange"  # in the scope of a request
MAX_BODY_WAIT_S: Final = 0.05


class Exchange:
    """One request and its response."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    @property
    def is_complete(self) -> bool:
        """Whether the whole body is there, and the client too."""
        return not (self._cycle.more_body or self._cycle.disconnected)

    @property
    def awaits_consent(self) -> bool:
        """Whether the client sends the body only when it is asked to."""
        return self._cycle.waiting_for_100_continue

    async def wait_for_body(self) -> None:
        """Many clients send the body apart from the head. Returns when it is complete, or after a short time."""
        cycle = self._cycle
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_BODY_WAIT_S):
                while cycle.more_body and not cycle.disconnected:
                    cycle.message_event.clear()
                    await cycle.message_event.wait()
        cycle.message_event.set()  # `receive` returns what has arrived

    @property
    def body(self) -> bytearray:
        return self._cycle.body

    def take_body(self) -> bytes:
        """The body, which `receive` then does not return."""
        body, self._cycle.body = bytes(self._cycle.body), bytearray()
        return body

    async def respond(self, status_line: bytes, headers: bytes, body: bytes) -> None:
        """Sends the response. `headers`: all but those of the server, each with its line end."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = True
        server_headers = [b"%b: %b\r\n" % pair for pair in cycle.default_headers]
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        cycle.transport.writelines((status_line, *server_headers, headers, end, body))
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()


def find_exchange(scope: Scope) -> Exchange | None:
    """None if another server than that of the service has received the request."""
    exchange: Exchange | None = scope.get(EXCHANGE_KEY)
    return exchange
