"""Small disks for brokers, which can be filled: one tmpfs per broker. Mounting needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DISK_MB = 256
CHUNK_BYTES = 1024 * 1024
FILLER = "filler"


def can_mount(folder: Path) -> bool:
    """Whether this process may mount a tmpfs. Containers often forbid it, even to root."""
    if os.name != "posix" or os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory(dir=folder) as target:
        if subprocess.run(["mount", "-t", "tmpfs", "none", target], capture_output=True, check=False).returncode:
            return False
        subprocess.run(["umount", target], check=True)
    return True


class SmallDisks:
    """The data folders of brokers, each on a disk of its own. They must be mounted before the brokers start."""

    def __init__(self, folder: Path, nodes: Iterable[int]) -> None:
        self._folders = {node: folder / f"broker-{node}" / "data" for node in nodes}
        self._mounted: list[Path] = []

    def __enter__(self) -> Self:
        for folder in self._folders.values():
            folder.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(folder)], check=True)
            self._mounted.append(folder)
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
        self._mounted.clear()

    def fill(self, node: int) -> None:
        """Writes until no space is left."""
        with contextlib.suppress(OSError), (self._folders[node] / FILLER).open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * CHUNK_BYTES)

    def free(self, node: int) -> None:
        (self._folders[node] / FILLER).unlink(missing_ok=True)
