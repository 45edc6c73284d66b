"""Requests of other threads: the projector is to read all decisions that the log holds at this moment.

The queue never waits for one of them. If the log does not tell its end, the requests so far are given up; so are they when
the queue is built again, because who asked may have read the empty file in between.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable

RENEWAL_INTERVAL_S: Final = 1.0  # the requests in between share a renewal
FAILURE_INTERVAL_S: Final = 10.0  # a failure may take seconds, and nothing is read meanwhile

logger = logging.getLogger(__name__)


class RenewableEnd(Protocol):
    """What is needed of a follower."""

    def renew_end(self) -> None: ...


class EndRequests:
    """Numbered from 1. Any thread may call `add` and `has_reached`, the thread of the projector everything else."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        # Each is the number of the last request that this is true of.
        self._added = 0
        self._tried = 0  # the end was asked for, with or without success
        self._renewed = 0  # the follower knows the end
        self._reached = 0
        self._outdated = 0  # it is from before the queue was built again
        self._next_renewal_at = float("-inf")
        self._has_failed = False

    def add(self) -> int:
        with self._mutex:
            self._added += 1
            return self._added

    def has_reached(self, number: int) -> bool:
        """Whether the queue shows every decision that the log held when the request was made.

        If it is true before and after a query, it was true during the query.
        """
        return self._outdated < number <= self._reached

    def give_up_all(self) -> None:
        """Call it before the queue is cleared."""
        self._outdated = self._tried = self._added

    def renew_end(self, follower: RenewableEnd) -> None:
        """Asks for the end that the topic has now, if that is requested. Raises nothing if the log does not tell it."""
        added, now = self._added, self._clock()
        if added <= self._tried or now < self._next_renewal_at:
            return
        self._tried = added
        try:
            follower.renew_end()
        except StreamError as error:
            self._next_renewal_at = self._clock() + FAILURE_INTERVAL_S
            if not self._has_failed:
                logger.warning("the queue can't tell whether it shows all decisions: %s", error)
            self._has_failed = True
            return
        self._next_renewal_at = now + RENEWAL_INTERVAL_S
        self._renewed, self._has_failed = added, False

    def note_end_reached(self) -> None:
        """Call it when all followers have caught up and their records are in the queue."""
        self._reached = self._renewed
