"""When a worker that can't reach a broker leaves its group, and when it stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.log.kafka.worker import giving_way, group_consumer
from service.log.kafka.worker.giving_way import LEAVE_INTERVAL_S, MAX_ABSENCE_S
from service.log.kafka.worker.reachability import Unreachable
from service.log.kafka.worker.session import KafkaWorkerSession
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings

if TYPE_CHECKING:
    from collections.abc import Iterator


class Group:
    """The group of a worker with the id `one`, and the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.identities: set[str | None] = {"one", "two"}
        self.questions = 0
        self.answers_removals = True

    def monotonic(self) -> float:
        return self.now

    def list_identities(self, *_: object, **__: object) -> set[str | None]:
        self.questions += 1
        return self.identities

    def remove(self, *_: object, **__: object) -> bool:
        if not self.answers_removals:
            raise StreamError("no answer")
        return True


class IdleConsumer:
    def assignment(self) -> set[object]:
        return set()

    def close(self, **_: object) -> None:
        pass


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    group = Group()
    monkeypatch.setattr(group_consumer, "list_group_identities", group.list_identities)
    monkeypatch.setattr(group_consumer, "remove_group_member", group.remove)
    monkeypatch.setattr(giving_way, "time", group)
    return group


@pytest.fixture
def worker(group: Group, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaWorkerSession]:
    worker = KafkaWorkerSession(KafkaSettings.for_servers("a:1"), Topics("t."), group="g", worker_id="one")
    monkeypatch.setattr(worker._giving_way._probe, "start", lambda: None)
    worker._giving_way._probe.unreachable = Unreachable(3, "c:9092")
    worker._consumer._consumer = IdleConsumer()
    worker._assigned = {0}
    yield worker
    worker.close()


def step(worker: KafkaWorkerSession) -> None:
    worker._giving_way.step(has_partitions=True)


def is_absent(worker: KafkaWorkerSession) -> bool:
    return worker._consumer.absent


def test_a_worker_that_left_stays_away_even_if_the_group_did_not_answer(
    worker: KafkaWorkerSession, group: Group
) -> None:
    group.answers_removals = False
    step(worker)
    assert is_absent(worker)
    group.now += MAX_ABSENCE_S / 2
    step(worker)
    assert is_absent(worker)
    group.now += MAX_ABSENCE_S / 2
    step(worker)
    assert not is_absent(worker)


def test_a_worker_joins_again_when_it_reaches_the_broker(worker: KafkaWorkerSession) -> None:
    step(worker)
    worker._giving_way._probe.unreachable = None
    step(worker)
    assert not is_absent(worker)


def test_the_only_worker_stays_and_goes_on_committing(worker: KafkaWorkerSession, group: Group) -> None:
    group.identities = {"one"}
    for _ in range(10):
        step(worker)
    assert not is_absent(worker)
    assert group.questions == 1  # each takes a client of its own
    assert not worker._producer._must_give_way()
    assert "no other worker can take over" in worker.warnings[0]
    group.identities = {"one", "two"}
    group.now += LEAVE_INTERVAL_S
    step(worker)
    assert is_absent(worker)
    assert worker._producer._must_give_way()


def test_a_worker_stays_if_another_has_left_since_the_broker_fell_silent(
    worker: KafkaWorkerSession, group: Group
) -> None:
    worker._giving_way._probe.unreachable = Unreachable(3, "c:9092", members=3)
    step(worker)
    assert not is_absent(worker)
    assert "another worker has left before" in worker.warnings[0]
    assert not worker._producer._must_give_way()
    group.identities = {"one", "two", "three"}
    group.now += LEAVE_INTERVAL_S
    step(worker)
    assert is_absent(worker)


def test_a_worker_joins_again_at_once_if_all_have_left_together(
    worker: KafkaWorkerSession, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(*_: object, **__: object) -> bool:
        group.identities = set()
        return True

    monkeypatch.setattr(group_consumer, "remove_group_member", remove)
    step(worker)
    assert not is_absent(worker)
    assert "no other worker can take over" in worker.warnings[0]
