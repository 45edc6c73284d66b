"""The embedded log: topics, offsets, state and outputs in one SQLite file, one transaction a batch.

For one machine and for trying out: one partition, one worker at a time (a lock file sees to it), any number of
processes that append or follow. Commits are synced to disk, so that what a producer was promised survives a
power cut; `kill -9` at any instant leaves the file as the last commit left it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.codec import (
    headers_from_json,
    headers_to_json,
    parse_position,
    to_position_key,
    to_position_value,
)
from service.log.protocol import (
    MAX_BATCH_BYTES,
    BatchResult,
    CommitRefused,
    Output,
    PartitionAssignment,
    Rebalance,
    Record,
    RecordBatch,
    VersionConflict,
)
from service.log.sqlite.follower import SqliteFollower

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from service.log.protocol import RecordPosition
    from service.log.topics import Topics

PARTITION = 0
SCHEMA_VERSION = 1
POLL_INTERVAL_S = 0.02
MAX_FOLLOW_BYTES = 16 * 1024 * 1024
PRUNE_INTERVAL_S = 60.0
PRUNE_DIVISOR = 10

SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    topic TEXT NOT NULL, offset INTEGER NOT NULL, key BLOB, value BLOB, headers TEXT NOT NULL, timestamp_ms INTEGER NOT NULL,
    PRIMARY KEY (topic, offset)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS records_by_key ON records (topic, key);
CREATE TABLE IF NOT EXISTS heads (topic TEXT PRIMARY KEY, next_offset INTEGER NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Retention:
    """When old records of the topics that aren't compacted go. What the worker has not read yet always stays."""

    max_bytes: int | None = None
    max_age_ms: int | None = None


