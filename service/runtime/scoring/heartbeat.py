"""Whether a scoring process still answers.

Its event loop sends a beat every second, so a loop that hangs and a process that is stopped as a whole are both noticed.
The first process counts the seconds without one on its own event loop: while that does not run, or while the machine
sleeps, no seconds are counted.
"""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

BEAT_INTERVAL_S: Final = 1.0
MAX_LATE_S: Final = 10  # after that it gets no new connections
MAX_SILENCE_S: Final = 20  # after that the service ends, as it does when the process dies


class Heartbeat:
    """One event loop beats and counts. Any thread may read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._silent_s: int | None = None  # none: no beat has come yet, the process is starting

    def beat(self) -> None:
        if self.problem:
            logger.warning("the scoring process %s answers again", self._name)
        self._silent_s = 0

    def count_second(self) -> None:
        """Call it once a second."""
        if self._silent_s is None:
            return
        self._silent_s += 1
        if self._silent_s == MAX_LATE_S:
            logger.warning(
                "the scoring process %s %s: it gets no new connections; the service ends if it does not answer within %d s",
                self._name,
                self.problem,
                MAX_SILENCE_S - MAX_LATE_S,
            )

    @property
    def problem(self) -> str:
        """The predicate of a sentence about the process; empty if it answers."""
        is_late = self._silent_s is not None and self._silent_s >= MAX_LATE_S
        return f"has not answered for {self._silent_s} s" if is_late else ""

    @property
    def has_ceased(self) -> bool:
        return self._silent_s is not None and self._silent_s >= MAX_SILENCE_S
