"""The consumer of a group, on a real broker."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

from service.log.kafka.clients import create_producer, send
from service.log.kafka.worker.group_consumer import GroupConsumer
from service.log.protocol import Output
from tests.stream.steps import wait_until

if TYPE_CHECKING:
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

RECORDS = 10


def test_a_partition_that_is_paused_with_fetched_records_continues(
    kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    topic = kafka_topics.sentences
    with contextlib.closing(create_producer(kafka_settings)) as producer:
        for number in range(2 * RECORDS):
            send(producer, Output(topic, None, b"%d" % number, partition=number % 2))
        producer.flush()
    with contextlib.closing(GroupConsumer(kafka_settings, topic, group=uuid.uuid4().hex, worker_id=None)) as consumer:
        offsets: dict[int, list[int]] = {0: [], 1: []}

        def has_read(partition: int, count: int, *, max_records: int = 100) -> bool:
            for number, messages in consumer.poll(max_records=max_records, timeout=0.2).items():
                offsets[number] += [message.offset for message in messages]
            return len(offsets[partition]) >= count

        wait_until(
            lambda: has_read(0, 0) and any(event.kind == "assigned" for event in consumer.drain_rebalances()),
            "the partitions are assigned",
        )
        consumer.resume_from(0, 0)
        wait_until(lambda: has_read(0, 1, max_records=1), "one of many fetched records is returned")
        consumer.pause(0)
        consumer.resume_from(1, 0)
        wait_until(lambda: has_read(1, RECORDS), "the other partition is read in between")
        consumer.resume_from(0, 1)
        wait_until(lambda: has_read(0, RECORDS), "the rest is read")
    assert offsets == {0: list(range(RECORDS)), 1: list(range(RECORDS))}
