from __future__ import annotations

import subprocess
import sys
import threading
import time

from service.log.kafka.library_fixes.transactions.watchdog import EXIT_STATUS, Watchdog

HANGS = """
import threading
from service.log.kafka.library_fixes.transactions.watchdog import Watchdog
with Watchdog(step_timeout_s=0.1, tick_interval_s=0.02).watching() as step:
    step("commit_transaction")
    threading.Event().wait()
"""


def test_a_step_that_hangs_is_named() -> None:
    messages: list[str] = []
    terminated = threading.Event()

    def terminate(message: str) -> None:
        messages.append(message)
        terminated.set()

    watchdog = Watchdog(step_timeout_s=0.05, tick_interval_s=0.01, terminate=terminate)
    with watchdog.watching() as step:
        step("flush")
        assert terminated.wait(60)
    assert len(messages) == 1
    assert "`flush`" in messages[0]


def test_neither_progress_nor_idleness_is_a_hang() -> None:
    messages: list[str] = []
    watchdog = Watchdog(step_timeout_s=30.0, tick_interval_s=0.001, terminate=messages.append)
    for _ in range(3):
        with watchdog.watching() as step:
            for _ in range(5):
                step("commit")
                time.sleep(0.002)
        time.sleep(0.01)
    watchdog.close()
    assert messages == []


def test_a_new_step_of_the_same_name_restarts_the_count() -> None:
    messages: list[str] = []
    watchdog = Watchdog(step_timeout_s=3.0, tick_interval_s=1.0, terminate=messages.append)

    class Clock:
        """Two ticks per step: the limit of three is never reached."""

        ticks = 0

        def wait(self, _: float) -> bool:
            self.ticks += 1
            if self.ticks % 2:
                watchdog._begin_step("commit")
            return self.ticks > 8

    watchdog._closed = Clock()  # type: ignore[assignment]
    watchdog._watch()
    assert messages == []


def test_the_process_ends_without_unwinding_and_names_the_step() -> None:
    result = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == EXIT_STATUS
    assert "commit_transaction" in result.stderr
