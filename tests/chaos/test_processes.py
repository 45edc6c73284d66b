"""Which exits of a worker the harness accepts."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.chaos.processes import WorkerProcesses, WorkerSlot

if TYPE_CHECKING:
    from pathlib import Path

QUIET = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
AFTER_WORDS = f"print('model tiny', flush=True); {QUIET}"


@pytest.mark.parametrize(
    ("code", "requested", "accepted"),
    [
        ("pass", True, True),
        (QUIET, True, True),  # the signal came before its handler was installed
        (QUIET, False, False),
        (AFTER_WORDS, True, False),  # its handler should have been installed
        ("raise SystemExit(1)", True, False),
        (f"import os; os.kill(os.getpid(), {signal.SIGKILL:d})", True, True),
    ],
)
def test_an_exit_is_a_problem_unless_it_was_requested_and_clean(
    tmp_path: Path, code: str, requested: bool, accepted: bool
) -> None:
    workers = WorkerProcesses(tmp_path, {}, ())
    slot = WorkerSlot("worker 0", {}, tmp_path / "log", stop_requested=requested)
    with slot.log.open("wb") as log:
        log.write(b"--- start 1\n")
        log.flush()
        slot.process = subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log)
    slot.process.wait(60)
    workers._record_exit(slot)
    assert (workers.problems == []) is accepted
    assert slot.process is None
