"""Installs the npm packages of a lock file, once, in a cache outside the checkout."""

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
    """Installs the lock file in `project` without running scripts of packages. Returns the folder with `node_modules`."""
    lock = project / "package-lock.json"
    folder = get_cache_folder() / f"{project.name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    if shutil.which("npm") is None:
        raise RuntimeError("npm is missing: install it (for example `sudo apt-get install npm`)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not folder.is_dir():
            _run_npm_ci(project, folder)
    return folder


def _run_npm_ci(project: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        staging = Path(scratch) / "packages"
        staging.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(project / name, staging)
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
        result = subprocess.run(["npm", "ci", *options], cwd=staging, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(f"npm could not install {project.name}:\n{result.stdout}{result.stderr}")
        staging.rename(folder)
