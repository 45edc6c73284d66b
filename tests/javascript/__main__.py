"""Checks the console's JavaScript: its JSDoc types with tsc, its format and that of the stylesheets with Prettier.

`python -m tests.javascript` checks, `python -m tests.javascript --write` formats the files first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.support.node_packages import install_packages

PROJECT = Path(__file__).resolve().parent
ROOT = PROJECT.parents[1]
FORMATTED = ("service/api/console/**/*.{js,css,html}", "service/audit/report/*.css", "tests/**/*.js")


def run_node(script: Path, *arguments: str) -> int:
    return subprocess.run(["node", str(script), *arguments], cwd=ROOT, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.javascript", description=__doc__)
    parser.add_argument("--write", action="store_true", help="format the files before they are checked")
    write = parser.parse_args().write
    modules = install_packages(PROJECT) / "node_modules"
    exit_codes = [
        run_node(
            modules / "prettier" / "bin" / "prettier.cjs",
            *("--config", str(PROJECT / "prettier.json"), "--log-level", "warn"),
            *("--write" if write else "--check", *FORMATTED),
        ),
        run_node(modules / "typescript" / "bin" / "tsc", "--project", str(PROJECT)),
    ]
    return max(exit_codes)


if __name__ == "__main__":
    sys.exit(main())
