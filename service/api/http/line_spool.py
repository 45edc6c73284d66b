"""What streams of lines need: lines cut out of bytes, room for bytes that wait, and how many may be open."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, NamedTuple, cast

from service.api.http.problems import OverloadedError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import HTTPConnection

    from service.settings import ApiSettings

MAX_MEMORY_BYTES = 1 << 20
SEGMENT_BYTES = 16 << 20
FIRST_IDLE_TIMEOUT_SHARE = 0.8  # of the time for an answer: who sends nothing is told so, not that the answer took long


class BodyLine(NamedTuple):
    """A line by its number in the body, from 1. `raw` is none where it was longer than a line may be."""

    number: int
    raw: bytes | None


class LineSplitter:
    """Cuts bytes into lines, without the blank ones; of a line that is too long nothing is kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._number = 1

    def feed(self, data: bytes) -> list[BodyLine]:
        *whole, rest = data.split(b"\n")
        found = []
        for part in whole:
            self._add(part)
            found += self.flush()
            self._number += 1
        self._add(rest)
        return found

    def flush(self) -> list[BodyLine]:
        """The line at hand, as if it ended here."""
        raw: bytes | None = b"".join(self._parts).strip()
        if self._size > self._max_bytes:
            raw = None
        self._parts, self._size = [], 0
        return [] if raw == b"" else [BodyLine(self._number, raw)]

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            self._parts.clear()
        elif part:
            self._parts.append(part)


class StreamLimiter:
    """The streams that are open, and what they keep all together. Lives in the event loop."""

    def __init__(self, settings: ApiSettings, *, on_reject: Callable[[], None] = lambda: None) -> None:
        """`on_reject` is called for each that there is no room for."""
        self._on_reject = on_reject
        self.max_open = settings.max_streams
        self.max_spooled_bytes = settings.max_spool_bytes
        self.max_line_bytes = settings.max_line_bytes
        self.idle_timeout_s = settings.idle_s
        self.first_idle_timeout_s = min(settings.idle_s, FIRST_IDLE_TIMEOUT_SHARE * settings.timeout_s)
        self.open_streams = self.spooled_bytes = 0

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Room for one more, or `OverloadedError`."""
        if self.open_streams >= self.max_open:
            self._on_reject()
            raise OverloadedError(
                f"{self.open_streams} NDJSON bodies are being read already: try again later, or send a list as JSON"
                " (the limit is LABELWATCH_API_MAX_STREAMS)",
                close=True,
            )
        self.open_streams += 1
        try:
            yield
        finally:
            self.open_streams -= 1

    def reserve(self, size: int) -> None:
        if self.spooled_bytes + size > self.max_spooled_bytes:
            raise TooLargeError("there is no room to keep it all: read answers while you send, or send less")
        self.spooled_bytes += size


def get_stream_limiter(connection: HTTPConnection) -> StreamLimiter:
    """The limiter that all requests of the app share."""
    return cast("StreamLimiter", connection.app.state.stream_limiter)


class Spool:
    """Bytes in, the same bytes out: kept in memory, past a size in files without a name, none of which grows large.

    What is read is given back to the disk a file at a time; `streams` says how much all spools may keep together.
    """

    def __init__(
        self, limiter: StreamLimiter, *, max_memory_bytes: int = MAX_MEMORY_BYTES, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._limiter = limiter
        self._max_memory_bytes, self._segment_bytes = max_memory_bytes, segment_bytes
        self._segments: deque[_Segment] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def write(self, data: bytes) -> None:
        """Raises `TooLargeError` or `OSError` where there is no room."""
        self._limiter.reserve(len(data))
        if not self._segments or self._segments[-1].written >= self._segment_bytes:
            self._segments.append(_Segment(self._max_memory_bytes))
        last = self._segments[-1]
        try:
            last.file.seek(last.written)
            last.file.write(data)
        except OSError:
            self._limiter.spooled_bytes -= len(data)
            raise
        last.written += len(data)
        self._size += len(data)

    def read(self, max_bytes: int) -> bytes:
        if not self._size:
            return b""
        first = self._segments[0]
        first.file.seek(first.consumed)
        data = first.file.read(min(max_bytes, first.written - first.consumed))
        first.consumed += len(data)
        self._size -= len(data)
        if first.consumed == first.written:
            self._drop(self._segments.popleft())
        return data

    def close(self) -> None:
        while self._segments:
            self._drop(self._segments.popleft())
        self._size = 0

    def _drop(self, segment: _Segment) -> None:
        self._limiter.spooled_bytes -= segment.written
        segment.file.close()


class _Segment:
    def __init__(self, max_memory_bytes: int) -> None:
        self.file = SpooledTemporaryFile(max_size=max_memory_bytes)  # noqa: SIM115 - closed by whoever has it
        self.consumed = self.written = 0
