"""The group consumer over a scripted client. tests/stream runs it against a real broker."""

from __future__ import annotations

from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import CorruptRecordError, FencedInstanceIdError, OffsetOutOfRangeError, TopicAuthorizationFailedError
from kafka.future import Future
from kafka.structs import ConsumerGroupMetadata, MemberState

from service.errors import StreamError
from service.log.kafka.worker import group_consumer
from service.log.kafka.worker.group_consumer import GroupConsumer, OffsetLostError
from service.log.kafka.worker.rebalance_listener import RebalanceEvent, RebalanceListener
from service.log.protocol import FencedError
from service.settings.kafka import KafkaSettings

if TYPE_CHECKING:
    from collections.abc import Callable

STABLE, JOINING = MemberState.STABLE, MemberState.REBALANCING
TOPIC_PARTITION = TopicPartition("t", 3)


class Consumer:
    """Changes its state with each poll and returns the scripted results."""

    def __init__(self, *results: object, states: tuple[str, ...] = (STABLE,)) -> None:
        self.results = list(results)
        self.states = list(states)
        self.rejoins = 0
        self.closed = False
        self.calls: list[tuple[object, ...]] = []
        self._coordinator = SimpleNamespace(request_rejoin=self._rejoin)
        self._cluster = SimpleNamespace()

    def _rejoin(self) -> None:
        self.rejoins += 1

    def poll(self, *, timeout_ms: int, max_records: int) -> object:
        if len(self.states) > 1:
            self.states.pop(0)
        result = self.results.pop(0) if self.results else {}
        if isinstance(result, Exception):
            raise result
        return result

    def group_metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", 1, "me", "one", self.states[0])

    def assignment(self) -> set[TopicPartition]:
        return {TOPIC_PARTITION}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.calls.append(("seek", partition, offset))

    def pause(self, *partitions: TopicPartition) -> None:
        self.calls.append(("pause", *partitions))

    def close(self, *, autocommit: bool, timeout_ms: int) -> None:
        assert not autocommit
        self.closed = True


def make_group_consumer(consumer: Consumer, worker_id: str | None = "one") -> GroupConsumer:
    group = GroupConsumer(KafkaSettings.for_servers("a:1"), "t", group="g", worker_id=worker_id)
    group._consumer = consumer
    return group


def test_a_poll_continues_a_join() -> None:
    consumer = Consumer({}, {}, {TOPIC_PARTITION: ["message"]}, states=("", JOINING, JOINING, STABLE))
    assert make_group_consumer(consumer).poll(max_records=1, timeout=0.0) == {3: ["message"]}
    assert consumer.rejoins == 2


def test_the_listener_pauses_assigned_partitions_and_queues_events() -> None:
    group = make_group_consumer(Consumer())
    consumer = Consumer()
    listener = RebalanceListener(consumer, group._events)
    assert isinstance(listener, ConsumerRebalanceListener)
    listener.on_partitions_assigned({TOPIC_PARTITION})
    assert consumer.calls == [("seek", TOPIC_PARTITION, 0), ("pause", TOPIC_PARTITION)]
    listener.on_partitions_revoked({TOPIC_PARTITION})
    listener.on_partitions_lost(set())
    assert group.rebalance_pending
    assert group.drain_rebalances() == [
        RebalanceEvent("assigned", frozenset({3})),
        RebalanceEvent("revoked", frozenset({3})),
        RebalanceEvent("revoked", frozenset()),
    ]
    assert not group.rebalance_pending


@pytest.mark.parametrize(
    ("error", "raised", "replaced"),
    [
        (FencedInstanceIdError(), FencedError, False),
        (OffsetOutOfRangeError({TOPIC_PARTITION: 1}), OffsetLostError, False),
        (TopicAuthorizationFailedError({"t"}), StreamError, True),
    ],
)
def test_errors_are_translated(error: Exception, raised: type[Exception], replaced: bool) -> None:
    consumer = Consumer(error)
    group = make_group_consumer(consumer)
    with pytest.raises(raised):
        group.poll(max_records=1, timeout=0.0)
    assert consumer.closed is replaced


def test_a_consumer_that_failed_is_replaced_and_its_partitions_are_revoked() -> None:
    consumer = Consumer(CorruptRecordError())
    group = make_group_consumer(consumer)
    assert group.poll(max_records=1, timeout=0.0) == {}
    assert consumer.closed
    assert "CorruptRecordError" in group.warning
    assert group.drain_rebalances() == [RebalanceEvent("revoked", frozenset({3}))]
    group._consumer = Consumer({TOPIC_PARTITION: ["again"]})
    assert group.poll(max_records=1, timeout=0.0) == {3: ["again"]}
    assert group.warning == ""


