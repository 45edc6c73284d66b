"""How long the command line takes to start: CPU time of `labelwatch --version` over that of `python -c pass`.

Both are the same interpreter in processes of their own, run in turn.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from typing import Any

ROUNDS = 15
BARE_PYTHON = [sys.executable, "-c", "pass"]
LABELWATCH = [sys.executable, "-c", "from service.cli.main import main; main()", "--version"]


def run() -> list[dict[str, Any]]:
    for command in (BARE_PYTHON, LABELWATCH):  # compiles and caches what it imports
        measure_cpu_seconds(command)
    bare, started = zip(
        *((measure_cpu_seconds(BARE_PYTHON), measure_cpu_seconds(LABELWATCH)) for _ in range(ROUNDS)), strict=True
    )
    return [
        {
            "name": "cli_start_vs_python",
            "ratio": statistics.median(started) / statistics.median(bare),
            "detail": {
                "what": "CPU time of `labelwatch --version` over that of `python -c pass`; lower is better",
                "labelwatch_seconds": statistics.median(started),
                "python_seconds": statistics.median(bare),
                "threads": 1,
                "rounds": ROUNDS,
                "ratios": [ours / its for ours, its in zip(started, bare, strict=True)],
            },
        }
    ]


def measure_cpu_seconds(command: list[str]) -> float:
    """User and system time of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
