"""Topics read back by a plain consumer that knows nothing of the service: what anybody else would see."""

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
    """Everything that a topic holds, in the order of each partition, and where its partitions end."""

    messages: tuple[ConsumedMessage, ...]
    end_offsets: Mapping[int, int]

    def compact(self) -> dict[tuple[int, bytes | None], bytes | None]:
        """By partition and key, as compaction would leave it."""
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
    """Up to the end that the topic has now, open transactions included: those are waited for."""
    until = time.monotonic() + READ_TIMEOUT_S
    while True:
        try:
            return _read_to_end(servers, topic, committed=committed, until=until)
        except TRANSIENT_ERRORS:
            if time.monotonic() > until:
                raise
            time.sleep(1)


def _read_to_end(servers: str, topic: str, *, committed: bool, until: float) -> TopicDump:
    with open_consumer(servers, committed=False) as looker:
        places = [TopicPartition(topic, number) for number in looker.partitions_for_topic(topic) or ()]
        ends = {place.partition: int(end) for place, end in looker.end_offsets(places).items()}
    found: list[ConsumedMessage] = []
    with open_consumer(servers, committed=committed) as reader:
        reader.assign(places)
        reader.seek_to_beginning(*places)
        while any(reader.position(place) < ends[place.partition] for place in places):
            for records in reader.poll(timeout_ms=500).values():
                found += to_messages(records)
            if time.monotonic() > until:
                raise TimeoutError(f"{topic} could not be read to its end in {READ_TIMEOUT_S:.0f} s")
    return TopicDump(tuple(found), ends)
