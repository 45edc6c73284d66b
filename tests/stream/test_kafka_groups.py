"""Workers that share the partitions, come, go and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaAdminClient

from service.log.kafka.admin import (
    create_topics,
    describe_topics,
    leave,
    member_id,
)
from tests.stream.runner import Runner, owns
from tests.stream.steps import everything, sentences, until

if TYPE_CHECKING:
    from service.log.kafka.settings import KafkaSettings
    from service.log.topics import Topics
    from tests.stream.conftest import Open


def test_two_workers_share_the_partitions_and_one_takes_over_from_the_other(opened: Open, kafka_topics: Topics) -> None:
    first, second = Runner(opened(), kafka_topics), Runner(opened(), kafka_topics)
    producer = opened()
    sent: list[bytes] = []

    def more(n: int) -> None:
        new = [b"%d" % (len(sent) + k) for k in range(n)]
        sent.extend(new)
        for k, value in enumerate(new):
            producer.append(sentences(kafka_topics.sentences, [value], partition=k % 2))

    def counted() -> int:
        return sum(max(one.counts.get(partition, 0) for one in (first, second)) for partition in (0, 1))

    more(4)
    first.start()
    until(lambda: owns(first, {0, 1}), "the first has both")
    until(lambda: counted() == 4, "it has read what is there")
    second.start()
    until(lambda: len(first.owned) == 1 and len(second.owned) == 1, "they share")
    assert first.owned != second.owned
    more(6)
    until(lambda: counted() == 10, "both have read what is there")
    second.end()
    until(lambda: owns(first, {0, 1}), "the first has both again")
    more(2)
    until(lambda: counted() == 12, "the first has read the rest")
    first.end()
    # Everything once, although it went through several hands.
    assert sorted(record.value or b"" for record in everything(producer, kafka_topics.review)) == sorted(sent)


def test_a_worker_with_a_fixed_identity_comes_back_to_its_partitions(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics, group: str
) -> None:
    patient = kafka_settings.model_copy(update={"session_timeout_ms": 60_000})
    first, second = (Runner(opened(name, settings=patient), kafka_topics) for name in ("one", "two"))
    first.start()
    second.start()
    until(lambda: owns(first, first.owned) and {len(first.owned), len(second.owned)} == {1}, "they share")
    had, moved = set(second.owned), len(first.lost)
    second.end()
    assert member_id(kafka_settings, group=group, worker_id="two") is not None
    third = Runner(opened("two", settings=patient), kafka_topics)
    third.start()
    until(lambda: owns(third, had), "it has its partition again")
    third.end()
    assert len(first.lost) == moved, "the other one was not disturbed"
    # Taken out of the group it is gone at once.
    assert leave(kafka_settings, group=group, worker_id="two")
    until(lambda: owns(first, {0, 1}), "the other has everything")
    first.end()
    assert not leave(kafka_settings, group=group, worker_id="two")


def test_partitions_that_are_added_are_taken_up(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    runner = Runner(opened(), kafka_topics)
    runner.start()
    until(lambda: owns(runner, {0, 1}), "it has what there is")
    producer = opened()
    follower = producer.follow(kafka_topics.state)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.create_partitions({kafka_topics.sentences: 3})
    problems = {report.name: report.problems for report in describe_topics(kafka_settings, kafka_topics)}
    assert "it has 2 partitions and the input 3" in problems[kafka_topics.state][0]
    made = create_topics(kafka_settings, kafka_topics, partitions=3, replication=1, min_isr=1)
    assert made == [f"{kafka_topics.state} (grown to 3 partitions)"]
    until(lambda: owns(runner, {0, 1, 2}), "it has the new one too")
    producer.append(sentences(kafka_topics.sentences, [b"new"], partition=2))
    until(lambda: runner.counts.get(2) == 1, "it reads the new one")
    seen: list[int] = []

    def step() -> bool:
        seen.extend(record.partition for record in follower.poll())
        return 2 in seen

    until(step, "a follower of the grown topic sees its new partition")
    follower.close()
    runner.end()
