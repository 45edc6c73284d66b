"""A worker's place in its group, on a real broker."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

from service.log.kafka.clients import create_producer, send
from service.log.kafka.group_consumer import GroupConsumer
from service.log.protocol import Output
from tests.stream.steps import wait_until

if TYPE_CHECKING:
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

N = 10


def test_a_partition_that_is_paused_with_fetched_records_continues(
    kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    topic = kafka_topics.sentences
    with contextlib.closing(create_producer(kafka_settings)) as producer:
        for number in range(2 * N):
            send(producer, Output(topic, None, b"%d" % number, partition=number % 2))
        producer.flush()
    with contextlib.closing(GroupConsumer(kafka_settings, topic, group=uuid.uuid4().hex, worker_id=None)) as member:
        read: dict[int, list[int]] = {0: [], 1: []}

        def reads(partition: int, n: int, *, max_records: int = 100) -> bool:
            for at, messages in member.poll(max_records=max_records, timeout=0.2).items():
                read[at] += [message.offset for message in messages]
            return len(read[partition]) >= n

        wait_until(
            lambda: reads(0, 0) and any(event.kind == "assigned" for event in member.drain_rebalances()),
            "the partitions are ours",
        )
        member.resume_from(0, 0)
        wait_until(lambda: reads(0, 1, max_records=1), "one record of many is handed out")
        member.pause(0)
        member.resume_from(1, 0)
        wait_until(lambda: reads(1, N), "the other partition is read meanwhile")
        member.resume_from(0, 1)
        wait_until(lambda: reads(0, N), "the rest is read")
    assert read == {0: list(range(N)), 1: list(range(N))}
