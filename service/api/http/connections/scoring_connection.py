"""A client's connection in a scoring process, which answers `POST /v1/score` and hands over everything else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from service.api.http.connections.connection import MAX_HEAD_BYTES, LimitedHttpProtocol
from service.api.http.media_types import NDJSON_ALIASES
from service.api.http.problems import NotReadyError, build_problem_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

METHOD: Final = b"POST "
PATH: Final = b"/v1/score"
END_OF_HEAD: Final = b"\r\n\r\n"
_BARE_LINE_FEED: Final = re.compile(rb"(?<!\r)\n")  # such a head never ends: the first process refuses it
_NDJSON_NAMES: Final = tuple(alias.encode() for alias in NDJSON_ALIASES)


def is_scoring_head(head: bytes) -> bool:
    """Whether a request with this head is answered here. NDJSON is not: its limits are for all requests together."""
    if not head.startswith(METHOD) or not is_scoring_target(head[len(METHOD) :]):
        return False
    lowered = head.lower()
    return not any(name in lowered for name in _NDJSON_NAMES)


def is_scoring_target(target: bytes) -> bool:
    return target.startswith(PATH) and target[len(PATH) : len(PATH) + 1] in (b"", b" ", b"?")


class ScoringHttpProtocol(LimitedHttpProtocol):
    """Looks at the head of each request before it is parsed. What it hands over it has not answered in part.

    Several requests that a client sends without waiting for answers are one after the other on the same connection: then
    one for another path can't be handed over, and is refused.
    """

    hand_over: Callable[[int, bytes], None]  # gets the descriptor of the connection, and what was read of it
    on_end: Callable[[], None]  # called once, unless the connection is handed over
    _unparsed = b""  # the start of a head
    _in_message = False
    _is_handed_over = False

    def data_received(self, data: bytes) -> None:
        # With a part of an answer unsent the connection can't be handed over either.
        if self._in_message or not self._is_idle or self.transport.get_write_buffer_size():
            super().data_received(data)
            return
        received = self._unparsed + data
        end = received.find(END_OF_HEAD)
        if end < 0 and len(received) <= MAX_HEAD_BYTES and not _BARE_LINE_FEED.search(received):
            self._unparsed = received
            self._unset_keepalive_if_required()
            if self._head_timer is None:
                self._start_head_timer()
            return
        self._unparsed = b""
        if end >= 0 and is_scoring_head(received[:end]):
            super().data_received(received)
        else:
            self._hand_over(received)

    def _hand_over(self, received: bytes) -> None:
        self._is_handed_over = True
        self.transport.pause_reading()
        self.hand_over(self.transport.get_extra_info("socket").fileno(), received)
        self.transport.abort()  # closes this process's copy only

    def on_message_begin(self) -> None:
        self._in_message = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        is_own = is_scoring_target(self.url) and not any(
            alias in value.lower() for _, value in self.headers for alias in _NDJSON_NAMES
        )
        self.app = self.config.loaded_app if is_own else _refuse_pipelined
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_message = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self._is_handed_over:
            self.on_end()


async def _refuse_pipelined(scope: Scope, receive: Receive, send: Send) -> None:
    error = NotReadyError(
        "it was sent before the request before it was answered: send it again on a new connection",
        retry_after=1,
        close=True,
    )
    await build_problem_response(error)(scope, receive, send)
