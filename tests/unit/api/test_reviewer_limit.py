"""The limit of reviewers per item holds within a request, between requests, and while the queue is behind."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import pytest

from service.api.reviewer_limit import AcceptedReviewers, ItemRevision, ReviewerLimit
from service.api.withdrawals import WithdrawalCheck
from service.contracts import BelowPolicy, DatasetSettings, Decision
from service.errors import StreamError
from service.review.items import ReviewItem
from service.review.settlement import MAX_REVIEWERS_PER_ITEM
from tests.support.api_harness import TOPICS
from tests.support.command_harness import make_sentences
from tests.support.review_queue import make_decision_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.log.protocol import Log, Output
    from tests.support.api_harness import ApiHarness

LIMIT = MAX_REVIEWERS_PER_ITEM


@pytest.fixture
def full(harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> ApiHarness:
    """A queue that is behind unless a test lets it read, and that nobody waits for."""
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 0.0)
    harness.worker._datasets.put(DatasetSettings(name="news", flag_policy=BelowPolicy(kind="below", cut=2.0)))
    harness.send(*make_sentences(3, dataset="news"))
    return harness


def make_decision(reviewer: str, **more: Any) -> dict[str, Any]:
    return {"dataset": "news", "id": "0-0", "reviewer": reviewer, "verdict": "ok", **more}


def name_reviewers(first: int, end: int) -> list[str]:
    return [f"r{number:02}" for number in range(first, end)]


def decide(harness: ApiHarness, reviewer: str, **more: Any) -> int:
    return harness.client.post("/v1/decisions", json=make_decision(reviewer, **more)).status_code


def decide_together(harness: ApiHarness, reviewers: Iterable[str], **more: Any) -> httpx.Response:
    decisions = [make_decision(reviewer) for reviewer in reviewers]
    return harness.client.post("/v1/decisions", json={"decisions": decisions, **more})


def list_deciders(harness: ApiHarness) -> list[str]:
    return [message["reviewer"] for message in harness.read_messages(TOPICS.decisions)]


def test_the_limit_holds_within_one_request(full: ApiHarness) -> None:
    refused = decide_together(full, name_reviewers(0, LIMIT + 5))
    assert (refused.status_code, refused.json()["field"]) == (409, f"decisions.{LIMIT}.reviewer")
    assert refused.json()["detail"].startswith(f"decisions.{LIMIT}: {LIMIT} reviewers have decided about it")
    assert list_deciders(full) == []
    assert decide_together(full, name_reviewers(50, 50 + LIMIT)).json()["accepted"] == LIMIT  # the others do not count


def test_with_partial_further_reviewers_are_left_out(full: ApiHarness) -> None:
    answer = decide_together(full, name_reviewers(0, LIMIT + 5), partial=True).json()
    assert answer["accepted"] == LIMIT
    assert [(each["id"], each["reason"]) for each in answer["left_out"]] == [("0-0", "decided")] * 5
    assert list_deciders(full) == name_reviewers(0, LIMIT)


def test_the_limit_holds_while_the_queue_is_behind(full: ApiHarness) -> None:
    """The last reviewer is refused, and so are all of a further request. A changed decision takes no place."""
    assert [decide(full, name) for name in name_reviewers(0, LIMIT + 1)] == [202] * LIMIT + [409]
    assert decide_together(full, name_reviewers(60, 81)).status_code == 409
    assert decide(full, "r03", verdict="error") == 202
    assert decide(full, "zoe", id="0-1") == 202
    full.project()
    item = full.client.get("/v1/review/news/0-0").json()
    assert item["decision_count"] == LIMIT
    assert [each["reviewer"] for each in item["decisions"]] == name_reviewers(0, LIMIT)


def test_decisions_that_the_queue_shows_count_once(full: ApiHarness) -> None:
    assert decide_together(full, name_reviewers(0, 15)).status_code == 202
    full.project()
    assert decide_together(full, name_reviewers(15, LIMIT)).status_code == 202
    assert decide(full, "zoe") == 409
    full.project()
    assert decide(full, "zoe") == 409


def test_another_revision_has_places_of_its_own(full: ApiHarness) -> None:
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202
    full.send(*(sentence | {"revision": 1} for sentence in make_sentences(3, dataset="news")))
    assert decide(full, "zoe") == 202


def test_the_limit_holds_for_requests_at_the_same_time(full: ApiHarness) -> None:
    async def decide_all() -> list[int]:
        transport = httpx.ASGITransport(full.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            bodies = [make_decision(name) for name in name_reviewers(0, LIMIT + 5)]
            answers = await asyncio.gather(*(client.post("/v1/decisions", json=body) for body in bodies))
        return [answer.status_code for answer in answers]

    assert sorted(asyncio.run(decide_all())) == [202] * LIMIT + [409] * 5
    assert len(set(list_deciders(full))) == LIMIT


def test_a_place_stays_while_another_request_of_the_reviewer_is_sent(full: ApiHarness) -> None:
    """The first request fails after the second has found the reviewer's place taken."""
    backend, decision = full.app.state.backend, Decision(**make_decision("zoe"), revision=0)
    item = ReviewItem.model_validate(full.client.get("/v1/review/news/0-0").json())

    async def send_two() -> None:
        with ReviewerLimit(backend) as first, ReviewerLimit(backend) as second:
            assert await first.check(item, decision) is None
            assert await second.check(item, decision) is None
            second.note_sent()

    asyncio.run(send_two())
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 409
    assert decide_together(full, name_reviewers(1, LIMIT)).status_code == 202


