"""Ends the process when the client waits forever.

Bug: `send_offsets_to_transaction`, `commit_transaction` and `abort_transaction` wait without a time-out; `max_block_ms`
applies to `init_transactions` only.
Symptom: a worker stops and keeps its partitions, because its heartbeat continues.
Remove it when: every transactional call has a time-out.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEP_TIMEOUT_S = 40.0
TICK_INTERVAL_S = 1.0
EXIT_STATUS = 70


def end_process(message: str) -> None:
    """Exits without unwinding: the thread that hangs would never return."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
    os._exit(EXIT_STATUS)


class Watchdog:
    """Watches the steps of one thread.

    It counts its own ticks instead of reading the clock: a process that was stopped (SIGSTOP) and continues has not hung.
    """

    def __init__(
        self,
        *,
        step_timeout_s: float = STEP_TIMEOUT_S,
        tick_interval_s: float = TICK_INTERVAL_S,
        terminate: Callable[[str], None] = end_process,
    ) -> None:
        self._step_timeout_s = step_timeout_s
        self._tick_interval_s = tick_interval_s
        self._terminate = terminate
        self._step: list[str] | None = None  # a list, so that two steps of the same name differ by identity
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self) -> Iterator[Callable[[str], None]]:
        """Yields the function to call before each step that may hang."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="kafka-watchdog", daemon=True)
            self._thread.start()
        try:
            yield self._begin_step
        finally:
            self._step = None

    def _begin_step(self, step: str) -> None:
        self._step = [step]

    def _watch(self) -> None:
        seen: list[str] | None = None
        ticks = 0
        while not self._closed.wait(self._tick_interval_s):
            step = self._step
            ticks = ticks + 1 if step is not None and step is seen else 0
            seen = step
            if step is not None and ticks * self._tick_interval_s >= self._step_timeout_s:
                self._terminate(
                    f"labelwatch: the Kafka client did not finish `{step[0]}` in {self._step_timeout_s:.0f} s and has no"
                    " time-out there: the worker ends, start it again"
                )
                return

    def close(self) -> None:
        self._closed.set()
