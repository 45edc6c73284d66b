"""Copies of the embedded log: made while the service runs, and put back while it does not."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.sqlite.database import OWNER_ONLY
from service.log.sqlite.exclusive import close_write_ahead_log, hold_worker_lock
from service.log.sqlite.integrity import SIDE_FILES, find_log_damage
from service.sqlite_errors import translate_sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def back_up_log(source: Path, target: Path) -> int:
    """Writes a copy of the log at one moment to `target`, and returns its size in bytes. Writers are not blocked.

    `target` appears when the copy is complete and checked. Its folder must be there.
    """
    with _temporary_copy(source, beside=target) as copy:
        _refuse_damage(copy, f"{source} is damaged, so it was not backed up")
        size = copy.stat().st_size
        copy.replace(target)
    _sync_folder(target.parent)
    return size


def restore_log(backup: Path, target: Path, *, replaced: Path | None = None) -> None:
    """Puts a backup in the place of the log. Raises `StreamError` if a process has the log open.

    `replaced`: where an existing log goes. Without it, an existing log is refused.
    """
    _refuse_damage(backup, f"{backup} is damaged, so it was not restored")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_worker_lock(target), _temporary_copy(backup, beside=target) as copy:
        if target.exists():
            if replaced is None:
                raise StreamError(f"{target} exists: move it aside first")
            close_write_ahead_log(target)
            target.replace(replaced)
        for suffix in SIDE_FILES:  # of the log that is gone: SQLite would apply them to the new one
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        copy.replace(target)
    _sync_folder(target.parent)


@contextmanager
def _temporary_copy(source: Path, *, beside: Path) -> Iterator[Path]:
    """A copy of a log in the folder of `beside`, for its owner only, removed at the end of the block."""
    copy = beside.with_name(f"{beside.name}.new")
    _remove_database(copy)
    try:
        copy.touch(OWNER_ONLY)
        _copy_database(source, copy)
        yield copy
    finally:
        _remove_database(copy)


def _copy_database(source: Path, target: Path) -> None:
    uri = f"{source.resolve().as_uri()}?mode=ro"
    with (
        translate_sqlite_errors(StreamError, f"{source} can't be copied to {target}"),
        closing(sqlite3.connect(uri, uri=True, timeout=30)) as db,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        db.backup(copy)  # in one step: with several, each write of another process starts it again
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log beside it


def _refuse_damage(path: Path, problem: str) -> None:
    damage = find_log_damage(path)
    if damage:
        raise StreamError(f"{problem}: {'; '.join(damage)}")


def _remove_database(path: Path) -> None:
    for suffix in ("", *SIDE_FILES, "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    """Makes renames in the folder durable. SQLite has synced the files themselves."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
