"""Which offsets of a topic there are to read, and which messages make up a batch."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.errors import StreamError
from service.log.kafka.clients import CLIENT_ERRORS, create_consumer
from service.log.kafka.library_fixes.patches import describe_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka.consumer.fetcher import ConsumerRecord

    from service.settings.kafka import KafkaSettings


def fetch_offset_ranges(settings: KafkaSettings, topic: str) -> dict[int, tuple[int, int]]:
    """First and next offset by partition; nothing where there is no such topic."""
    try:
        with closing(create_consumer(settings)) as consumer:
            places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    except CLIENT_ERRORS as error:
        raise StreamError(f"Kafka at {settings.bootstrap_servers}: {describe_error(error)}") from error
    return {place.partition: (starts[place], ends[place]) for place in places}


def take_fairly(
    polled: Mapping[int, Sequence[ConsumerRecord]], max_bytes: int, *, last_served: int = -1
) -> tuple[dict[int, Sequence[ConsumerRecord]], dict[int, int]]:
    """As many of the messages as fit, the first in any case; and the offset to go back to where some did not.

    Partitions take turns, message by message, beginning after `last`: one with a backlog of long messages must not
    keep the others waiting until it is empty.
    """
    order = sorted(polled, key=lambda partition: (partition <= last_served, partition))
    kept = dict.fromkeys(order, 0)
    turns = deque(order)
    size = 0
    while turns:
        partition = turns.popleft()
        size += len(polled[partition][kept[partition]].value or b"")
        if size > max_bytes and any(kept.values()):
            break
        kept[partition] += 1
        if kept[partition] < len(polled[partition]):
            turns.append(partition)
    taken = {partition: polled[partition][:n] for partition, n in kept.items() if n}
    left = {partition: polled[partition][n].offset for partition, n in kept.items() if n < len(polled[partition])}
    return taken, left
