"""Bytes that wait: in memory, above a size in temporary files."""

from __future__ import annotations

from collections import deque
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from service.api.http.ndjson.limiter import StreamLimiter

MAX_MEMORY_BYTES: Final = 1 << 20
SEGMENT_BYTES: Final = 16 << 20


class Spool:
    """A first-in, first-out buffer of bytes, in segments: each in memory first, above a size in an unnamed file.

    A segment that has been read frees its disk space. `limiter` bounds the bytes of all spools together.
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
        """Raises `TooLargeError` or `OSError` if there is no space left."""
        self._limiter.reserve(len(data))
        if not self._segments or self._segments[-1].written >= self._segment_bytes:
            self._segments.append(_Segment(self._max_memory_bytes))
        last = self._segments[-1]
        try:
            last.file.seek(last.written)
            last.file.write(data)
        except OSError:
            self._limiter.release(len(data))
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
        self._limiter.release(segment.written)
        segment.file.close()


class _Segment:
    def __init__(self, max_memory_bytes: int) -> None:
        self.file = SpooledTemporaryFile(max_size=max_memory_bytes)  # noqa: SIM115 - the spool closes it
        self.consumed = self.written = 0
