"""Which offsets of a topic there are to read, and which messages make up a batch."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.errors import StreamError
from service.stream.kafka_client import CLIENT_ERRORS, reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka.consumer.fetcher import ConsumerRecord

    from service.stream.kafka_settings import KafkaSettings


def offset_ranges(settings: KafkaSettings, topic: str) -> dict[int, tuple[int, int]]:
    """First and next offset by partition; nothing where there is no such topic."""
    try:
        with closing(reader(settings)) as consumer:
            places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    except CLIENT_ERRORS as error:
        raise StreamError(f"Kafka at {settings.bootstrap_servers}: {type(error).__name__}: {error}") from error
    return {place.partition: (starts[place], ends[place]) for place in places}


def within(
    found: Mapping[int, Sequence[ConsumerRecord]], max_bytes: int
) -> tuple[dict[int, Sequence[ConsumerRecord]], dict[int, int]]:
    """As many of the messages as fit, the first in any case; and the offset to go back to where some did not."""
    taken: dict[int, Sequence[ConsumerRecord]] = {}
    left: dict[int, int] = {}
    size = 0
    for partition, messages in found.items():
        kept = 0
        for message in messages:
            size += len(message.value or b"")
            if size > max_bytes and (taken or kept):
                left[partition] = message.offset
                break
            kept += 1
        if kept:
            taken[partition] = messages[:kept]
    return taken, left