def test_a_place_ends_with_the_last_request_of_the_reviewer(full: ApiHarness) -> None:
    """While one request is sent, the place is taken, whenever another one of the same reviewer has ended."""
    backend, decision = full.app.state.backend, Decision(**make_decision("zoe"), revision=0)
    item = ReviewItem.model_validate(full.client.get("/v1/review/news/0-0").json())

    async def send_two() -> None:
        with ReviewerLimit(backend) as second:
            with ReviewerLimit(backend) as first:
                for each in (first, second):
                    assert await each.check(item, decision) is None
                    each.note_sent()
            [acceptance] = backend.accepted_reviewers.get(ItemRevision("news", "0-0", 0)).values()
            assert acceptance.ended_at == math.inf
        assert acceptance.ended_at < math.inf

    asyncio.run(send_two())


def test_a_place_that_no_request_has_used_is_free(full: ApiHarness) -> None:
    backend, decision = full.app.state.backend, Decision(**make_decision("zoe"), revision=0)
    item = ReviewItem.model_validate(full.client.get("/v1/review/news/0-0").json())

    async def fail_twice() -> None:
        with ReviewerLimit(backend) as first, ReviewerLimit(backend) as second:
            await first.check(item, decision)
            await second.check(item, decision)

    asyncio.run(fail_twice())
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202


# -- places that become free -------------------------------------------------------------------------------------------


def test_a_withdrawal_makes_room_before_the_queue_shows_it(full: ApiHarness) -> None:
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202
    assert decide(full, "r00", withdrawn=True) == 202
    assert decide(full, "zoe") == 202
    assert decide(full, "r00") == 409


@pytest.mark.parametrize("first", ["withdrawal", "change"])
def test_a_withdrawal_makes_no_room_while_another_request_of_the_reviewer_is_sent(full: ApiHarness, first: str) -> None:
    """Whichever ends first: the log may hold the withdrawal before the changed decision."""
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202
    backend = full.app.state.backend
    item = ReviewItem.model_validate(full.client.get("/v1/review/news/0-0").json())
    decisions = {
        "change": Decision(**make_decision("r00", verdict="error"), revision=0),
        "withdrawal": Decision(**make_decision("r00", withdrawn=True), revision=0),
    }

    async def send_both() -> None:
        requests = {name: ReviewerLimit(backend) for name in decisions}
        for name, decision in decisions.items():
            assert await requests[name].check(item, decision) is None
            requests[name].note_sent()
        for name in (first, *(requests.keys() - {first})):
            with requests[name]:
                pass

    asyncio.run(send_both())
    assert decide(full, "zoe") == 409


def test_a_decision_that_is_withdrawn_in_the_same_request_takes_no_place(full: ApiHarness) -> None:
    assert decide_together(full, name_reviewers(1, LIMIT)).status_code == 202
    both = [make_decision("zoe"), make_decision("zoe", withdrawn=True)]
    assert full.client.post("/v1/decisions", json={"decisions": both}).status_code == 202
    assert decide(full, "yan") == 202
    assert decide(full, "zoe") == 409


