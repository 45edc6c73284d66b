"""Follows a topic in a thread of its own, and keeps what its records amount to in memory."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.log.protocol import Follower, Log, Record

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.2
RETRY_INTERVAL_S = 5.0


class TopicView(ABC):
    """What the records of a topic amount to. One thread follows the topic; any thread may ask, with the lock.

    A log that does not answer, or that lacks the topic because an older labelwatch created the others, is asked again.
    """

    subject: ClassVar[str]  # what the log line says can't be read

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._follower: Follower | None = None
        self._caught_up = False
        self.lock = threading.Lock()
        self.error: str | None = None

    @abstractmethod
    def apply(self, records: Sequence[Record]) -> None:
        """Takes new records into account. The lock is held."""

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                try:
                    n_records = len(self.step())
                except StreamError as error:
                    if self.error is None:
                        logger.warning("%s can't be read: %s", self.subject, error)
                    self.error = str(error)
                    stop.wait(RETRY_INTERVAL_S)
                    continue
                self.error = None
                if not n_records:
                    stop.wait(POLL_INTERVAL_S)
        finally:
            self.close()

    def step(self) -> list[Record]:
        """Applies the new records and returns them."""
        if self._follower is None:
            self._follower = self._log.follow(self._topic)
        records = list(self._follower.poll())
        with self.lock:
            self.apply(records)
            self._caught_up = self._caught_up or self._follower.caught_up
        return records

    def close(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            with suppress(StreamError):
                follower.close()

    @property
    def caught_up(self) -> bool:
        """Whether the topic was read once to the end it had."""
        return self._caught_up
