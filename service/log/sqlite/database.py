"""The tables of the embedded log in one SQLite file, and what is read from and written to them.

Commits are synced to disk, so a message that was accepted survives a power failure. After `kill -9` at any moment the
file holds the last commit.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.codec import decode_headers, encode_headers
from service.log.protocol import Record
from service.log.sqlite.guard import LogFileGuard
from service.sqlite_errors import translate_sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.log.protocol import Output
    from service.log.topics import Topics

PARTITION = 0
SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 30.0
MAX_READ_BYTES = 16 * 1024 * 1024
OWNER_ONLY = 0o600
PRIMARY_CODE = 0xFF  # the bits of an error code of SQLite that give the kind
DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    topic TEXT NOT NULL, offset INTEGER NOT NULL, key BLOB, value BLOB, headers TEXT NOT NULL, timestamp_ms INTEGER NOT NULL,
    PRIMARY KEY (topic, offset)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS records_by_key ON records (topic, key);
CREATE TABLE IF NOT EXISTS heads (topic TEXT PRIMARY KEY, next_offset INTEGER NOT NULL) WITHOUT ROWID;
"""


class LogDatabase:
    """One connection that several threads share. Every query runs inside `read_transaction` or `write_transaction`."""

    def __init__(self, path: Path, topics: Topics, *, reserve_bytes: int = 0) -> None:
        """`reserve_bytes`: free space on the disk below which nothing is written."""
        self._compacted = {spec.name for spec in topics.list_specs() if spec.cleanup_policy == "compact"}
        self._mutex = threading.RLock()
        self._db = _connect(path)
        self.guard = LogFileGuard(path, reserve_bytes=reserve_bytes)

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """All queries of the block see the same state of the file."""
        with self._mutex, _translate_errors():
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")

    @contextmanager
    def write_transaction(self, *, frees_space: bool = False) -> Iterator[None]:
        """Raises `StreamError` if the file is gone, or its disk is full and the block does not free space."""
        with self._mutex, _translate_errors():
            if not frees_space:
                self.guard.check()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:  # SQLite itself rolls back after some errors, such as a full disk
                    self._db.execute("ROLLBACK")

    # -- queries ---------------------------------------------------------------------------------------------------

    def fetch_records(self, topic: str, offset: int, max_records: int, max_bytes: int) -> list[Record]:
        rows: list[tuple[int, bytes | None, bytes | None, str, int]] = []
        size = 0
        query = (
            "SELECT offset, key, value, headers, timestamp_ms FROM records"
            " WHERE topic = ? AND offset >= ? ORDER BY offset LIMIT ?"
        )
        with closing(self._db.execute(query, (topic, offset, max_records))) as cursor:
            for row in cursor:
                size += len(row[2] or b"")
                if rows and size > max_bytes:
                    break
                rows.append(row)
        return [
            Record(
                topic,
                PARTITION,
                row_offset,
                key,
                value,
                decode_headers(headers),
                timestamp_ms,
            )
            for row_offset, key, value, headers, timestamp_ms in rows
        ]

    def fetch_values(self, topic: str) -> dict[bytes, bytes]:
        """The values of a compacted topic by key."""
        rows = self._db.execute("SELECT key, value FROM records WHERE topic = ? ORDER BY offset", (topic,))
        return {bytes(key): bytes(value) for key, value in rows if value is not None}

    def fetch_first_offset(self, topic: str) -> int:
        """The offset of the first record, or the next offset if the topic is empty."""
        query = "SELECT min(offset) FROM records WHERE topic = ?"
        offset: int | None = self._db.execute(query, (topic,)).fetchone()[0]
        return self.fetch_next_offset(topic) if offset is None else offset

    def fetch_next_offset(self, topic: str) -> int:
        row = self._db.execute("SELECT next_offset FROM heads WHERE topic = ?", (topic,)).fetchone()
        return 0 if row is None else int(row[0])

    def fetch_last_offset(self, topic: str, key: bytes | None) -> int | None:
        """The offset of the last record of the key."""
        query = "SELECT max(offset) FROM records WHERE topic = ? AND key = ?"
        offset: int | None = self._db.execute(query, (topic, key)).fetchone()[0]
        return offset

    def fetch_size_bytes(self) -> int:
        """Size of the file without its free pages."""
        pages, free_pages, page_bytes = (
            int(self._db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free_pages) * page_bytes

    # -- changes ---------------------------------------------------------------------------------------------------

    def insert(self, output: Output) -> None:
        offset = self.fetch_next_offset(output.topic)
        headers = encode_headers(output.headers)
        if output.topic in self._compacted and output.key is not None:
            self._db.execute("DELETE FROM records WHERE topic = ? AND key = ?", (output.topic, output.key))
        self._db.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)",
            (output.topic, offset, output.key, output.value, headers, time.time_ns() // 1_000_000),
        )
        self._db.execute(
            "INSERT INTO heads VALUES (?, ?) ON CONFLICT (topic) DO UPDATE SET next_offset = excluded.next_offset",
            (output.topic, offset + 1),
        )

    def delete_before(self, topic: str, offset: int, *, timestamp_ms: int | None = None) -> None:
        """Deletes the records before `offset`; with a timestamp, only those that are older."""
        query = "DELETE FROM records WHERE topic = ? AND offset < ?"
        if timestamp_ms is None:
            self._db.execute(query, (topic, offset))
        else:
            self._db.execute(f"{query} AND timestamp_ms < ?", (topic, offset, timestamp_ms))

    def vacuum(self) -> None:
        """Returns free pages to the file system."""
        with self._mutex, _translate_errors():
            self._db.execute("PRAGMA incremental_vacuum")

    def close(self) -> None:
        with self._mutex:
            self._db.close()


@contextmanager
def _translate_errors() -> Iterator[None]:
    with translate_sqlite_errors(StreamError, "the embedded log failed"):
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE not in DAMAGE_CODES:
                raise
            raise StreamError(
                f"the embedded log failed: {error}: `labelwatch check` says what is damaged; stop the service and restore a "
                "backup with `labelwatch restore`"
            ) from error


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _restrict_access(path)
    with _translate_errors():
        db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            raise StreamError(f"{path} was written by a newer labelwatch (format {version}): update labelwatch")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.executescript(SCHEMA)
        if version != SCHEMA_VERSION:  # a full disk must not keep the service from starting
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return db


def _restrict_access(path: Path) -> None:
    """Makes the file readable for its owner only. SQLite gives the files beside it the same permissions."""
    with suppress(OSError):  # a file of another owner stays as that one made it; if it can't be opened, SQLite says why
        path.touch(OWNER_ONLY)
        if path.stat().st_mode & 0o077:
            path.chmod(OWNER_ONLY)
