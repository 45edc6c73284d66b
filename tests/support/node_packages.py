"""Packages of npm that a test needs: installed once by their lock file, kept outside the checkout."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def get_cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "labelwatch" / "npm"


def install_packages(project: Path) -> Path:
    """A folder with the `node_modules` that the lock file in `project` names; no package may run a script."""
    lock = project / "package-lock.json"
    folder = get_cache_folder() / f"{project.name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    if shutil.which("npm") is None:
        raise RuntimeError("this test needs npm: install it (for example `sudo apt-get install npm`)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not folder.is_dir():
            _run_npm_ci(project, folder)
    return folder


def _run_npm_ci(project: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(project / name, made)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
        done = subprocess.run(["npm", "ci", *quiet], cwd=made, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"npm could not install {project.name}:\n{done.stdout}{done.stderr}")
        made.rename(folder)
