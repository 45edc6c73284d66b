"""Other threads ask the projector to read what the log holds now. The queue never waits for it."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from service.errors import StreamError
from service.review.projection.end_requests import FAILURE_INTERVAL_S, RENEWAL_INTERVAL_S, EndRequests
from service.review.queue.queue import ReviewQueue
from tests.support.review_queue import (
    TOPICS,
    MemoryFollower,
    MemoryLog,
    QueueHarness,
    make_decision_output,
    make_scored_output,
)


class LeaderlessLog(MemoryLog):
    """One partition of the decisions has no leader: it can't be read, and has no end."""

    def follow(self, topic: str) -> Any:
        return LeaderlessFollower(self, topic) if topic == TOPICS.decisions else super().follow(topic)


class LeaderlessFollower(MemoryFollower):
    def renew_end(self) -> None:
        raise StreamError("no leader")


class InterruptedLog(MemoryLog):
    """A partition of the decisions loses its leader after its end was renewed: the end is never reached."""

    def follow(self, topic: str) -> Any:
        return InterruptedFollower(self, topic) if topic == TOPICS.decisions else super().follow(topic)


class InterruptedFollower(MemoryFollower):
    is_renewed = False

    def renew_end(self) -> None:
        self.is_renewed = True

    @property
    def caught_up(self) -> bool:
        return not self.is_renewed and super().caught_up


def build_harness(log: MemoryLog) -> QueueHarness:
    harness = QueueHarness(log, ReviewQueue(":memory:"))
    harness.catch_up()
    return harness


# -- in the projector --------------------------------------------------------------------------------------------------


def test_the_queue_reads_what_the_log_held(harness: QueueHarness) -> None:
    harness.catch_up()
    harness.log.append([make_decision_output("a", "ok")])
    requested = harness.projector.request_present_end()
    assert not harness.projector.has_reached(requested)
    harness.catch_up()
    assert harness.projector.has_reached(requested)
    assert not harness.projector.has_reached(harness.projector.request_present_end())


def test_an_end_that_cannot_be_fetched_does_not_stop_the_queue() -> None:
    with closing(build_harness(LeaderlessLog())) as harness:
        requested = harness.projector.request_present_end()
        harness.write(make_scored_output("a", 0.1))
        assert harness.list_ids() == ["a"]
        assert not harness.projector.has_reached(requested)


def test_an_end_that_is_not_reached_holds_back_nothing_else() -> None:
    """What waits until the topics are read to their end waits for the end that they had at the start."""
    with closing(build_harness(InterruptedLog())) as harness:
        requested = harness.projector.request_present_end()
        for revision in (2, 1):
            harness.write(make_scored_output("a", 0.1, revision=revision))
        revisions = [json.loads(record.value)["revision"] for record in harness.log.records]
        assert revisions == [2, 1, 2]  # the topic ends with the newest one
        assert not harness.projector.has_reached(requested)


def test_what_was_reached_is_not_reached_any_more_once_the_queue_is_built_again(harness: QueueHarness) -> None:
    """Not even when it is complete again: who asks may have seen the empty file in between."""
    harness.catch_up()
    requested = harness.projector.request_present_end()
    harness.catch_up()
    assert harness.projector.has_reached(requested)
    harness.queue.file.path.unlink()
    harness.catch_up()
    assert not harness.projector.has_reached(requested)


# -- how often ---------------------------------------------------------------------------------------------------------


class Topic:
    """Counts how often its end is asked for."""

    def __init__(self) -> None:
        self.renewals = 0
        self.fails = False

    def renew_end(self) -> None:
        self.renewals += 1
        if self.fails:
            raise StreamError("no leader")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def requests(clock: Clock) -> EndRequests:
    return EndRequests(clock)


def test_nobody_asks_for_an_end_that_is_not_requested(requests: EndRequests) -> None:
    topic = Topic()
    requests.renew_end(topic)
    assert topic.renewals == 0


def test_requests_of_the_same_second_share_a_renewal(requests: EndRequests, clock: Clock) -> None:
    topic = Topic()
    first = requests.add()
    requests.renew_end(topic)
    requests.note_end_reached()
    later = [requests.add() for _ in range(5)]
    requests.renew_end(topic)
    requests.note_end_reached()
    assert topic.renewals == 1
    assert [requests.has_reached(number) for number in (first, *later)] == [True] + [False] * 5
    clock.now += RENEWAL_INTERVAL_S
    requests.renew_end(topic)
    assert not any(map(requests.has_reached, later))
    requests.note_end_reached()
    assert topic.renewals == 2
    assert all(map(requests.has_reached, later))


def test_a_request_whose_end_cannot_be_fetched_is_given_up(
    requests: EndRequests, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topic()
    topic.fails = True
    for count in (1, 2):
        number = requests.add()
        for _ in range(3):  # it is not tried again for the same request
            requests.renew_end(topic)
            requests.note_end_reached()
            clock.now += FAILURE_INTERVAL_S
        assert (topic.renewals, requests.has_reached(number)) == (count, False)
    assert len(caplog.records) == 1


def test_after_a_failure_the_log_is_left_alone_for_some_seconds(requests: EndRequests, clock: Clock) -> None:
    topic = Topic()
    topic.fails = True
    requests.add()
    requests.renew_end(topic)
    topic.fails = False
    number = requests.add()
    clock.now += RENEWAL_INTERVAL_S
    requests.renew_end(topic)
    assert topic.renewals == 1
    clock.now += FAILURE_INTERVAL_S
    requests.renew_end(topic)
    requests.note_end_reached()
    assert (topic.renewals, requests.has_reached(number)) == (2, True)
