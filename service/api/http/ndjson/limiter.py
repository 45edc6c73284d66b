"""How many NDJSON bodies may be open, and how many bytes of them may wait."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from service.api.http.problems import OverloadedError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import HTTPConnection

    from service.settings import ApiSettings

SPOOL_FULL: Final = "there is no space left to buffer the body: read answers while you send, or send less"
FIRST_IDLE_TIMEOUT_SHARE: Final = 0.8  # of the request's time: an idle client gets 408 instead of 504


class StreamLimiter:
    """Counts the open streams and the bytes in all their spools. Must be used in the event loop's thread only."""

    def __init__(self, settings: ApiSettings, *, on_reject: Callable[[], None] = lambda: None) -> None:
        """`on_reject` is called for each rejected stream."""
        self._on_reject = on_reject
        self.max_open = settings.max_streams
        self.max_spooled_bytes = settings.max_spool_bytes
        self.max_line_bytes = settings.max_line_bytes
        self.idle_timeout_s = settings.idle_s
        self.first_idle_timeout_s = min(settings.idle_s, FIRST_IDLE_TIMEOUT_SHARE * settings.timeout_s)
        self.open_streams = self.spooled_bytes = 0

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Opens one more stream, or raises `OverloadedError`."""
        if self.open_streams >= self.max_open:
            self._on_reject()
            raise OverloadedError(
                f"{self.open_streams} NDJSON bodies are open already: try again later, or send a list as JSON"
                " (the limit is LABELWATCH_API_MAX_STREAMS)",
                close=True,
            )
        self.open_streams += 1
        try:
            yield
        finally:
            self.open_streams -= 1

    def reserve(self, size: int) -> None:
        """Counts bytes that enter a spool, or raises `TooLargeError`."""
        if self.spooled_bytes + size > self.max_spooled_bytes:
            raise TooLargeError(SPOOL_FULL)
        self.spooled_bytes += size

    def release(self, size: int) -> None:
        """Counts bytes that leave a spool."""
        self.spooled_bytes -= size


def get_stream_limiter(connection: HTTPConnection) -> StreamLimiter:
    """The limiter that all requests of the app share."""
    return cast("StreamLimiter", connection.app.state.stream_limiter)
