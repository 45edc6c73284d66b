from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from service.file_lock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = """
import sys
from pathlib import Path
from service.file_lock import FileLock
lock = FileLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_has_one_owner_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "name.lock"
    with FileLock(path), pytest.raises(BlockingIOError):
        FileLock(path)
    lock = FileLock(path)
    lock.release()
    lock.release()
    FileLock(path).release()


def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "name.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(BlockingIOError):
            FileLock(path)
        process.kill()
    FileLock(path).release()


def test_a_path_that_cannot_be_created_is_an_error_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(OSError, match="file") as raised:
        FileLock(file / "name.lock")
    assert not isinstance(raised.value, BlockingIOError)
