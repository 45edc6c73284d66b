"""The packages of the image's locks, fetched once and kept outside the checkout: installing them is slow enough."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK_FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "requirements"


def fetch_wheelhouse(*names: str) -> Path:
    """A folder with every wheel that these locks name for this Python; hashes are checked here and when they are used."""
    locks = [LOCK_FOLDER / f"{name}.txt" for name in names]
    content = b"".join(lock.read_bytes() for lock in locks)
    home = os.environ.get("XDG_CACHE_HOME")
    cache = (Path(home) if home else Path.home() / ".cache") / "labelwatch" / "wheels"
    folder = cache / f"{sys.implementation.cache_tag}-{hashlib.sha256(content).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not folder.is_dir():
            _download_wheels(locks, folder)
    return folder


def _download_wheels(locks: list[Path], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        for lock in locks:
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"),
                    *("--require-hashes", "--only-binary", ":all:", "--dest", made, "-r", lock),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{lock.name}\n{done.stdout}{done.stderr}"
        made.rename(folder)
