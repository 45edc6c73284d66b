"""What streams of lines need: lines cut out of bytes, room for bytes that wait, and how many may be open."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, NamedTuple

from service.api.http.problems import OverloadedError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import HTTPConnection

    from service.settings import ApiSettings

MEMORY_BYTES = 1 << 20
PIECE_BYTES = 16 << 20
FIRST_SHARE = 0.8  # of the time for an answer: who sends nothing is told so, not that the answer took long


class Line(NamedTuple):
    """A line by its number in the body, from 1. `raw` is none where it was longer than a line may be."""

    number: int
    raw: bytes | None


class Splitter:
    """Cuts bytes into lines, without the blank ones; of a line that is too long nothing is kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._number = 1

    def feed(self, data: bytes) -> list[Line]:
        *whole, rest = data.split(b"\n")
        found = []
        for part in whole:
            self._add(part)
            found += self.end()
            self._number += 1
        self._add(rest)
        return found

    def end(self) -> list[Line]:
        """The line at hand, as if it ended here."""
        raw: bytes | None = b"".join(self._parts).strip()
        if self._size > self._max:
            raw = None
        self._parts, self._size = [], 0
        return [] if raw == b"" else [Line(self._number, raw)]

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max:
            self._parts.clear()
        elif part:
            self._parts.append(part)


class Streams:
    """The streams that are open, and what they keep all together. Lives in the event loop."""

    def __init__(self, settings: ApiSettings, *, turned_away: Callable[[], None] = lambda: None) -> None:
        """`turned_away` is called for each that there is no room for."""
        self._turned_away = turned_away
        self.most = settings.max_streams
        self.most_kept = settings.max_spool_bytes
        self.max_line_bytes = settings.max_line_bytes
        self.idle = settings.idle_s
        self.idle_at_first = min(settings.idle_s, FIRST_SHARE * settings.timeout_s)
        self.open = self.kept = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Room for one more, or `OverloadedError`."""
        if self.open >= self.most:
            self._turned_away()
            raise OverloadedError(
                f"{self.open} NDJSON bodies are being read already: try again later, or send a list as JSON"
                " (the limit is LABELWATCH_API_MAX_STREAMS)",
                close=True,
            )
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def keep(self, size: int) -> None:
        if self.kept + size > self.most_kept:
            raise TooLargeError("there is no room to keep it all: read answers while you send, or send less")
        self.kept += size


def streams_of(connection: HTTPConnection) -> Streams:
    """Those of the app: all requests share them."""
    state = connection.app.state
    found: Streams | None = getattr(state, "streams", None)
    if found is None:
        backend = state.backend
        turned_away = partial(backend.telemetry.overloaded, "streams_full")
        found = state.streams = Streams(backend.settings, turned_away=turned_away)
    return found


class Spool:
    """Bytes in, the same bytes out: kept in memory, past a size in files without a name, none of which grows large.

    What is read is given back to the disk a file at a time; `streams` says how much all spools may keep together.
    """

    def __init__(self, streams: Streams, *, memory: int = MEMORY_BYTES, piece: int = PIECE_BYTES) -> None:
        self._streams = streams
        self._memory, self._most = memory, piece
        self._pieces: deque[_Piece] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def write(self, data: bytes) -> None:
        """Raises `TooLargeError` or `OSError` where there is no room."""
        self._streams.keep(len(data))
        if not self._pieces or self._pieces[-1].written >= self._most:
            self._pieces.append(_Piece(self._memory))
        last = self._pieces[-1]
        try:
            last.file.seek(last.written)
            last.file.write(data)
        except OSError:
            self._streams.kept -= len(data)
            raise
        last.written += len(data)
        self._size += len(data)

    def read(self, most: int) -> bytes:
        if not self._size:
            return b""
        first = self._pieces[0]
        first.file.seek(first.read)
        data = first.file.read(min(most, first.written - first.read))
        first.read += len(data)
        self._size -= len(data)
        if first.read == first.written:
            self._drop(self._pieces.popleft())
        return data

    def close(self) -> None:
        while self._pieces:
            self._drop(self._pieces.popleft())
        self._size = 0

    def _drop(self, piece: _Piece) -> None:
        self._streams.kept -= piece.written
        piece.file.close()


class _Piece:
    def __init__(self, memory: int) -> None:
        self.file = SpooledTemporaryFile(max_size=memory)  # noqa: SIM115 - closed by whoever has it
        self.read = self.written = 0
