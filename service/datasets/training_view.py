"""Follows the models topic in a thread of its own, so that API and trainer can ask for the trainings of a dataset."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from service.datasets.trainings import Trainings
from service.errors import StreamError

if TYPE_CHECKING:
    from service.contracts import Training
    from service.log.protocol import Follower, Log, Record

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.2
RETRY_INTERVAL_S = 5.0


class TrainingView:
    """The trainings of all datasets. One thread follows the topic; any thread may ask.

    A log that does not answer, or that lacks the topic because an older labelwatch created the others, is asked again.
    Nothing but the list of trainings depends on it.
    """

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._lock = threading.Lock()
        self._follower: Follower | None = None
        self._trainings = Trainings()
        self._caught_up = False
        self.error: str | None = None

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                try:
                    n_records = len(self.step())
                except StreamError as error:
                    if self.error is None:
                        logger.warning("the trainings of models can't be read: %s", error)
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
        with self._lock:
            self._trainings.apply_records(records)
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

    def list_running(self) -> tuple[Training, ...]:
        """Of all datasets."""
        with self._lock:
            return self._trainings.list_running()

    def list_trainings(self, dataset: str) -> tuple[Training, ...]:
        """The newest first."""
        with self._lock:
            return self._trainings.list_newest_first(dataset)
