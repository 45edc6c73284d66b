"""Queues the rebalance events of a consumer group, as the client reports them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from kafka import ConsumerRebalanceListener

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable

    from kafka import KafkaConsumer, TopicPartition


class RebalanceEvent(NamedTuple):
    """Partitions that the group has assigned to this worker, or revoked from it."""

    kind: Literal["assigned", "revoked"]
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class RebalanceListener:
    """Pauses assigned partitions and queues events. It runs on the client's I/O thread, where most calls are forbidden.

    Without the seek the client would ask for the committed offset, which is not available while the transaction of a dead
    worker is open.
    """

    consumer: KafkaConsumer
    events: deque[RebalanceEvent]

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        partitions = list(assigned)
        for partition in partitions:
            self.consumer.seek(partition, 0)
        self.consumer.pause(*partitions)
        self.events.append(RebalanceEvent("assigned", get_partition_numbers(partitions)))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.events.append(RebalanceEvent("revoked", get_partition_numbers(revoked)))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.on_partitions_revoked(lost)


ConsumerRebalanceListener.register(RebalanceListener)


def get_partition_numbers(partitions: Iterable[TopicPartition]) -> frozenset[int]:
    return frozenset(partition.partition for partition in partitions)
