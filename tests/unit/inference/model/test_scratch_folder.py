"""Folders appear and disappear as a whole, and what a killed writer leaves is removed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from service.inference.model.scratch_folder import remove_dead_scratch_folders, remove_folder, write_folder

if TYPE_CHECKING:
    from pathlib import Path

WRITE_AND_WAIT = """
import sys
from pathlib import Path
from service.inference.model.scratch_folder import write_folder

with write_folder(Path(sys.argv[1])) as folder:
    (folder / "part").write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    with write_folder(tmp_path / "models" / "med") as folder:
        (folder / "part").write_text("whole")
        folder.chmod(0o700)
        assert not (tmp_path / "models" / "med").exists()
    assert (tmp_path / "models" / "med" / "part").read_text() == "whole"
    assert (tmp_path / "models" / "med").stat().st_mode & 0o777 == 0o755
    assert list_names(tmp_path / "models") == ["med"]


def test_a_folder_that_exists_is_kept_unless_it_may_be_replaced(tmp_path: Path) -> None:
    for content in ("old", "new", "newer"):
        try:
            with write_folder(tmp_path / "med", replace=content == "newer") as folder:
                (folder / "part").write_text(content)
        except FileExistsError:
            assert content == "new"
        assert (tmp_path / "med" / "part").read_text() == ("newer" if content == "newer" else "old")
    assert list_names(tmp_path) == ["med"]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    def write_half() -> None:
        with write_folder(tmp_path / "med") as folder:
            (folder / "part").write_text("half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write_half()
    assert list_names(tmp_path) == []


def test_removed_folders_leave_nothing(tmp_path: Path) -> None:
    with write_folder(tmp_path / "med") as folder:
        (folder / "part").write_text("whole")
    remove_folder(tmp_path / "med")
    assert list_names(tmp_path) == []


def test_what_a_killed_writer_leaves_is_removed_and_what_another_writes_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".snapshot").mkdir()
    (tmp_path / ".mine.partial").mkdir()  # without a lock file: not ours
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_WAIT, str(tmp_path / "med")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        with write_folder(tmp_path / "other") as folder:
            assert remove_dead_scratch_folders(tmp_path) == []
            process.kill()
            process.wait()
            assert [path.name[:5] for path in remove_dead_scratch_folders(tmp_path)] == [".med."]
            (folder / "part").write_text("whole")
    assert list_names(tmp_path) == [".mine.partial", ".snapshot", "other"]
    assert remove_dead_scratch_folders(tmp_path / "missing") == []
