"""The follower over a scripted client. tests/stream runs it against a real broker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from service.log.kafka import follower
from service.log.kafka.follower import KafkaFollower
from service.settings.kafka import KafkaSettings

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class LeaderlessConsumer:
    """Two partitions of one message each. The second has lost its leader: it can't be read, and has no end any more."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] | None = {FIRST: 1, SECOND: 1}
        self.positions = {FIRST: 0, SECOND: 0}
        self.partitions: list[TopicPartition] = []
        self.closed = False

    def assignment(self) -> set[TopicPartition]:
        return set(self.partitions)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.partitions = partitions

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {0, 1}

    def seek_to_beginning(self, partition: TopicPartition) -> None:
        self.positions[partition] = 0

    def end_offsets(self, partitions: list[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        if self.ends is None:
            raise KafkaTimeoutError("no leader")
        return {partition: self.ends[partition] for partition in partitions}

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        return self.positions[partition]

    def poll(self, *, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[SimpleNamespace]]:
        if self.positions[FIRST]:
            return {}
        self.positions[FIRST] = 1
        return {
            FIRST: [SimpleNamespace(topic="t", partition=0, offset=0, key=b"k", value=b"v", headers=(), timestamp=0)]
        }

    def close(self, *, autocommit: bool) -> None:
        self.closed = True


def test_a_partition_that_loses_its_leader_does_not_hold_back_records_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = LeaderlessConsumer()
    monkeypatch.setattr(follower, "create_consumer", lambda *_, **__: consumer)
    topic = KafkaFollower(KafkaSettings.for_servers("a:1"), "t")
    consumer.closed, consumer.ends = False, None
    assert [record.value for record in topic.poll()] == [b"v"]
    assert not consumer.closed
    assert not topic.caught_up
    assert not topic.waits_for_transaction


@pytest.mark.parametrize(("is_renewed", "waits"), [(False, 1.0), (True, 10.0)])
def test_an_end_that_can_not_be_fetched_is_asked_for_again(
    *, is_renewed: bool, waits: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon while a worker starts, which can't join its group before; seldom while a follower has other things to read."""
    consumer, now, asked = LeaderlessConsumer(), [100.0], list[float]()

    def fail(*_: object, **__: object) -> None:
        asked.append(now[0])
        raise KafkaTimeoutError("no leader")

    monkeypatch.setattr(follower, "create_consumer", lambda *_, **__: consumer)
    monkeypatch.setattr("service.log.kafka.follower.time.monotonic", lambda: now[0])
    topic = KafkaFollower(KafkaSettings.for_servers("a:1"), "t")
    if is_renewed:
        topic.renew_end()
    monkeypatch.setattr(consumer, "end_offsets", fail)
    for tenths in range(150):
        now[0] = 100.0 + tenths / 10
        topic.poll()
    assert asked[:2] == [100.0, 100.0 + waits]
