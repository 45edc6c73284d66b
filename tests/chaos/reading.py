"""Reads topics with a plain consumer, independent of the service."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka.consumer.fetcher import ConsumerRecord

READ_TIMEOUT_S = 300.0
TRANSIENT_ERRORS = (
    KafkaError,
    OSError,
    LookupError,
    RuntimeError,
    AttributeError,
    ValueError,
    TypeError,
    AssertionError,
)


@dataclass(frozen=True, slots=True)
class ConsumedMessage:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int

    @property
    def partition_offset(self) -> tuple[int, int]:
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class TopicDump:
    """All messages of a topic, in the order of each partition, and the ends of its partitions."""

    messages: tuple[ConsumedMessage, ...]
    end_offsets: Mapping[int, int]

    def compact(self) -> dict[tuple[int, bytes | None], bytes | None]:
        """The last value by partition and key, as compaction leaves it."""
        return {(message.partition, message.key): message.value for message in self.messages}


def open_consumer(servers: str, *, committed: bool = True) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=servers.split(","),
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        reconnect_backoff_max_ms=1_000,
        metrics_enabled=False,
    )


def to_messages(records: Iterable[ConsumerRecord]) -> list[ConsumedMessage]:
    return [
        ConsumedMessage(
            record.topic,
            record.partition,
            record.offset,
            record.key,
            record.value,
            tuple((name, value) for name, value in record.headers),
            record.timestamp,
        )
        for record in records
    ]


def read_topic(servers: str, topic: str, *, committed: bool = True) -> TopicDump:
    """Reads to the present end of the topic. Waits for open transactions."""
    deadline = time.monotonic() + READ_TIMEOUT_S
    while True:
        try:
            return _read_to_end(servers, topic, committed=committed, deadline=deadline)
        except TRANSIENT_ERRORS:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def _read_to_end(servers: str, topic: str, *, committed: bool, deadline: float) -> TopicDump:
    with open_consumer(servers, committed=False) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        ends = {partition.partition: int(end) for partition, end in consumer.end_offsets(partitions).items()}
    messages: list[ConsumedMessage] = []
    with open_consumer(servers, committed=committed) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        while any(consumer.position(partition) < ends[partition.partition] for partition in partitions):
            for records in consumer.poll(timeout_ms=500).values():
                messages += to_messages(records)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} could not be read to its end in {READ_TIMEOUT_S:.0f} s")
    return TopicDump(tuple(messages), ends)
