"""A lease by membership in a consumer group: of all members, the one that owns partition 0 of a topic holds it.

When the holder leaves, dies or stops polling, the group gives the partition to another member.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from service.errors import StreamError
from service.log.kafka.worker.group_consumer import GroupConsumer, OffsetLostError

if TYPE_CHECKING:
    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

LEASE_PARTITION = 0
POLL_TIMEOUT_S = 0.5
RETRY_INTERVAL_S = 5.0


class GroupLease:
    """A member of the group, with a thread that polls for it.

    A process that was suspended may believe for a moment that it still holds the lease: what it writes must be safe then.
    """

    def __init__(self, settings: KafkaSettings, topic: str, *, group: str) -> None:
        # A member that joins takes nothing away: its holder would have to begin its work again.
        self._consumer = GroupConsumer(settings, topic, group=group, worker_id=None, assignor=CooperativeStickyAssignor)
        self._held = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="lease", daemon=True)
        self._thread.start()

    @property
    def is_held(self) -> bool:
        return self._held

    def _poll(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._consumer.poll(max_records=1, timeout=POLL_TIMEOUT_S)
                except (StreamError, OffsetLostError) as error:
                    logger.warning("the lease can't be renewed: %s", error)
                    self._held = False
                    self._stop.wait(RETRY_INTERVAL_S)
                for event in self._consumer.drain_rebalances():
                    if LEASE_PARTITION in event.partitions:
                        self._held = event.kind == "assigned"
        finally:
            self._held = False
            self._consumer.close()

    def close(self) -> None:
        """Leaves the group, so that another member gets the lease at once."""
        self._stop.set()
        self._thread.join()
