"""The SQLite file of the review queue: its lock, its connections, and how it is created.

The file holds nothing that the topics do not hold, so it may be deleted at any time. The projector starts with a new one.
Each process needs a file of its own.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import SettingsError, StateError
from service.file_lock import FileLock
from service.review.projection.tables import ORDER_INDEXES, RING_INDEX, SCHEMA, TABLES
from service.sqlite_errors import translate_sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

MEMORY = ":memory:"
NO_INODE = 0
WRITER_CACHE_KIB = 64 * 1024  # 30,000 items took 5.5 s of CPU, with SQLite's 2 MB 6.3 s


class QueueFile:
    """Any thread may read, each with a connection of its own. Only the projector writes."""

    def __init__(self, path: Path | str) -> None:
        """`:memory:` is a temporary file: the connections of several threads can't share an in-memory database safely."""
        self._temporary_folder = (
            tempfile.TemporaryDirectory(prefix="labelwatch-queue-") if str(path) == MEMORY else None
        )
        self.path = Path(self._temporary_folder.name) / "queue.sqlite" if self._temporary_folder else Path(path)
        self._lock = _acquire_lock(self.path)
        self._mutex = threading.Lock()
        self._idle_connections: list[sqlite3.Connection] | None = []  # None: the file is closed
        self._has_order_indexes = False
        self.has_ring_index = False
        self.version = 0  # grows with every write, so that readers can wait for a change
        self.decisions_version = 0  # grows when decisions, what they count for, or ranks of decided items change
        try:
            self._writer, self._inode = self._create_file()
        except BaseException:
            self._lock.release()
            raise

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection]:
        """All queries in the block see the same snapshot."""
        with self._translate_errors():
            with self._mutex:
                if self._idle_connections is None:
                    raise StateError("the review queue is closed")
                pool = self._idle_connections
                db = pool.pop() if pool else self._connect(self.path)
            try:
                db.execute("BEGIN")
                try:
                    yield db
                finally:
                    db.execute("COMMIT")
            finally:
                self._return_connection(db, pool)

    def _return_connection(self, db: sqlite3.Connection, pool: list[sqlite3.Connection]) -> None:
        with self._mutex:
            if pool is self._idle_connections:  # the file was neither closed nor created again in the meantime
                pool.append(db)
                return
        db.close()

    # -- for the projector -----------------------------------------------------------------------------------------

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._translate_errors():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")
        self.version += 1

    def clear(self) -> None:
        """Empties all tables. Creates a new file if the old one was deleted."""
        if self.is_deleted:
            with self._mutex:
                idle, self._idle_connections = self._idle_connections, []
            for db in (*(idle or ()), self._writer):
                db.close()
            # If the next line fails: the same file may be moved back, without a connection to it.
            self._inode = NO_INODE
            self._writer, self._inode = self._create_file()
        with self.write_transaction() as db:
            for index in (*RING_INDEX, *ORDER_INDEXES):
                db.execute(f"DROP INDEX IF EXISTS {index}")
            for table in TABLES:
                db.execute(f"DELETE FROM {table}")  # noqa: S608 - a constant
        self.decisions_version += 1
        self._has_order_indexes = self.has_ring_index = False

    def ensure_order_indexes(self) -> None:
        """Creates the indexes that pages are read by. Without them each page sorts all items."""
        if not self._has_order_indexes:
            self._create_indexes(ORDER_INDEXES)
            self._has_order_indexes = True

    def ensure_ring_index(self) -> None:
        """Creates the index that control sentences are positioned by."""
        if not self.has_ring_index:
            self._create_indexes(RING_INDEX)
            self.has_ring_index = True

    def _create_indexes(self, indexes: Mapping[str, str]) -> None:
        with self.write_transaction() as db:
            for index, columns in indexes.items():
                db.execute(f"CREATE INDEX IF NOT EXISTS {index} ON {columns}")

    @property
    def is_deleted(self) -> bool:
        """Whether the file was deleted or replaced since it was created."""
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    def close(self) -> None:
        with self._mutex:
            idle, self._idle_connections = self._idle_connections, None
        if idle is None:
            return
        for db in (*idle, self._writer):
            db.close()
        self._lock.release()
        if self._temporary_folder is not None:
            self._temporary_folder.cleanup()

    def _create_file(self) -> tuple[sqlite3.Connection, int]:
        """A new file with empty tables, and its inode. The file of an earlier process may be of other topics: it goes."""
        with self._translate_errors():
            new_path = self.path.with_name(self.path.name + ".new")  # renamed when it has its tables
            try:
                for path in (new_path, self.path):
                    for suffix in ("", "-wal", "-shm"):
                        path.with_name(path.name + suffix).unlink(missing_ok=True)
                new_path.touch(0o600)
                with closing(self._connect(new_path)) as db:
                    db.executescript(SCHEMA)
                inode = new_path.stat().st_ino
                new_path.replace(self.path)
            except OSError as error:  # the folder was deleted, or may not be written any more
                raise StateError(f"the review queue at {self.path} failed: {error.strerror or error}") from error
            writer = self._connect(self.path)
            writer.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
            return writer, inode

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_sqlite_errors(StateError, f"the review queue at {self.path} failed")

    def _connect(self, path: Path) -> sqlite3.Connection:
        uri = f"{path.resolve().as_uri()}?mode=rw"  # fails where the file was deleted, instead of creating an empty one
        db = sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")  # a file lost in a crash is built again
        return db


def _acquire_lock(path: Path) -> FileLock:
    try:
        return FileLock(path.with_name(path.name + ".lock"))
    except BlockingIOError:
        raise SettingsError(
            f"another process uses the review queue at {path}: give each process its own file"
        ) from None
    except OSError as error:
        raise SettingsError(f"can't create the review queue at {path}: {error.strerror or error}") from error
