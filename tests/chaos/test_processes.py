"""Which ends of a worker the harness takes for an end as it should be."""

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
    ("code", "asked", "fine"),
    [
        ("pass", True, True),
        (QUIET, True, True),  # the signal came before it could listen
        (QUIET, False, False),
        (AFTER_WORDS, True, False),  # it could have listened
        ("raise SystemExit(1)", True, False),
        (f"import os; os.kill(os.getpid(), {signal.SIGKILL:d})", True, True),
    ],
)
def test_an_end_is_a_problem_unless_it_was_asked_for_and_went_as_it_should(
    tmp_path: Path, code: str, asked: bool, fine: bool
) -> None:
    workers = WorkerProcesses(tmp_path, {}, ())
    slot = WorkerSlot("worker 0", {}, tmp_path / "log", stop_requested=asked)
    with slot.log.open("wb") as log:
        log.write(b"--- start 1\n")
        log.flush()
        slot.process = subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log)
    slot.process.wait(60)
    workers._record_exit(slot)
    assert (workers.problems == []) is fine
    assert slot.process is None
