from __future__ import annotations

import subprocess
import sys
import threading
import time

from service.log.kafka.library_fixes.watchdog import EXIT_STATUS, Watchdog

HANGS = """
import threading
from service.log.kafka.library_fixes.watchdog import Watchdog
with Watchdog(step_timeout_s=0.1, tick_interval_s=0.02).watching() as step:
    step("commit_transaction")
    threading.Event().wait()
"""


def test_a_step_that_hangs_is_told_by_name() -> None:
    ended: list[str] = []
    told = threading.Event()

    def end(sentence: str) -> None:
        ended.append(sentence)
        told.set()

    dog = Watchdog(step_timeout_s=0.05, tick_interval_s=0.01, terminate=end)
    with dog.watching() as step:
        step("flush")
        assert told.wait(60)
    assert len(ended) == 1
    assert "`flush`" in ended[0]


def test_neither_progress_nor_idleness_is_a_hang() -> None:
    ended: list[str] = []
    dog = Watchdog(step_timeout_s=30.0, tick_interval_s=0.001, terminate=ended.append)
    for _ in range(3):
        with dog.watching() as step:
            for _ in range(5):
                step("commit")
                time.sleep(0.002)
        time.sleep(0.01)
    dog.close()
    assert ended == []


def test_a_new_step_of_the_same_name_begins_to_count_anew() -> None:
    ended: list[str] = []
    dog = Watchdog(step_timeout_s=3.0, tick_interval_s=1.0, terminate=ended.append)

    class Clock:
        """Two ticks a step: the limit of three is never reached."""

        ticks = 0

        def wait(self, _: float) -> bool:
            self.ticks += 1
            if self.ticks % 2:
                dog._begin_step("commit")
            return self.ticks > 8

    dog._closed = Clock()  # type: ignore[assignment]
    dog._watch()
    assert ended == []


def test_the_process_ends_without_unwinding_and_says_why() -> None:
    ran = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == EXIT_STATUS
    assert "commit_transaction" in ran.stderr
