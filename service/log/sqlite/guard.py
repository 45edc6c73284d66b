"""Whether the file of the embedded log may be written: it must still be there, on a disk with some space left.

SQLite goes on writing to a file that was deleted, and everything written there is lost. On a full disk it fails in the middle
of whatever it does. So both are checked before each write, and reading goes on.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from service.errors import StreamError

if TYPE_CHECKING:
    from pathlib import Path


def read_free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class LogFileGuard:
    """Remembers the file as it is when the guard is created."""

    def __init__(self, path: Path, *, reserve_bytes: int) -> None:
        self._path = path
        self._reserve_bytes = reserve_bytes
        status = path.stat()
        self._identity = (status.st_dev, status.st_ino)

    @property
    def lost_reason(self) -> str:
        """Why what is written would be lost; empty if it would not."""
        try:
            status = self._path.stat()
        except OSError:
            status = None
        if status is not None and (status.st_dev, status.st_ino) == self._identity:
            return ""
        return (
            f"the file of the embedded log, {self._path}, was deleted or replaced while labelwatch was running, and nothing "
            "is accepted any more: move the file back, or stop labelwatch and restore a backup. Without the file, a restart "
            "begins an empty log, without keys and settings"
        )

    @property
    def full_reason(self) -> str:
        return describe_full_disk(self._path.parent, self._reserve_bytes)

    @property
    def reason(self) -> str:
        """Why nothing may be written now; empty if it may."""
        return self.lost_reason or self.full_reason

    def check(self) -> None:
        """Raises `StreamError` if nothing may be written now."""
        if reason := self.reason:
            raise StreamError(reason)


def describe_full_disk(folder: Path, reserve_bytes: int) -> str:
    """Why nothing is written to this folder; empty if there is space."""
    try:
        free = read_free_bytes(folder)
    except OSError:
        return ""  # the write itself says what is wrong
    if free >= reserve_bytes:
        return ""
    return (
        f"the disk of {folder} has {free / 1e6:,.0f} MB left, and nothing is written below {reserve_bytes / 1e6:,.0f} MB "
        "(LABELWATCH_LOG_RESERVE_BYTES): free some space, then it continues by itself"
    )