def test_a_withdrawal_that_is_left_out_makes_no_room(full: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202

    async def find_nothing(_check: WithdrawalCheck, decision: Decision) -> str | None:
        return "there is none" if decision.withdrawn else None

    monkeypatch.setattr(WithdrawalCheck, "check", find_nothing)
    both = [make_decision("r00", withdrawn=True), make_decision("r01")]
    answer = full.client.post("/v1/decisions", json={"decisions": both, "partial": True}).json()
    assert (answer["accepted"], len(answer["left_out"])) == (1, 1)
    assert decide(full, "zoe") == 409


def test_a_decision_that_is_left_out_can_not_be_withdrawn(full: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither later nor in the same request: nothing of it is in the log."""
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202
    decisions = [make_decision("zoe"), make_decision("zoe", withdrawn=True), make_decision("r00")]
    with full.run_projector():
        answer = full.client.post("/v1/decisions", json={"decisions": decisions, "partial": True}).json()
        assert (answer["accepted"], len(answer["left_out"])) == (1, 2)
        assert full.client.post("/v1/decisions", json=make_decision("zoe", withdrawn=True)).status_code == 404


def test_a_decision_that_is_withdrawn_and_made_again_in_one_request_keeps_its_place(full: ApiHarness) -> None:
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202
    both = [make_decision("r00", withdrawn=True), make_decision("r00", verdict="error")]
    assert full.client.post("/v1/decisions", json={"decisions": both}).status_code == 202
    assert decide(full, "zoe") == 409


def test_a_withdrawal_that_another_process_accepts_makes_room(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anybody is refused because of a decision that the queue does not show, the queue reads all of the log."""
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202
    full.log.append([make_decision_output("0-0", "ok", topics=TOPICS, dataset="news", reviewer="r00", withdrawn=True)])
    with full.run_projector():
        assert decide(full, "zoe") == 202
        assert decide(full, "yan") == 409


def test_a_request_that_fails_takes_no_place(full: ApiHarness) -> None:
    decisions = [make_decision(name) for name in name_reviewers(0, LIMIT)]
    wrong = full.client.post("/v1/decisions", json={"decisions": [*decisions, make_decision("r00", id="none")]})
    assert wrong.status_code == 404
    assert decide_together(full, name_reviewers(50, 50 + LIMIT)).status_code == 202


class Ambiguous:
    def append(self, outputs: Sequence[Output], **options: Any) -> None:
        raise StreamError("no answer in time")


class Slow:
    """Takes decisions after the request that sent them has ended."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.has_started, self.may_go_on = threading.Event(), threading.Event()

    def append(self, outputs: Sequence[Output], **options: Any) -> None:
        self.has_started.set()
        self.may_go_on.wait(60)
        self._log.append(outputs)


def test_a_place_stays_while_the_log_may_take_the_decision_of_a_request_that_has_ended(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)
    log, slow = full.log, Slow(full.log)
    assert decide_together(full, name_reviewers(1, LIMIT)).status_code == 202
    full.serve_with(append_to=slow)
    slow_appender = full.backend.appender

    async def cancel() -> None:
        transport = httpx.ASGITransport(full.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            request = asyncio.create_task(client.post("/v1/decisions", json=make_decision("zoe")))
            await asyncio.to_thread(slow.has_started.wait, 60)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request

    asyncio.run(cancel())
    full.serve_with(append_to=log)
    with full.run_projector():
        status = decide(full, "yan")
    slow.may_go_on.set()
    slow_appender.close()  # waits for the append
    assert list_deciders(full) == [*name_reviewers(1, LIMIT), "zoe"]
    assert status == 409


def test_a_place_stays_while_the_log_may_take_a_decision_that_it_has_not_confirmed(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)
    log = full.log
    assert decide_together(full, name_reviewers(1, LIMIT)).status_code == 202
    full.serve_with(append_to=Ambiguous())
    assert decide(full, "zoe") == 503
    full.serve_with(append_to=log)
    with full.run_projector():
        assert decide(full, "yan") == 409
        assert decide(full, "zoe") == 202


def test_a_later_request_does_not_shorten_the_time_that_the_log_may_take(full: ApiHarness) -> None:
    backend, decision = full.app.state.backend, Decision(**make_decision("zoe"), revision=0)
    item = ReviewItem.model_validate(full.client.get("/v1/review/news/0-0").json())

    async def send(*, fails: bool) -> float:
        with suppress(StreamError), ReviewerLimit(backend) as limit:
            assert await limit.check(item, decision) is None
            limit.note_sent()
            if fails:
                raise StreamError("no answer in time")
        [acceptance] = backend.accepted_reviewers.get(ItemRevision("news", "0-0", 0)).values()
        ended_at: float = acceptance.ended_at
        return ended_at

    assert asyncio.run(send(fails=True)) == asyncio.run(send(fails=False))


def test_decisions_that_the_log_has_not_taken_make_room(full: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count until the queue has read the log: they may be in it."""
    log = full.log
    full.serve_with(append_to=Ambiguous(), accepted_reviewers=AcceptedReviewers(max_append_s=0.0))
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 503
    full.serve_with(append_to=log)
    assert decide(full, "zoe") == 409
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)
    with full.run_projector():
        assert decide(full, "zoe") == 202


def test_who_has_lost_a_place_to_another_is_refused(full: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has not taken the first decision, and the queue does not show yet who has the place."""
    log = full.log
    full.serve_with(accepted_reviewers=AcceptedReviewers(max_append_s=0.0))
    assert decide_together(full, name_reviewers(1, LIMIT)).status_code == 202
    full.serve_with(append_to=Ambiguous())
    assert decide(full, "zoe") == 503
    full.serve_with(append_to=log)
    with monkeypatch.context() as patched, full.run_projector():
        patched.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)
        assert decide(full, "yan") == 202
    assert decide(full, "zoe") == 409
    full.project()  # the projector may have stopped before it read the decision
    assert decide(full, "yan", verdict="error") == 202


def test_the_memory_of_accepted_decisions_is_bounded(full: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten: the limit is exceeded then, and only while the queue is behind."""
    monkeypatch.setattr("service.api.reviewer_limit.MAX_ACCEPTED_DECISIONS", LIMIT)
    assert decide_together(full, name_reviewers(0, LIMIT)).status_code == 202
    assert decide(full, "zoe") == 409
    assert decide(full, "zoe", id="0-1") == 202
    assert decide(full, "zoe") == 202
    full.project()
    assert decide(full, "yan") == 409
