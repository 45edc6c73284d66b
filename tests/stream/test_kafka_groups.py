"""Workers that share the partitions, come, go and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaAdminClient

from service.log.kafka.admin import (
    create_topics,
    describe_topics,
    find_member_id,
    remove_group_member,
)
from tests.stream.runner import CountingWorker, has_partitions
from tests.stream.steps import make_sentence_outputs, read_topic, wait_until

if TYPE_CHECKING:
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings
    from tests.stream.conftest import OpenStream


def test_two_workers_share_the_partitions_and_one_takes_over_from_the_other(
    opened: OpenStream, kafka_topics: Topics
) -> None:
    first, second = CountingWorker(opened(), kafka_topics), CountingWorker(opened(), kafka_topics)
    producer = opened()
    sent: list[bytes] = []

    def more(n: int) -> None:
        new = [b"%d" % (len(sent) + k) for k in range(n)]
        sent.extend(new)
        for k, value in enumerate(new):
            producer.append(make_sentence_outputs(kafka_topics.sentences, [value], partition=k % 2))

    def counted() -> int:
        return sum(max(one.counts.get(partition, 0) for one in (first, second)) for partition in (0, 1))

    more(4)
    first.start()
    wait_until(lambda: has_partitions(first, {0, 1}), "the first has both")
    wait_until(lambda: counted() == 4, "it has read what is there")
    second.start()
    wait_until(lambda: len(first.owned) == 1 and len(second.owned) == 1, "they share")
    assert first.owned != second.owned
    more(6)
    wait_until(lambda: counted() == 10, "both have read what is there")
    second.shut_down()
    wait_until(lambda: has_partitions(first, {0, 1}), "the first has both again")
    more(2)
    wait_until(lambda: counted() == 12, "the first has read the rest")
    first.shut_down()
    # Everything once, although it went through several hands.
    assert sorted(record.value or b"" for record in read_topic(producer, kafka_topics.review)) == sorted(sent)


def test_a_worker_with_a_fixed_identity_comes_back_to_its_partitions(
    opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics, group: str
) -> None:
    patient = kafka_settings.model_copy(update={"session_timeout_ms": 60_000})
    first, second = (CountingWorker(opened(name, settings=patient), kafka_topics) for name in ("one", "two"))
    first.start()
    second.start()
    wait_until(
        lambda: has_partitions(first, first.owned) and {len(first.owned), len(second.owned)} == {1}, "they share"
    )
    had, moved = set(second.owned), len(first.lost)
    second.shut_down()
    assert find_member_id(kafka_settings, group=group, worker_id="two") is not None
    third = CountingWorker(opened("two", settings=patient), kafka_topics)
    third.start()
    wait_until(lambda: has_partitions(third, had), "it has its partition again")
    third.shut_down()
    assert len(first.lost) == moved, "the other one was not disturbed"
    # Taken out of the group it is gone at once.
    assert remove_group_member(kafka_settings, group=group, worker_id="two")
    wait_until(lambda: has_partitions(first, {0, 1}), "the other has everything")
    first.shut_down()
    assert not remove_group_member(kafka_settings, group=group, worker_id="two")


def test_partitions_that_are_added_are_taken_up(
    opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    runner = CountingWorker(opened(), kafka_topics)
    runner.start()
    wait_until(lambda: has_partitions(runner, {0, 1}), "it has what there is")
    producer = opened()
    follower = producer.follow(kafka_topics.state)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.create_partitions({kafka_topics.sentences: 3})
    problems = {report.name: report.problems for report in describe_topics(kafka_settings, kafka_topics)}
    assert "it has 2 partitions and the input 3" in problems[kafka_topics.state][0]
    made = create_topics(kafka_settings, kafka_topics, partitions=3, replication=1, min_isr=1)
    assert made == [f"{kafka_topics.state} (grown to 3 partitions)"]
    wait_until(lambda: has_partitions(runner, {0, 1, 2}), "it has the new one too")
    producer.append(make_sentence_outputs(kafka_topics.sentences, [b"new"], partition=2))
    wait_until(lambda: runner.counts.get(2) == 1, "it reads the new one")
    seen: list[int] = []

    def step() -> bool:
        seen.extend(record.partition for record in follower.poll())
        return 2 in seen

    wait_until(step, "a follower of the grown topic sees its new partition")
    follower.close()
    runner.shut_down()
