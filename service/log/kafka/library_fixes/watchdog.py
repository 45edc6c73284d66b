"""Ends the process when the Kafka client waits for ever: some of its transactional calls have no time-out of their own."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 40.0
TICK = 1.0
EXIT_STATUS = 70


def end_process(sentence: str) -> None:
    """Without unwinding: the thread that hangs would never come back to be unwound."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
    os._exit(EXIT_STATUS)


class Watchdog:
    """Watches the steps of a thread. It counts its own ticks, not the clock: a process that was stopped and goes on
    has not hung.
    """

    def __init__(self, *, limit: float = LIMIT, tick: float = TICK, end: Callable[[str], None] = end_process) -> None:
        self._limit = limit
        self._tick = tick
        self._end = end
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
            yield self._begin
        finally:
            self._step = None

    def _begin(self, step: str) -> None:
        self._step = [step]

    def _watch(self) -> None:
        seen: list[str] | None = None
        ticks = 0
        while not self._closed.wait(self._tick):
            step = self._step
            ticks = ticks + 1 if step is not None and step is seen else 0
            seen = step
            if step is not None and ticks * self._tick >= self._limit:
                self._end(
                    f"labelwatch: Kafka did not get through `{step[0]}` in {self._limit:.0f} s and its client has no"
                    " time-out there: the worker ends, start it again"
                )
                return

    def close(self) -> None:
        self._closed.set()
