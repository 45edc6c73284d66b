"""Leaves the partitions of a worker to others while it can't reach a broker that they can."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.kafka.worker.reachability import KafkaCluster, ReachabilityProbe

if TYPE_CHECKING:
    from service.log.kafka.worker.group_consumer import GroupConsumer
    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

MAX_ABSENCE_S = 60.0  # then the worker tries again: it may be the only one left
LEAVE_INTERVAL_S = 2.0  # each attempt asks the group for its members, with a client of its own


class GivingWay:
    """Decides when the worker leaves its group and when it joins again. One thread uses it."""

    def __init__(self, settings: KafkaSettings, consumer: GroupConsumer, *, group: str) -> None:
        self._consumer = consumer
        self._probe = ReachabilityProbe(lambda: KafkaCluster(settings, group))
        self._left_at = -MAX_ABSENCE_S  # or tried to
        self.warning = ""  # while it should leave, and no other worker can take over

    @property
    def is_due(self) -> bool:
        """Whether another worker has to take over."""
        return self._probe.unreachable is not None and not self.warning

    def step(self, *, has_partitions: bool) -> None:
        self._probe.start()
        unreachable, now = self._probe.unreachable, time.monotonic()
        try:
            if self._consumer.absent:
                if unreachable is None or now - self._left_at >= MAX_ABSENCE_S:
                    self._consumer.rejoin()
            elif unreachable is None:
                self.warning = ""
            elif has_partitions and now - self._left_at >= LEAVE_INTERVAL_S:
                self._left_at = now  # also if it fails: then the group removes the worker after its session time-out
                obstacle = self._consumer.leave(str(unreachable), members_before=unreachable.members)
                warning = f"{unreachable}; {obstacle}" if obstacle else ""
                if warning and warning != self.warning:
                    logger.warning("%s", warning)
                self.warning = warning
        except StreamError as error:
            logger.warning("the group could not be left: %s", error)

    def close(self) -> None:
        self._probe.close()
