"""The partitions of a worker that wait for a model: they are paused, and resumed when their record can be judged."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from service.errors import InvalidInput, MissingModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from service.log.protocol import WorkerSession
    from service.stream.worker.partition_stops import StoppedPartition

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S = 2.0


class PausedPartitions:
    """The worker's thread uses it; other threads may read `partitions` and `describe`."""

    def __init__(
        self,
        session: WorkerSession,
        check_model: Callable[[str], None],
        *,
        check_interval_s: float = CHECK_INTERVAL_S,
    ) -> None:
        """`check_model` raises `MissingModelError` while sentences of a dataset can't be judged."""
        self._session = session
        self._check_model = check_model
        self._check_interval_s = check_interval_s
        self._stops: dict[int, StoppedPartition] = {}
        self._checked_at = 0.0

    @property
    def partitions(self) -> frozenset[int]:
        return frozenset(self._stops)

    def describe(self) -> str:
        """What each partition waits for; empty if none waits."""
        return "; ".join(
            f"partition {stop.partition} waits at offset {stop.offset}: {stop.reason}"
            for stop in sorted(self._stops.values(), key=lambda stop: stop.partition)
        )

    def pause(self, stops: Iterable[StoppedPartition]) -> None:
        """Pauses the partitions. What stands before the stops is committed."""
        for stop in stops:
            self._session.pause(stop.partition, stop.offset)
            self._stops[stop.partition] = stop
            self._checked_at = time.monotonic()
            logger.error("partition %d is paused at offset %d: %s", stop.partition, stop.offset, stop.reason)

    def resume(self) -> None:
        """Resumes the partitions whose record can be judged now. Looks every few seconds only."""
        if not self._stops or time.monotonic() - self._checked_at < self._check_interval_s:
            return
        self._checked_at = time.monotonic()
        for partition, stop in list(self._stops.items()):
            try:
                self._check_model(stop.dataset)
            except MissingModelError as error:
                self._stops[partition] = replace(stop, reason=str(error))
                continue
            except InvalidInput:
                pass  # the record becomes a dead letter
            del self._stops[partition]
            self._session.resume(partition)
            logger.info("partition %d continues at offset %d", partition, stop.offset)

    def forget(self, partition: int) -> None:
        """Forgets a partition that is revoked, or assigned again: then the session reads it."""
        self._stops.pop(partition, None)
