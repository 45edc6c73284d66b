"""Reads one record of a topic on Kafka."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from kafka import TopicPartition

from service.errors import StreamError
from service.log.kafka.client_errors import CLIENT_ERRORS, describe_error
from service.log.kafka.clients import create_consumer, to_records

if TYPE_CHECKING:
    from kafka import KafkaConsumer

    from service.log.protocol import Record
    from service.settings.kafka import KafkaSettings

TIMEOUT_S: Final = 10.0
POLL_TIMEOUT_MS: Final = 200


def read_record(settings: KafkaSettings, topic: str, partition: int, offset: int) -> Record | None:
    """The record at this position; None if there is none, or not any more."""
    try:
        consumer = create_consumer(settings)
        try:
            return _read(consumer, TopicPartition(topic, partition), offset)
        finally:
            consumer.close(autocommit=False)
    except CLIENT_ERRORS as error:
        raise StreamError(f"{topic} can't be read: {describe_error(error)}") from error


def _read(consumer: KafkaConsumer, partition: TopicPartition, offset: int) -> Record | None:
    if partition.partition not in (consumer.partitions_for_topic(partition.topic) or ()):
        return None
    consumer.assign([partition])
    first, end = consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]
    if not first <= offset < end:
        return None
    consumer.seek(partition, offset)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for messages in consumer.poll(timeout_ms=POLL_TIMEOUT_MS, max_records=1).values():
            records = to_records(messages)
            if records:
                return records[0] if records[0].offset == offset else None
        if consumer.position(partition) > offset:  # the record of a transaction that was aborted, or a control record
            return None
    raise StreamError(f"{partition.topic} can't be read: no answer within {TIMEOUT_S:g} s")
