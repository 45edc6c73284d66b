"""Which offsets of a topic there are to read."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.errors import StreamError
from service.stream.kafka_client import CLIENT_ERRORS, reader

if TYPE_CHECKING:
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
