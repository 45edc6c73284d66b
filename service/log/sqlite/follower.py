"""Reads a topic of the embedded log from its beginning and stays behind its writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.log.protocol import Record
    from service.log.sqlite.log import SqliteStream

MAX_POLL_RECORDS = 1_000


class SqliteFollower:
    """A `Follower` over one topic."""

    def __init__(self, stream: SqliteStream, topic: str, end: int) -> None:
        self._stream, self._topic, self._end_offset, self._next_offset = stream, topic, end, 0

    def poll(self) -> Sequence[Record]:
        records = self._stream.read(self._topic, self._next_offset, MAX_POLL_RECORDS)
        if records:
            self._next_offset = records[-1].offset + 1
        else:
            self._end_offset = min(self._end_offset, self._next_offset)  # compaction took what was left before the end
        return records

    @property
    def caught_up(self) -> bool:
        return self._next_offset >= self._end_offset

    def close(self) -> None:
        """Nothing to release: the stream owns the file."""
