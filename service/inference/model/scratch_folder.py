"""Writes and removes folders as a whole: a reader sees all of a folder or nothing of it."""

from __future__ import annotations

import errno
import shutil
import tempfile
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from service.file_lock import FileLock

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".partial"
LOCK_FILE = "lock"


@contextmanager
def write_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Gives an empty folder to write to, and renames it to `target` at the end; after an error it is removed.

    Without `replace`, a target that exists by then raises FileExistsError. With it, the later of two writers wins.
    """
    with _open_scratch_folder(target) as scratch:
        new = scratch / target.name
        new.mkdir()
        mode = new.stat().st_mode & 0o777
        yield new
        new.chmod(mode)  # a copy keeps the mode of its original
        for attempt in count():
            try:
                new.replace(target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                if not replace:
                    raise FileExistsError(errno.EEXIST, "the folder exists", str(target)) from error
            else:
                return
            # A folder can't replace a folder with files, so the old one is moved away. Another writer may do the same.
            with suppress(FileNotFoundError):
                target.replace(scratch / f"replaced-{attempt}")


def remove_folder(path: Path) -> None:
    """Removes a folder. It is renamed first."""
    with _open_scratch_folder(path) as scratch:
        path.replace(scratch / path.name)


def remove_dead_scratch_folders(parent: Path) -> list[Path]:
    """Removes what writers that were killed left in `parent`. Folders of writers that still run are kept."""
    removed = []
    for folder in sorted(parent.glob(f".*{SUFFIX}")):
        if not (folder / LOCK_FILE).is_file():
            continue
        with suppress(OSError), FileLock(folder / LOCK_FILE):  # OSError: its writer runs, or has just removed it
            shutil.rmtree(folder)
            removed.append(folder)
    return removed


@contextmanager
def _open_scratch_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target`, and so on the same file system. It is removed with everything that is left in it.

    Its lock is held until then. The operating system releases it if the process is killed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=SUFFIX, dir=target.parent))
    try:
        with FileLock(scratch / LOCK_FILE):
            yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
