"""The queue's file: who has it, connections to it, and how it is begun anew.

It may be deleted at any time; the projector begins a new one when it starts. One process has a file for itself.
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
from service.review.projection import tables as store
from service.sqlite_errors import translate_sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

MEMORY = ":memory:"


class QueueFile:
    """Reads from any thread, each with a connection of its own. Writing is for the projector alone."""

    def __init__(self, path: Path | str) -> None:
        """`:memory:` is a file as well, a temporary one: connections of several threads can't share memory safely."""
        self._temporary_folder = (
            tempfile.TemporaryDirectory(prefix="labelwatch-queue-") if str(path) == MEMORY else None
        )
        self.path = Path(self._temporary_folder.name) / "queue.sqlite" if self._temporary_folder else Path(path)
        self._lock = _acquire_lock(self.path)
        self._mutex = threading.Lock()
        self._idle_connections: list[sqlite3.Connection] | None = []  # none: closed
        self.version = 0  # grows with every change, for those who wait for one
        try:
            self._writer, self._inode = self._create_file()
        except BaseException:
            self._lock.release()
            raise

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection]:
        """One moment of the file."""
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
            if pool is self._idle_connections:  # the file has not been closed or made anew meanwhile
                pool.append(db)
                return
        db.close()

    # -- writing: the projector's ----------------------------------------------------------------------------------

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
        """Empty, to be built again; in a new file where somebody has deleted it."""
        if self.is_deleted:
            with self._mutex:
                idle, self._idle_connections = self._idle_connections, []
            for db in (*(idle or ()), self._writer):
                db.close()
            self._writer, self._inode = self._create_file()
        with self.write_transaction() as db:
            for table in store.TABLES:
                db.execute(f"DELETE FROM {table}")  # noqa: S608 - a constant

    @property
    def is_deleted(self) -> bool:
        """Whether somebody has deleted the file."""
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
        """A new file with its tables. What an earlier process left is not trusted: the topics may be others now."""
        with self._translate_errors():
            made = self.path.with_name(self.path.name + ".new")  # whoever opens the file finds its tables in it
            for path in (made, self.path):
                for suffix in ("", "-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
            made.touch(0o600)
            with closing(self._connect(made)) as db:
                db.executescript(store.SCHEMA)
            file = made.stat().st_ino
            made.replace(self.path)
            return self._connect(self.path), file

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_sqlite_errors(StateError, f"the review queue at {self.path} failed")

    def _connect(self, path: Path) -> sqlite3.Connection:
        address = f"{path.resolve().as_uri()}?mode=rw"  # never makes an empty one where ours is gone
        db = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")  # it can be built again
        return db


def _acquire_lock(path: Path) -> FileLock:
    try:
        return FileLock(path.with_name(path.name + ".lock"))
    except BlockingIOError:
        raise SettingsError(f"another process keeps its review queue at {path}: give each a file of its own") from None
    except OSError as error:
        raise SettingsError(f"the review queue can't be kept at {path}: {error.strerror or error}") from error
