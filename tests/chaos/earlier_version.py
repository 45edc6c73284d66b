"""The code of an earlier commit, for workers that are upgraded one by one while the others run."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def check_out(commit: str, folder: Path) -> Path:
    """Writes the package of a commit to a folder, and returns it for PYTHONPATH. The environment stays that of the checkout."""
    folder.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", str(REPOSITORY), "archive", commit, "service"], capture_output=True, check=False
    )
    if archive.returncode:
        raise ValueError(f"{commit} can't be checked out: {archive.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder
