"""Ends the process when the Kafka client waits for ever: some of its transactional calls have no time-out of their own."""

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
    """Without unwinding: the thread that hangs would never come back to be unwound."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
    os._exit(EXIT_STATUS)


class Watchdog:
    """Watches the steps of a thread. It counts its own ticks, not the clock: a process that was stopped and goes on
    has not hung.
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
        self._step: list[str] | None = None  # a new list is a new step
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self) -> Iterator[Callable[[str], None]]:
        """Gives the function to call before each step that may hang."""
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
                    f"labelwatch: Kafka did not get through `{step[0]}` in {self._step_timeout_s:.0f} s and its client has no"
                    " time-out there: the worker ends, start it again"
                )
                return

    def close(self) -> None:
        self._closed.set()
