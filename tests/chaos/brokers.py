"""Faults of brokers, one at a time: two of three brokers down is an outage, which no client survives without a stall."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, TransactionState

from tests.chaos.plan import FaultKind
from tests.chaos.reading import TRANSIENT_ERRORS
from tests.kafka.broker import KafkaUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chaos.disks import SmallDisks
    from tests.kafka.broker import Cluster

PREFERRED = 0  # the type of election
OPEN_STATES = frozenset(
    {
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)


def stamp_on_arrival(servers: str, *topics: str) -> None:
    """Gives messages the time of the broker: clocks of workers jump, and a producer may wait for a broker that hangs."""
    configs = {"message.timestamp.type": "LogAppendTime"}
    with KafkaAdminClient(bootstrap_servers=servers.split(",")) as admin:
        # Without the client's own check of the names: it asks a broker, which may not know a topic that is new.
        results = admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs) for topic in topics],
            raise_on_unknown=False,
        )
    assert set(results["topic"].values()) == {"OK"}, results


def _now_ms() -> int:
    return int(time.time() * 1000)


class Brokers:
    """The cluster of a run, or external brokers, which are never broken."""

    def __init__(self, servers: str, cluster: Cluster | None, disks: SmallDisks | None = None) -> None:
        self._servers = servers.split(",")
        self._cluster = cluster
        self._disks = disks
        self._down: int | None = None
        self._outage_began_ms = 0
        self.outages: list[tuple[int, int]] = []  # times without any broker, in milliseconds

    def _open_admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self._servers, bootstrap_timeout_ms=5_000)

    @property
    def single(self) -> bool:
        return self._cluster is not None and len(self._cluster.nodes) == 1

    def inject_fault(self, kind: FaultKind, node: int) -> None:
        assert self._cluster is not None, "external brokers can't be broken"
        assert not (kind is FaultKind.CRASH and self.single), "a single broker has no replica"
        inject = {
            FaultKind.CRASH: self._cluster.kill,
            FaultKind.RESTART: self._cluster.stop,
            FaultKind.HANG: self._cluster.pause,
        }
        if self._disks is not None:
            inject[FaultKind.FULL] = self._disks.fill
        self._outage_began_ms = _now_ms()
        inject[kind](node)
        self._down = node

    def repair(self, kind: FaultKind, node: int) -> None:
        assert self._cluster is not None
        if kind is FaultKind.HANG:
            self._cluster.resume(node)
        elif kind is FaultKind.FULL and self._disks is not None:
            # The broker has ended, or its folder is offline until a restart.
            self._cluster.kill(node)
            self._disks.free(node)
            self._cluster.start(node)
        else:
            self._cluster.start(node)
        self._down = None
        if self.single:
            self._cluster.wait_until_ready()
            self.outages.append((self._outage_began_ms, _now_ms()))

    def is_healthy(self) -> bool:
        """Whether every broker is up and all replicas are in sync."""
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

    def elect_preferred_leaders(self) -> bool:
        """Gives each broker its share of the partitions again. Returns whether that was possible."""
        try:
            with self._open_admin() as admin:
                admin.elect_leaders(PREFERRED, raise_errors=False)
        except TRANSIENT_ERRORS:
            return False
        return True

    def is_idle(self) -> bool:
        """Whether no transaction is open or about to be closed."""
        try:
            with self._open_admin() as admin:
                return not any(
                    transaction.state in OPEN_STATES
                    for transactions in admin.list_transactions().values()
                    for transaction in transactions
                )
        except TRANSIENT_ERRORS:
            return False

    def find_hanging_transactions(self, topics: Iterable[str], partitions: int) -> list[str]:
        """Returns partitions with an open transaction that its coordinator considers ended. No client can repair that."""
        hanging: list[str] = []
        try:
            with self._open_admin() as admin:
                states = {
                    transaction.producer_id: transaction.state
                    for transactions in admin.list_transactions().values()
                    for transaction in transactions
                }
                targets = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
                for partition, description in admin.describe_producers(targets).items():
                    hanging += [
                        f"{partition.topic}-{partition.partition} (producer {producer.producer_id})"
                        for producer in description.active_producers
                        if producer.current_transaction_start_offset >= 0
                        and states.get(producer.producer_id) not in OPEN_STATES
                    ]
        except TRANSIENT_ERRORS as error:
            hanging.append(f"unknown: {error!r}")
        return hanging
