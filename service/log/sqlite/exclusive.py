"""The embedded log for one process alone: what replaces the file, or deletes from it for good, needs a service that is stopped."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from service.errors import StreamError
from service.file_lock import FileLock
from service.log.sqlite.session import get_worker_lock_path
from service.sqlite_errors import translate_sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEAVE_WRITE_AHEAD_LOG: Final = (
    "PRAGMA journal_mode = DELETE"  # SQLite refuses it while another process has the file open
)


@contextmanager
def hold_worker_lock(path: Path) -> Iterator[None]:
    try:
        lock = FileLock(get_worker_lock_path(path))
    except BlockingIOError as error:
        raise StreamError(f"a worker is running on {path}: stop labelwatch first") from error
    with lock:
        yield


def close_write_ahead_log(path: Path) -> None:
    """Moves what the write-ahead log holds into the file. SQLite refuses it while another process has the file open."""
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
            db.execute(LEAVE_WRITE_AHEAD_LOG)
    except sqlite3.OperationalError as error:
        raise _describe_use(path, error) from error
    except sqlite3.DatabaseError:  # a damaged log is what a restore replaces
        return


def _describe_use(path: Path, error: sqlite3.OperationalError) -> StreamError:
    return StreamError(f"{path} is in use ({error}): stop labelwatch first")


@contextmanager
def open_exclusively(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that nobody else can read or write beside. What is deleted with it is overwritten."""
    with (
        hold_worker_lock(path),
        translate_sqlite_errors(StreamError, f"{path}: can't be changed"),
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db,
    ):
        try:
            db.execute(LEAVE_WRITE_AHEAD_LOG)
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA secure_delete = ON")
            db.execute("BEGIN EXCLUSIVE")
            db.execute("COMMIT")  # the lock stays until the connection is closed
        except sqlite3.OperationalError as error:
            raise _describe_use(path, error) from error
        yield db


def delete_for_good(db: sqlite3.Connection, offsets: dict[str, list[int]]) -> None:
    """Deletes records by topic and offset, and rewrites the file, since deleted text may still be in its free pages.

    `heads` stays as it is, as when retention deletes: no offset is given out twice, and those of the workers stay valid.
    """
    db.execute("BEGIN EXCLUSIVE")
    for topic, each in offsets.items():
        db.executemany("DELETE FROM records WHERE topic = ? AND offset = ?", ((topic, offset) for offset in each))
    db.execute("COMMIT")
    with translate_sqlite_errors(
        StreamError, "the records are deleted, and the file could not be rewritten without them"
    ):
        db.execute("VACUUM")
