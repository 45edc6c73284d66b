"""Workers that share partitions, join, leave and return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaAdminClient

from service.log.kafka.admin import (
    create_topics,
    describe_topics,
    find_member_id,
    remove_group_member,
)
from service.log.kafka.worker.reachability import Unreachable
from tests.stream.runner import CountingWorker, has_partitions
from tests.stream.steps import make_sentence_outputs, read_topic, wait_until

if TYPE_CHECKING:
    import pytest

    from service.log.kafka.log import KafkaLog
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings
    from tests.stream.conftest import OpenSession


def test_two_workers_share_the_partitions_and_one_takes_over_from_the_other(
    open_session: OpenSession, kafka_log: KafkaLog, kafka_topics: Topics
) -> None:
    first, second = CountingWorker(open_session(), kafka_topics), CountingWorker(open_session(), kafka_topics)
    sent: list[bytes] = []

    def send(count: int) -> None:
        values = [b"%d" % (len(sent) + number) for number in range(count)]
        sent.extend(values)
        for number, value in enumerate(values):
            kafka_log.append(make_sentence_outputs(kafka_topics.sentences, [value], partition=number % 2))

    def count_read() -> int:
        return sum(max(worker.counts.get(partition, 0) for worker in (first, second)) for partition in (0, 1))

    send(4)
    first.start()
    wait_until(lambda: has_partitions(first, {0, 1}), "the first worker has both partitions")
    wait_until(lambda: count_read() == 4, "it has read all records")
    second.start()
    wait_until(lambda: len(first.assigned) == 1 and len(second.assigned) == 1, "they share the partitions")
    assert first.assigned != second.assigned
    send(6)
    wait_until(lambda: count_read() == 10, "both have read all records")
    second.shut_down()
    wait_until(lambda: has_partitions(first, {0, 1}), "the first worker has both partitions again")
    send(2)
    wait_until(lambda: count_read() == 12, "the first has read the rest")
    first.shut_down()
    # Every record is there once, although partitions moved.
    assert sorted(record.value or b"" for record in read_topic(kafka_log, kafka_topics.review)) == sorted(sent)


def test_a_worker_with_an_id_returns_to_its_partitions(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics, group: str
) -> None:
    long_session = kafka_settings.model_copy(update={"session_timeout_ms": 60_000})
    first, second = (CountingWorker(open_session(name, settings=long_session), kafka_topics) for name in ("one", "two"))
    first.start()
    second.start()
    wait_until(
        lambda: has_partitions(first, first.assigned) and {len(first.assigned), len(second.assigned)} == {1},
        "they share the partitions",
    )
    partitions, revoked = set(second.assigned), len(first.revoked)
    second.shut_down()
    assert find_member_id(kafka_settings, group=group, worker_id="two") is not None
    third = CountingWorker(open_session("two", settings=long_session), kafka_topics)
    third.start()
    wait_until(lambda: has_partitions(third, partitions), "it has its partition again")
    third.shut_down()
    assert len(first.revoked) == revoked, "the other worker was not affected"
    # A worker that is removed from the group gives up its partitions at once.
    assert remove_group_member(kafka_settings, group=group, worker_id="two")
    wait_until(lambda: has_partitions(first, {0, 1}), "the other worker has both partitions")
    first.shut_down()
    assert not remove_group_member(kafka_settings, group=group, worker_id="two")


def test_partitions_that_are_added_are_assigned(
    open_session: OpenSession, kafka_log: KafkaLog, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    worker = CountingWorker(open_session(), kafka_topics)
    worker.start()
    wait_until(lambda: has_partitions(worker, {0, 1}), "it has both partitions")
    follower = kafka_log.follow(kafka_topics.state)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.create_partitions({kafka_topics.sentences: 3})
    problems = {report.name: report.problems for report in describe_topics(kafka_settings, kafka_topics)}
    assert "it has 2 partitions and the input 3" in problems[kafka_topics.state][0]
    created = create_topics(kafka_settings, kafka_topics, partitions=3, replication=1, min_isr=1)
    assert created == [f"{name} (grown to 3 partitions)" for name in (kafka_topics.waiting, kafka_topics.state)]
    wait_until(lambda: has_partitions(worker, {0, 1, 2}), "it has the new partition too")
    kafka_log.append(make_sentence_outputs(kafka_topics.sentences, [b"new"], partition=2))
    wait_until(lambda: worker.counts.get(2) == 1, "it reads the new partition")
    partitions: list[int] = []

    def step() -> bool:
        partitions.extend(record.partition for record in follower.poll())
        return 2 in partitions

    wait_until(step, "a follower of the topic reads its new partition")
    follower.close()
    worker.shut_down()


class FakeProbe:
    """Says what the test says about the brokers."""

    def __init__(self) -> None:
        self.unreachable: Unreachable | None = None

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_worker_that_cannot_reach_a_broker_leaves_its_partitions_to_another_one(
    open_session: OpenSession, kafka_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_session, probe = open_session("cut"), FakeProbe()
    monkeypatch.setattr(cut_session._giving_way, "_probe", probe)
    cut, other = CountingWorker(cut_session, kafka_topics), CountingWorker(open_session("other"), kafka_topics)
    cut.start()
    wait_until(lambda: has_partitions(cut, {0, 1}), "the first worker has both partitions")
    probe.unreachable = Unreachable(1, "broker:9092")
    wait_until(lambda: any("no other worker" in warning for warning in cut_session.warnings), "it is alone, and stays")
    assert has_partitions(cut, {0, 1})
    other.start()
    wait_until(lambda: has_partitions(other, {0, 1}), "the other worker has both partitions")
    assert not cut.assigned
    assert any("broker:9092" in warning for warning in cut_session.warnings)
    probe.unreachable = None
    wait_until(lambda: len(cut.assigned) == 1 and len(other.assigned) == 1, "they share the partitions")
    assert cut_session.warnings == ()
    for worker in (cut, other):
        worker.shut_down()
