"""Ends the transactions that dead workers left open.

A partition that moves to another worker is read only when no transaction is open on its state. One of a worker that died
stays open until the brokers abort it: after its time-out, and by default up to 10 s later. Initializing its transactional
id aborts it at once.

Only a worker that the group does not list any more is considered dead. If it is alive all the same, its next commit fails
and it ends.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.kafka.admin import find_open_transactions, list_group_identities
from service.log.kafka.client_errors import CLIENT_ERRORS, describe_error
from service.log.kafka.clients import create_producer
from service.log.kafka.library_fixes.transactions.disposal import dispose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

ABORT_INTERVAL_S = 30.0


class DeadWorkerFencer:
    """Knows how transactional ids are built from the identities of workers. One thread uses it."""

    def __init__(self, settings: KafkaSettings, *, group: str, id_prefix: str) -> None:
        self._settings = settings
        self._group = group
        self._id_prefix = id_prefix
        self._aborted_at: dict[str, float] = {}

    def fence(self, topic: str, partition: int) -> bool:
        """Aborts the transactions of dead workers on a partition. Returns whether any transaction was open.

        If it fails, the brokers abort them later.
        """
        try:
            names = list(find_open_transactions(self._settings, topic, partition).values())
            for transactional_id in self._find_dead(names):
                self._abort(transactional_id)
                self._aborted_at[transactional_id] = time.monotonic()
                logger.warning(
                    "partition %d: aborted the open transaction of %s, which is not in the group any more",
                    partition,
                    transactional_id.removeprefix(self._id_prefix),
                )
        except (StreamError, *CLIENT_ERRORS) as error:
            logger.warning("partition %d: its open transactions can't be aborted: %s", partition, describe_error(error))
            return True
        return bool(names)

    def _find_dead(self, names: Sequence[str | None]) -> list[str]:
        # One that stays open has lost its end in the brokers: to abort it again would only end its worker once more.
        now = time.monotonic()
        self._aborted_at = {name: at for name, at in self._aborted_at.items() if now - at < ABORT_INTERVAL_S}
        workers = [
            name
            for name in names
            if name is not None and name.startswith(self._id_prefix) and name not in self._aborted_at
        ]
        if not workers:
            return []
        living = list_group_identities(self._settings, group=self._group)
        if None in living:
            return []  # an earlier version, whose identity is not known, may be the one
        return [name for name in workers if name.removeprefix(self._id_prefix) not in living]

    def _abort(self, transactional_id: str) -> None:
        producer = create_producer(self._settings, transactional_id=transactional_id)
        try:
            producer.init_transactions()
        finally:
            dispose(producer)
