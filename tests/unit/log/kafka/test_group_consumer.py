"""A member of a group whose consumer does what the test says; the real one is met in tests/stream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import CorruptRecordError, FencedInstanceIdError, OffsetOutOfRangeError, TopicAuthorizationFailedError
from kafka.structs import ConsumerGroupMetadata, MemberState

from service.errors import StreamError
from service.log.kafka import group_consumer as kafka_member
from service.log.kafka.group_consumer import GroupConsumer, OffsetLostError, RebalanceEvent, RebalanceListener
from service.log.protocol import FencedError
from service.settings.kafka import KafkaSettings

if TYPE_CHECKING:
    from collections.abc import Callable

STABLE, JOINING = MemberState.STABLE, MemberState.REBALANCING
PLACE = TopicPartition("t", 3)


class Consumer:
    """Goes from state to state with each poll, and answers what it is given."""

    def __init__(self, *answers: object, states: tuple[str, ...] = (STABLE,)) -> None:
        self.answers = list(answers)
        self.states = list(states)
        self.rejoins = 0
        self.closed = False
        self.moves: list[tuple[object, ...]] = []
        self._coordinator = SimpleNamespace(request_rejoin=self._rejoin)

    def _rejoin(self) -> None:
        self.rejoins += 1

    def poll(self, *, timeout_ms: int, max_records: int) -> object:
        if len(self.states) > 1:
            self.states.pop(0)
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer

    def group_metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", 1, "me", "one", self.states[0])

    def assignment(self) -> set[TopicPartition]:
        return {PLACE}

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.moves.append(("seek", place, offset))

    def pause(self, *places: TopicPartition) -> None:
        self.moves.append(("pause", *places))

    def close(self, *, autocommit: bool, timeout_ms: int) -> None:
        assert not autocommit
        self.closed = True


def member_with(consumer: Consumer, worker_id: str | None = "one") -> GroupConsumer:
    made = GroupConsumer(KafkaSettings.for_servers("a:1"), "t", group="g", worker_id=worker_id)
    made._consumer = consumer
    return made


def test_a_join_that_is_under_way_is_seen_through() -> None:
    consumer = Consumer({}, {}, {PLACE: ["message"]}, states=("", JOINING, JOINING, STABLE))
    assert member_with(consumer).poll(max_records=1, timeout=0.0) == {3: ["message"]}
    assert consumer.rejoins == 2


def test_the_listener_stops_what_came_and_notes_it() -> None:
    made = member_with(Consumer())
    consumer = Consumer()
    listener = RebalanceListener(consumer, made._events)
    assert isinstance(listener, ConsumerRebalanceListener)
    listener.on_partitions_assigned({PLACE})
    assert consumer.moves == [("seek", PLACE, 0), ("pause", PLACE)]
    listener.on_partitions_revoked({PLACE})
    listener.on_partitions_lost(set())
    assert made.rebalance_pending
    assert made.drain_rebalances() == [
        RebalanceEvent("assigned", frozenset({3})),
        RebalanceEvent("revoked", frozenset({3})),
        RebalanceEvent("revoked", frozenset()),
    ]
    assert not made.rebalance_pending


@pytest.mark.parametrize(
    ("error", "raised", "replaced"),
    [
        (FencedInstanceIdError(), FencedError, False),
        (OffsetOutOfRangeError({PLACE: 1}), OffsetLostError, False),
        (TopicAuthorizationFailedError({"t"}), StreamError, True),
    ],
)
def test_errors_have_their_fate(error: Exception, raised: type[Exception], replaced: bool) -> None:
    consumer = Consumer(error)
    made = member_with(consumer)
    with pytest.raises(raised):
        made.poll(max_records=1, timeout=0.0)
    assert consumer.closed is replaced


def test_a_consumer_that_broke_is_replaced_and_everything_it_had_is_gone() -> None:
    consumer = Consumer(CorruptRecordError())
    made = member_with(consumer)
    assert made.poll(max_records=1, timeout=0.0) == {}
    assert consumer.closed
    assert "CorruptRecordError" in made.warning
    assert made.drain_rebalances() == [RebalanceEvent("revoked", frozenset({3}))]
    made._consumer = Consumer({PLACE: ["again"]})
    assert made.poll(max_records=1, timeout=0.0) == {3: ["again"]}
    assert made.warning == ""


def test_after_a_long_sleep_a_fixed_identity_is_looked_up_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    made = member_with(Consumer({PLACE: ["message"]}))
    made.poll(max_records=1, timeout=0.0)

    def holder(answer: Callable[[], str | None]) -> None:
        monkeypatch.setattr(kafka_member, "find_member_id", lambda *_, **__: answer())
        made._polled_at -= 3600

    def unknown() -> str | None:
        raise StreamError("no broker answers")

    holder(unknown)
    assert made.poll(max_records=1, timeout=0.0) == {}
    assert "no broker answers" in made.warning
    for answer in ("me", None):
        made._consumer = Consumer({PLACE: ["message"]})
        holder(lambda answer=answer: answer)  # type: ignore[misc]
        assert made.poll(max_records=1, timeout=0.0) == {3: ["message"]}
    holder(lambda: "somebody else")
    with pytest.raises(FencedError, match="another process uses the worker id one"):
        made.poll(max_records=1, timeout=0.0)


def test_only_who_has_the_identity_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    made = member_with(Consumer())
    for answer, allowed in (("me", True), (None, False)):
        monkeypatch.setattr(kafka_member, "find_member_id", lambda *_, answer=answer, **__: answer)
        assert made.can_claim_id() is allowed
    monkeypatch.setattr(kafka_member, "find_member_id", lambda *_, **__: "somebody else")
    with pytest.raises(FencedError):
        made.can_claim_id()
    assert not member_with(Consumer(states=(JOINING,))).can_claim_id()
    assert member_with(Consumer(states=(JOINING,)), worker_id=None).can_claim_id(), "a made-up id is nobody else's"
