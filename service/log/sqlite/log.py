"""The embedded log: topics, offsets, state and outputs in one SQLite file.

It is for one machine: every topic has one partition, one worker runs at a time, and any number of
processes append and follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.log.protocol import VersionConflict
from service.log.sqlite.database import MAX_READ_BYTES, PARTITION, LogDatabase
from service.log.sqlite.follower import SqliteFollower

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.log.protocol import Output, Record, RecordPosition
    from service.log.topics import Topics


class SqliteLog:
    """A `Log` over one file."""

    def __init__(self, path: Path, topics: Topics, *, reserve_bytes: int = 0) -> None:
        """`reserve_bytes`: free space on the disk below which nothing is written."""
        self._topics = topics
        self._database = LogDatabase(path, topics, reserve_bytes=reserve_bytes)

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:  # noqa: ARG002 - SQLite's own time-out applies
        with self._database.write_transaction():
            for output in outputs:
                self._database.insert(output)

    def append_if_unchanged(
        self,
        output: Output,
        expected: RecordPosition | None,
        *,
        also: Sequence[Output] = (),
        timeout: float = 30.0,  # noqa: ARG002 - as above
    ) -> None:
        with self._database.write_transaction():
            last_offset = self._database.fetch_last_offset(output.topic, output.key)
            if last_offset is not None and (PARTITION, last_offset) != expected:
                raise VersionConflict(output)
            for each in (output, *also):
                self._database.insert(each)

    def read(self, topic: str, offset: int, max_records: int, max_bytes: int = MAX_READ_BYTES) -> list[Record]:
        """Returns records from `offset` on, within both limits, but at least one record of any size if there is one."""
        with self._database.read_transaction():
            return self._database.fetch_records(topic, offset, max_records, max_bytes)

    def read_record(self, topic: str, partition: int, offset: int) -> Record | None:
        records = self.read(topic, offset, 1) if partition == PARTITION and offset >= 0 else []
        return records[0] if records and records[0].offset == offset else None

    def follow(self, topic: str) -> SqliteFollower:
        return SqliteFollower(self, topic, end_offset=self.fetch_end_offset(topic))

    def fetch_end_offset(self, topic: str) -> int:
        with self._database.read_transaction():
            return self._database.fetch_next_offset(topic)

    def close(self) -> None:
        self._database.close()
