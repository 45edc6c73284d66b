"""What may happen to brokers, one at a time: two of three gone is an outage, not a fault to survive without a stall."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import TransactionState

from tests.chaos.plan import Kind
from tests.chaos.reading import ERRORS
from tests.kafka.broker import KafkaUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka.broker import Cluster

OPEN = frozenset(
    {
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)


def _now() -> int:
    return int(time.time() * 1000)


class Brokers:
    """The cluster of a run, or brokers that are somebody else's: those are never touched."""

    def __init__(self, servers: str, cluster: Cluster | None) -> None:
        self._servers = servers.split(",")
        self._cluster = cluster
        self._down: int | None = None
        self._gone_at = 0
        self.away: list[tuple[int, int]] = []  # when there was none that answered, in milliseconds

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self._servers, bootstrap_timeout_ms=5_000)

    @property
    def single(self) -> bool:
        return self._cluster is not None and len(self._cluster.nodes) == 1

    def hit(self, kind: Kind, node: int) -> None:
        assert self._cluster is not None, "brokers that are somebody else's can't be broken"
        assert not (kind is Kind.CRASH and self.single), "a single broker has no copy of what it had in hand"
        does = {Kind.CRASH: self._cluster.kill, Kind.RESTART: self._cluster.stop, Kind.HANG: self._cluster.pause}
        self._gone_at = _now()
        does[kind](node)
        self._down = node

    def mend(self, kind: Kind, node: int) -> None:
        assert self._cluster is not None
        if kind is Kind.HANG:
            self._cluster.resume(node)
        else:
            self._cluster.start(node)
        self._down = None
        if self.single:
            self._cluster.wait()
            self.away.append((self._gone_at, _now()))

    def whole(self) -> bool:
        """Whether every broker is there and has caught up."""
        if self._cluster is None:
            return True
        if self._down is not None:
            return False
        try:
            self._cluster.wait(timeout=1)
            with self._admin() as admin:
                return all(
                    len(partition["isr_nodes"]) == len(partition["replica_nodes"])
                    for topic in admin.describe_topics()
                    for partition in topic["partitions"]
                )
        except (KafkaUnavailableError, *ERRORS):
            return False

    def idle(self) -> bool:
        """Whether no transaction is open or about to be closed."""
        try:
            with self._admin() as admin:
                return not any(one.state in OPEN for listed in admin.list_transactions().values() for one in listed)
        except ERRORS:
            return False

    def hanging(self, topics: Iterable[str], partitions: int) -> list[str]:
        """Partitions that wait for the end of a transaction which its coordinator takes for ended: no client can help."""
        found: list[str] = []
        try:
            with self._admin() as admin:
                known = {one.producer_id: one.state for listed in admin.list_transactions().values() for one in listed}
                places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
                for place, state in admin.describe_producers(places).items():
                    found += [
                        f"{place.topic}-{place.partition} (producer {one.producer_id})"
                        for one in state.active_producers
                        if one.current_transaction_start_offset >= 0 and known.get(one.producer_id) not in OPEN
                    ]
        except ERRORS as error:
            found.append(f"not known: {error!r}")
        return found
