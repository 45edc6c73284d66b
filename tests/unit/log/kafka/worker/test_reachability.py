"""When a worker gives way because it can't reach a broker."""

from __future__ import annotations

import pytest

from service.errors import StreamError
from service.log.kafka.worker.reachability import CONFIRMED_S, UNCONFIRMED_S, ReachabilityProbe, Unreachable

ADDRESSES = {1: "a:9092", 2: "b:9092", 3: "c:9092"}


class FakeCluster:
    """Three brokers; the time is that of the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answering = {1, 2, 3}
        self.listed = {1, 2, 3}
        self.heard: dict[int, bool | None] = dict.fromkeys(ADDRESSES, True)
        self.members = 3
        self.opened = self.closed = 0

    def list_answers(self) -> tuple[set[int], dict[int, str]]:
        if not self.answering:
            raise StreamError("no broker answers")
        return self.answering, {broker: ADDRESSES[broker] for broker in self.listed}

    def is_heard(self, broker: int) -> bool | None:
        return self.heard[broker]

    def count_members(self) -> int:
        return self.members

    def open(self) -> FakeCluster:
        self.opened += 1
        return self

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def probe(cluster: FakeCluster) -> ReachabilityProbe:
    return ReachabilityProbe(cluster.open, clock=lambda: cluster.now)


def _step_at(probe: ReachabilityProbe, cluster: FakeCluster, now: float) -> Unreachable | None:
    cluster.now = now
    probe.step()
    return probe.unreachable


def test_a_broker_that_the_cluster_hears_and_the_worker_does_not_is_unreachable(
    probe: ReachabilityProbe, cluster: FakeCluster
) -> None:
    assert _step_at(probe, cluster, 0) is None
    cluster.answering = {1, 3}
    assert _step_at(probe, cluster, 10) is None
    cluster.members = 2  # those at the beginning of the silence count
    assert _step_at(probe, cluster, 10 + CONFIRMED_S - 0.1) is None
    assert _step_at(probe, cluster, 10 + CONFIRMED_S) == Unreachable(2, "b:9092", members=3)
    cluster.answering = {1, 2, 3}
    assert _step_at(probe, cluster, 20) is None
    cluster.answering = {1, 3}
    assert _step_at(probe, cluster, 30) is None  # it counts from the beginning again


def test_a_broker_that_is_down_is_not_unreachable(probe: ReachabilityProbe, cluster: FakeCluster) -> None:
    cluster.answering = {1, 3}
    cluster.heard[2] = False
    assert _step_at(probe, cluster, 0) is None
    assert _step_at(probe, cluster, 100) is None
    cluster.listed = {1, 3}
    assert _step_at(probe, cluster, 200) is None


def test_without_an_answer_from_the_quorum_the_worker_waits_longer(
    probe: ReachabilityProbe, cluster: FakeCluster
) -> None:
    cluster.answering = {1, 3}
    cluster.heard[2] = None
    assert _step_at(probe, cluster, 0) is None
    assert _step_at(probe, cluster, UNCONFIRMED_S - 0.1) is None
    assert _step_at(probe, cluster, UNCONFIRMED_S) == Unreachable(2, "b:9092", members=3)


def test_a_worker_that_reaches_no_broker_does_not_give_way_and_asks_again(
    probe: ReachabilityProbe, cluster: FakeCluster
) -> None:
    cluster.answering = set()
    assert _step_at(probe, cluster, 0) is None
    assert _step_at(probe, cluster, 100) is None
    assert (cluster.opened, cluster.closed) == (2, 2)
    cluster.answering = {1, 3}
    assert _step_at(probe, cluster, 101) is None
    assert _step_at(probe, cluster, 101 + CONFIRMED_S) == Unreachable(2, "b:9092", members=3)
