"""Lines of a body."""

from __future__ import annotations

from typing import NamedTuple


class BodyLine(NamedTuple):
    """A line with its number in the body, from 1. `raw` is None if the line is longer than the limit."""

    number: int
    raw: bytes | None


class LineSplitter:
    """Splits bytes into lines, and skips blank ones. Drops the bytes of a line that is too long."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._number = 1

    def feed(self, data: bytes) -> list[BodyLine]:
        *complete, rest = data.split(b"\n")
        lines = []
        for part in complete:
            self._add(part)
            lines += self.flush()
            self._number += 1
        self._add(rest)
        return lines

    def flush(self) -> list[BodyLine]:
        """The current line, as if it ended here."""
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
