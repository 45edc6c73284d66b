"""Reads a topic of the embedded log from its beginning and continues with new records."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.log.protocol import Record
    from service.log.sqlite.log import SqliteLog

MAX_POLL_RECORDS = 1_000


class SqliteFollower:
    """A `Follower` over one topic."""

    def __init__(self, log: SqliteLog, topic: str, *, end_offset: int) -> None:
        self._log = log
        self._topic = topic
        self._end_offset = end_offset
        self._next_offset = 0

    def poll(self) -> Sequence[Record]:
        records = self._log.read(self._topic, self._next_offset, MAX_POLL_RECORDS)
        if records:
            self._next_offset = records[-1].offset + 1
        else:
            self._end_offset = min(self._end_offset, self._next_offset)  # compaction removed the records before the end
        return records

    @property
    def caught_up(self) -> bool:
        return self._next_offset >= self._end_offset

    def renew_end(self) -> None:
        self._end_offset = self._log.fetch_end_offset(self._topic)

    def close(self) -> None:
        """Nothing to release: the log owns the file."""
