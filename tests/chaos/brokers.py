"""What may happen to brokers, one at a time: two of three gone is an outage, not a fault to survive without a stall."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import TransactionState

from tests.chaos.plan import FaultKind
from tests.chaos.reading import TRANSIENT_ERRORS
from tests.kafka.broker import KafkaUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka.broker import Cluster

OPEN_STATES = frozenset(
    {
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)


def _now_ms() -> int:
    return int(time.time() * 1000)


class Brokers:
    """The cluster of a run, or brokers that are somebody else's: those are never touched."""

    def __init__(self, servers: str, cluster: Cluster | None) -> None:
        self._servers = servers.split(",")
        self._cluster = cluster
        self._down: int | None = None
        self._outage_began_ms = 0
        self.outages: list[tuple[int, int]] = []  # when there was none that answered, in milliseconds

    def _open_admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self._servers, bootstrap_timeout_ms=5_000)

    @property
    def single(self) -> bool:
        return self._cluster is not None and len(self._cluster.nodes) == 1

    def inject_fault(self, kind: FaultKind, node: int) -> None:
        assert self._cluster is not None, "brokers that are somebody else's can't be broken"
        assert not (kind is FaultKind.CRASH and self.single), "a single broker has no copy of what it had in hand"
        does = {
            FaultKind.CRASH: self._cluster.kill,
            FaultKind.RESTART: self._cluster.stop,
            FaultKind.HANG: self._cluster.pause,
        }
        self._outage_began_ms = _now_ms()
        does[kind](node)
        self._down = node

    def repair(self, kind: FaultKind, node: int) -> None:
        assert self._cluster is not None
        if kind is FaultKind.HANG:
            self._cluster.resume(node)
        else:
            self._cluster.start(node)
        self._down = None
        if self.single:
            self._cluster.wait_until_ready()
            self.outages.append((self._outage_began_ms, _now_ms()))

    def is_healthy(self) -> bool:
        """Whether every broker is there and has caught up."""
        if self._cluster is None:
            return True
        if self._down is not None:
            return False
        try:
            self._cluster.wait_until_ready(timeout=1)
            with self._open_admin() as admin:
                return all(
                    len(partition["isr_nodes"]) == len(partition["replica_nodes"])
                    for topic in admin.describe_topics()
                    for partition in topic["partitions"]
                )
        except (KafkaUnavailableError, *TRANSIENT_ERRORS):
            return False

    def is_idle(self) -> bool:
        """Whether no transaction is open or about to be closed."""
        try:
            with self._open_admin() as admin:
                return not any(
                    one.state in OPEN_STATES for listed in admin.list_transactions().values() for one in listed
                )
        except TRANSIENT_ERRORS:
            return False

    def find_hanging_transactions(self, topics: Iterable[str], partitions: int) -> list[str]:
        """Partitions that wait for the end of a transaction which its coordinator takes for ended: no client can help."""
        found: list[str] = []
        try:
            with self._open_admin() as admin:
                known = {one.producer_id: one.state for listed in admin.list_transactions().values() for one in listed}
                places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
                for place, state in admin.describe_producers(places).items():
                    found += [
                        f"{place.topic}-{place.partition} (producer {one.producer_id})"
                        for one in state.active_producers
                        if one.current_transaction_start_offset >= 0 and known.get(one.producer_id) not in OPEN_STATES
                    ]
        except TRANSIENT_ERRORS as error:
            found.append(f"not known: {error!r}")
        return found
