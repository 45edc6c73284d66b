"""The end of a follower is renewed with one consumer, and not while a partition has no leader.

The second test has brokers of its own, because it kills one.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient

from service.log.kafka.admin import create_topics
from service.log.kafka.clients import create_consumer
from service.log.kafka.log import KafkaLog
from service.log.protocol import Output
from service.log.topics import Topics
from service.review.queue.queue import ReviewQueue
from service.settings.kafka import KafkaSettings
from tests.kafka.broker import Cluster
from tests.stream.steps import wait_until
from tests.support.review_queue import QueueHarness, make_assessment, make_decision_output, make_review_output

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from kafka import KafkaConsumer

PARTITIONS = 3


def test_the_end_is_renewed_with_one_more_consumer(
    kafka_log: KafkaLog, kafka_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[KafkaConsumer] = []

    def create_and_count(*arguments: Any, **options: Any) -> KafkaConsumer:
        created.append(create_consumer(*arguments, **options))
        return created[-1]

    monkeypatch.setattr("service.log.kafka.follower.create_consumer", create_and_count)
    follower = kafka_log.follow(kafka_topics.decisions)
    before = len(created)
    for number in range(4):
        kafka_log.append([Output(kafka_topics.decisions, b"k", b"%d" % number)])
        follower.renew_end()
        assert not follower.caught_up
        wait_until(lambda: not follower.poll() and follower.caught_up, "the follower has caught up")
    assert len(created) == before + 1
    follower.close()
    assert all(consumer._closed for consumer in created)


def find_leaders(settings: KafkaSettings, topic: str) -> dict[int, int]:
    """The broker of each partition."""
    with KafkaAdminClient(bootstrap_servers=settings.servers) as admin:
        (described,) = admin.describe_topics([topic])
    return {int(each["partition_index"]): int(each["leader_id"]) for each in described["partitions"]}


def test_the_queue_goes_on_while_a_partition_of_the_decisions_has_no_leader(tmp_path: Path) -> None:
    topics = Topics(prefix="leaderless.")
    with ExitStack() as exit_stack:
        cluster = exit_stack.enter_context(Cluster(tmp_path / "kafka", brokers=3))
        settings = KafkaSettings.for_servers(cluster.bootstrap_servers)
        create_topics(settings, topics, partitions=PARTITIONS, replication=1, min_isr=1)
        lost_broker = find_leaders(settings, topics.decisions)[0]
        led = next(number for number, node in find_leaders(settings, topics.review).items() if node != lost_broker)
        log = exit_stack.enter_context(closing(KafkaLog(settings)))
        harness = QueueHarness(log, ReviewQueue(tmp_path / "queue.sqlite"), topics)
        projector = exit_stack.enter_context(closing(harness)).projector
        log.append([replace(make_decision_output("a", topics=topics), partition=n) for n in range(PARTITIONS)])
        harness.catch_up()
        first = projector.request_present_end()
        wait_until(lambda: not projector.step() and projector.has_reached(first), "the end is reached")

        cluster.kill(lost_broker)
        second = projector.request_present_end()
        log.append([replace(make_review_output(make_assessment("a"), topics), partition=led)])

        def shows_the_item() -> bool:
            projector.step()
            return harness.queue.get_item("default", "a") is not None

        wait_until(shows_the_item, "the queue shows the item")
        assert not projector.has_reached(second)

        cluster.start(lost_broker)

        later: list[int] = []

        def reaches_the_end() -> bool:
            later.append(projector.request_present_end())  # again and again: one that fails is given up
            projector.step()
            return any(map(projector.has_reached, later))

        wait_until(reaches_the_end, "the partition has a leader again")