class SqliteStream:
    """A `Stream` over one file."""

    warnings: tuple[str, ...] = ()  # a file is there or it is not
    assignment_complete: bool = True

    def __init__(self, path: Path, topics: Topics, *, worker: bool = True, retention: Retention | None = None) -> None:
        self._topics = topics
        self._compacted = {spec.name for spec in topics.list_specs() if spec.cleanup_policy == "compact"}
        self._retention = retention or Retention()
        self._pruned_at = time.monotonic()
        self._mutex = threading.RLock()
        self._lock = _acquire_lock(path) if worker else None
        self._db = _connect(path)
        self._next: int | None = None  # where to read on; none: to be restored

    # -- reading ---------------------------------------------------------------------------------------------------

    def poll_rebalance(self) -> Rebalance:
        if self._next is not None:
            return Rebalance()
        with self._read_transaction():
            state = {
                bytes(key): bytes(value)
                for key, value in self._db.execute(
                    "SELECT key, value FROM records WHERE topic = ? ORDER BY offset", (self._topics.state,)
                )
                if value is not None
            }
            start = self._fetch_start_offset()
        position = state.pop(to_position_key(PARTITION), None)
        wanted = parse_position(position) if position is not None else start
        self._next = max(wanted, start)
        return Rebalance(
            assigned=(PartitionAssignment(PARTITION, self._next, state, lost_records=self._next - wanted),)
        )

    def _fetch_start_offset(self) -> int:
        """The first offset that is still there, or the end of an empty topic."""
        first = self._db.execute("SELECT min(offset) FROM records WHERE topic = ?", (self._topics.sentences,))
        found: int | None = first.fetchone()[0]
        return self._fetch_next_offset(self._topics.sentences) if found is None else found

    def _fetch_next_offset(self, topic: str) -> int:
        row = self._db.execute("SELECT next_offset FROM heads WHERE topic = ?", (topic,)).fetchone()
        return 0 if row is None else int(row[0])

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        if self._next is None:
            return RecordBatch({})
        until = time.monotonic() + timeout
        while True:
            records = self.read(self._topics.sentences, self._next, max_records, max_bytes)
            if records:
                self._next = records[-1].offset + 1
                return RecordBatch({PARTITION: records}, lease=records[0].offset)
            if time.monotonic() >= until:
                return RecordBatch({})
            time.sleep(POLL_INTERVAL_S)

    def read(self, topic: str, offset: int, limit: int, max_bytes: int = MAX_FOLLOW_BYTES) -> list[Record]:
        rows: list[tuple[int, bytes | None, bytes | None, str, int]] = []
        size = 0
        with self._read_transaction(), closing(self._db.cursor()) as cursor:
            found = cursor.execute(
                "SELECT offset, key, value, headers, timestamp_ms FROM records"
                " WHERE topic = ? AND offset >= ? ORDER BY offset LIMIT ?",
                (topic, offset, limit),
            )
            for row in found:
                size += len(row[2] or b"")
                if rows and size > max_bytes:
                    break
                rows.append(row)
        return [
            Record(topic, PARTITION, at, key, value, headers_from_json(headers), ts)
            for at, key, value, headers, ts in rows
        ]

    def follow(self, topic: str) -> SqliteFollower:
        with self._read_transaction():
            return SqliteFollower(self, topic, self._fetch_next_offset(topic))

    def lag(self) -> dict[int, int]:
        with self._read_transaction():
            head = self._fetch_next_offset(self._topics.sentences)
        return {PARTITION: max(0, head - (self._next or 0))}

    # -- writing ---------------------------------------------------------------------------------------------------

    def commit(self, result: BatchResult) -> None:
        next_offset = result.batch.next_offsets.get(PARTITION)
        try:
            with self._write_transaction():
                for output in result.outputs:
                    self._write(output)
                for key, value in result.state.get(PARTITION, {}).items():
                    self._write(Output(self._topics.state, key, value))
                if next_offset is not None:
                    position = Output(self._topics.state, to_position_key(PARTITION), to_position_value(next_offset))
                    self._write(position)
        except StreamError as error:
            self._next = None
            raise CommitRefused(str(error)) from error
        self._prune_if_due(next_offset)

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:  # noqa: ARG002 - the file waits itself
        with self._write_transaction():
            for output in outputs:
                self._write(output)

    def append_if_unchanged(self, output: Output, expected: RecordPosition | None, *, timeout: float = 30.0) -> None:  # noqa: ARG002 - as above
        query = "SELECT max(offset) FROM records WHERE topic = ? AND key = ?"
        with self._write_transaction():
            (last,) = self._db.execute(query, (output.topic, output.key)).fetchone()
            if last is not None and (PARTITION, last) != expected:
                raise VersionConflict(output)
            self._write(output)

    def _write(self, output: Output) -> None:
        offset = self._fetch_next_offset(output.topic)
        if output.topic in self._compacted and output.key is not None:
            self._db.execute("DELETE FROM records WHERE topic = ? AND key = ?", (output.topic, output.key))
        self._db.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)",
            (
                output.topic,
                offset,
                output.key,
                output.value,
                headers_to_json(output.headers),
                time.time_ns() // 1_000_000,
            ),
        )
        self._db.execute(
            "INSERT INTO heads VALUES (?, ?) ON CONFLICT (topic) DO UPDATE SET next_offset = excluded.next_offset",
            (output.topic, offset + 1),
        )

    def _prune_if_due(self, consumed: int | None) -> None:
        if consumed is None or time.monotonic() - self._pruned_at < PRUNE_INTERVAL_S:
            return
        self._pruned_at = time.monotonic()
        self.prune(consumed)

    def prune(self, consumed: int) -> None:
        """Drops old records of the topics that aren't compacted, of the input only what lies before `consumed`."""
        kept = self._retention
        names = [spec.name for spec in self._topics.list_specs() if spec.cleanup_policy == "delete"]
        with self._write_transaction():
            for name in names:
                limit = consumed if name == self._topics.sentences else self._fetch_next_offset(name)
                if kept.max_age_ms is not None:
                    oldest = time.time_ns() // 1_000_000 - kept.max_age_ms
                    self._db.execute(
                        "DELETE FROM records WHERE topic = ? AND offset < ? AND timestamp_ms < ?", (name, limit, oldest)
                    )
                if kept.max_bytes is not None and self._fetch_size_bytes() > kept.max_bytes:
                    first, head = self._fetch_first_offset(name), self._fetch_next_offset(name)
                    cut = min(limit, first + max(1, (head - first) // PRUNE_DIVISOR))
                    self._db.execute("DELETE FROM records WHERE topic = ? AND offset < ?", (name, cut))
        with self._mutex:
            self._db.execute("PRAGMA incremental_vacuum")

    def _fetch_first_offset(self, topic: str) -> int:
        found: int | None = self._db.execute("SELECT min(offset) FROM records WHERE topic = ?", (topic,)).fetchone()[0]
        return self._fetch_next_offset(topic) if found is None else found

    def _fetch_size_bytes(self) -> int:
        pages, free, size = (
            int(self._db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    # -- transactions ----------------------------------------------------------------------------------------------

    @contextmanager
    def _read_transaction(self) -> Iterator[None]:
        """One moment of the file for several queries; SQLite's own errors become ours."""
        with self._mutex, translate_sqlite_errors():
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")

    @contextmanager
    def _write_transaction(self) -> Iterator[None]:
        with self._mutex, translate_sqlite_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        with self._mutex:
            self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def translate_sqlite_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StreamError(f"the embedded log failed: {error}") from error


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    with translate_sqlite_errors():
        db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            raise StreamError(f"{path} was written by a newer labelwatch (format {version}): update labelwatch")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.executescript(SCHEMA)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return db


def _acquire_lock(path: Path) -> int:
    """The right to work on the file, which the system takes back whatever way the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StreamError(f"another worker is running on {path}: stop it, or use Kafka for several workers") from error
    return lock