def test_a_batch_with_a_wrong_checksum_is_named_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is read again and again, since another replica may have it intact. Polls in between succeed."""
    now = [1_000.0]
    monkeypatch.setattr(group_consumer, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None))
    problems = [
        f"Record batch for partition {TOPIC_PARTITION} at offset {offset} failed crc check" for offset in (17, 90)
    ]

    def poll_damaged(problem: str) -> None:
        group._consumer = Consumer({TOPIC_PARTITION: ["message"]}, CorruptRecordError(problem))
        assert group.poll(max_records=1, timeout=0.0) == {3: ["message"]}
        assert group.poll(max_records=1, timeout=0.0) == {}
        assert problem in group.warning

    def count_lines() -> list[int]:
        lines = [record.message for record in caplog.records if record.levelname == "ERROR"]
        assert all(line.startswith("a record batch of t is damaged, and its partition stands still") for line in lines)
        return [sum(problem in line for line in lines) for problem in problems]

    group = make_group_consumer(Consumer())
    for _ in range(3):
        for problem in problems:  # two partitions in turn
            poll_damaged(problem)
    assert count_lines() == [1, 1]
    now[0] += group_consumer.DAMAGE_LOG_INTERVAL_S
    for _ in range(3):
        poll_damaged(problems[0])
    assert count_lines() == [2, 1]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_worker_that_was_suspended_checks_its_id_before_it_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    group = make_group_consumer(Consumer({TOPIC_PARTITION: ["message"]}))
    group.poll(max_records=1, timeout=0.0)

    def set_holder(find: Callable[[], str | None]) -> None:
        monkeypatch.setattr(group_consumer, "find_member_id", lambda *_, **__: find())
        group._polled_at -= 3600

    def fail() -> str | None:
        raise StreamError("no broker answers")

    set_holder(fail)
    assert group.poll(max_records=1, timeout=0.0) == {}
    assert "no broker answers" in group.warning
    for member_id in ("me", None):
        group._consumer = Consumer({TOPIC_PARTITION: ["message"]})
        set_holder(lambda member_id=member_id: member_id)  # type: ignore[misc]
        assert group.poll(max_records=1, timeout=0.0) == {3: ["message"]}
    set_holder(lambda: "another member")
    with pytest.raises(FencedError, match="another process uses the worker id one"):
        group.poll(max_records=1, timeout=0.0)


def test_only_the_holder_of_the_worker_id_may_use_its_transactional_id(monkeypatch: pytest.MonkeyPatch) -> None:
    group = make_group_consumer(Consumer())
    for member_id, allowed in (("me", True), (None, False)):
        monkeypatch.setattr(group_consumer, "find_member_id", lambda *_, member_id=member_id, **__: member_id)
        assert group.can_claim_id() is allowed
    monkeypatch.setattr(group_consumer, "find_member_id", lambda *_, **__: "another member")
    with pytest.raises(FencedError):
        group.can_claim_id()
    assert not make_group_consumer(Consumer(states=(JOINING,))).can_claim_id()
    assert make_group_consumer(Consumer(states=(JOINING,)), worker_id=None).can_claim_id(), (
        "a random id belongs to no other worker"
    )


def test_the_leaders_of_partitions_are_asked_for_again() -> None:
    consumer, answer = Consumer(), Future()
    consumer._cluster = SimpleNamespace(request_update=lambda: answer)
    waiting = Thread(target=make_group_consumer(consumer).refresh_leaders)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive(), "a partition must not be resumed before the answer"
    answer.success(None)
    waiting.join(10)
    assert not waiting.is_alive()


def test_leaders_that_nobody_names_do_not_stop_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_consumer, "LEADERS_TIMEOUT_S", 0.01)
    consumer = Consumer()
    consumer._cluster = SimpleNamespace(request_update=Future)
    make_group_consumer(consumer).refresh_leaders()


def test_leaders_that_nobody_names_are_waited_for_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that are restored one by one would otherwise hold up those that are read, each for as long."""
    monkeypatch.setattr(group_consumer, "LEADERS_TIMEOUT_S", 0.01)
    now = [1_000.0]
    monkeypatch.setattr(group_consumer, "time", SimpleNamespace(monotonic=lambda: now[0]))
    consumer, answers = Consumer(), [Future(), Future(), Future(), Future()]
    asked: list[Future] = []

    def request_update() -> Future:
        asked.append(answers[len(asked)])
        return asked[-1]

    consumer._cluster = SimpleNamespace(request_update=request_update)
    group = make_group_consumer(consumer)
    for _ in range(3):
        group.refresh_leaders()
    assert len(asked) == 1
    now[0] += group_consumer.LEADERS_RETRY_INTERVAL_S
    for answer in answers:
        answer.success(None)
    for _ in range(3):
        group.refresh_leaders()
    assert len(asked) == 4, "brokers that answer are asked each time, which takes milliseconds"
