"""The queue's file: who has it, connections to it, and how it is begun anew.

It may be deleted at any time; the projector begins a new one when it starts. One process has a file for itself.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from service.errors import SettingsError, StateError
from service.review.projection import tables as store

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = ":memory:"


class QueueFile:
    """Reads from any thread, each with a connection of its own. Writing is for the projector alone."""

    def __init__(self, path: Path | str) -> None:
        """`:memory:` is a file as well, a temporary one: connections of several threads can't share memory safely."""
        self._folder = tempfile.TemporaryDirectory(prefix="labelwatch-queue-") if str(path) == MEMORY else None
        self.path = Path(self._folder.name) / "queue.sqlite" if self._folder else Path(path)
        self._lock = _take_lock(self.path)
        self._mutex = threading.Lock()
        self._idle: list[sqlite3.Connection] | None = []  # none: closed
        self.version = 0  # grows with every change, for those who wait for one
        try:
            self._writer, self._file = self._made()
        except BaseException:
            os.close(self._lock)
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One moment of the file."""
        with _told(self.path):
            with self._mutex:
                if self._idle is None:
                    raise StateError("the review queue is closed")
                pool = self._idle
                db = pool.pop() if pool else self._connect(self.path)
            try:
                db.execute("BEGIN")
                try:
                    yield db
                finally:
                    db.execute("COMMIT")
            finally:
                self._give_back(db, pool)

    def _give_back(self, db: sqlite3.Connection, pool: list[sqlite3.Connection]) -> None:
        with self._mutex:
            if pool is self._idle:  # the file has not been closed or made anew meanwhile
                pool.append(db)
                return
        db.close()

    # -- writing: the projector's ----------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        with _told(self.path):
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
        if self.lost:
            with self._mutex:
                idle, self._idle = self._idle, []
            for db in (*(idle or ()), self._writer):
                db.close()
            self._writer, self._file = self._made()
        with self.writing() as db:
            for table in store.TABLES:
                db.execute(f"DELETE FROM {table}")  # noqa: S608 - a constant

    @property
    def lost(self) -> bool:
        """Whether somebody has deleted the file."""
        try:
            return self.path.stat().st_ino != self._file
        except OSError:
            return True

    def close(self) -> None:
        with self._mutex:
            idle, self._idle = self._idle, None
        if idle is None:
            return
        for db in (*idle, self._writer):
            db.close()
        os.close(self._lock)
        if self._folder is not None:
            self._folder.cleanup()

    def _made(self) -> tuple[sqlite3.Connection, int]:
        """A new file with its tables. What an earlier process left is not trusted: the topics may be others now."""
        with _told(self.path):
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

    def _connect(self, path: Path) -> sqlite3.Connection:
        address = f"{path.resolve().as_uri()}?mode=rw"  # never makes an empty one where ours is gone
        db = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")  # it can be built again
        return db


def _take_lock(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise SettingsError(f"the review queue can't be kept at {path}: {error.strerror or error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise SettingsError(f"another process keeps its review queue at {path}: give each a file of its own") from None
    return lock


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(f"the review queue at {path} failed: {error}") from error
