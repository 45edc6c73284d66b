"""Lets the wall clock of a process jump: Python imports this module at its start if its folder is in PYTHONPATH.

libfaketime does the same for any program, but its `clock_nanosleep` makes `time.sleep` of Python 3.11 fail now and then.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

CHECK_INTERVAL_S = 0.2


class JumpingClock:
    """The clock plus an offset in seconds, which a file holds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._now, self._now_ns, self._monotonic = time.time, time.time_ns, time.monotonic
        self._offset = 0
        self._checked_at = float("-inf")

    def read_offset(self) -> int:
        if self._monotonic() - self._checked_at > CHECK_INTERVAL_S:
            self._checked_at = self._monotonic()
            with contextlib.suppress(OSError, ValueError):
                self._offset = int(self._file.read_text())
        return self._offset

    def time(self) -> float:
        return self._now() + self.read_offset()

    def time_ns(self) -> int:
        return self._now_ns() + self.read_offset() * 1_000_000_000


if "CHAOS_CLOCK_FILE" in os.environ:
    clock = JumpingClock(Path(os.environ["CHAOS_CLOCK_FILE"]))
    time.time, time.time_ns = clock.time, clock.time_ns
