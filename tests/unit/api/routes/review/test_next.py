"""POST /v1/review/next: items are handed out, each to one reviewer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.ingest.log_appender import LogAppender
from service.contracts import BelowPolicy, Claim, DatasetSettings
from service.review.messages import build_claim_message
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import ReviewQueue
from tests.support.api_harness import TOPICS
from tests.support.command_harness import make_sentences
from tests.unit.api.routes.review.test_overlap import decide, set_overlap

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api_harness import ApiHarness

NEXT = "/v1/review/next"


@pytest.fixture
def full(harness: ApiHarness) -> ApiHarness:
    """A queue with 6 items of one dataset and 2 of another."""
    for name in ("news", "blogs"):
        harness.worker._datasets.put(DatasetSettings(name=name, flag_policy=BelowPolicy(kind="below", cut=2.0)))
    harness.send(*make_sentences(6, dataset="news"))
    harness.send(*make_sentences(2, seed=1, dataset="blogs"))
    return harness


def list_ids(harness: ApiHarness, dataset: str = "news") -> list[str]:
    items = harness.client.get("/v1/review", params={"dataset": dataset}).json()["items"]
    return [item["id"] for item in items]


def ask(harness: ApiHarness, reviewer: str, **more: Any) -> Any:
    with harness.run_projector():
        answer = harness.client.post(NEXT, json={"reviewer": reviewer, "dataset": "news", **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_another_has_open_is_skipped_until_the_claim_ends(full: ApiHarness) -> None:
    ids = list_ids(full)
    handed_out = ask(full, "anna")
    assert (handed_out["item"]["id"], handed_out["item"]["claimed_by"]) == (ids[0], "anna")
    until = datetime.fromisoformat(handed_out["claimed_until"])
    assert until - datetime.now(UTC) <= timedelta(minutes=3)
    assert handed_out["confirmed"] is True
    assert ask(full, "ben")["item"]["id"] == ids[1]
    assert ask(full, "anna")["item"]["id"] == ids[0]  # still hers
    full.client.delete(f"/v1/review/news/{ids[0]}/claim", params={"reviewer": "anna"})
    full.project()
    assert ask(full, "cyd")["item"]["id"] == ids[0]


def test_the_item_after_the_one_that_is_left(full: ApiHarness) -> None:
    ids = list_ids(full)
    assert ask(full, "anna")["item"]["id"] == ids[0]
    left = {"dataset": "news", "id": ids[0]}
    assert ask(full, "anna", after=left)["item"]["id"] == ids[1]
    full.project()
    assert full.client.get(f"/v1/review/news/{ids[0]}").json()["claimed_by"] is None  # released
    last = {"dataset": "news", "id": ids[-1]}
    assert ask(full, "anna", after=last)["item"]["id"] == ids[0]  # from the first on again
    assert ask(full, "anna", after={"dataset": "news", "id": "none"})["item"]["id"] == ids[0]


def test_an_item_is_not_handed_out_to_a_reviewer_who_has_decided_it(harness: ApiHarness) -> None:
    set_overlap(harness, 2)
    harness.send(*make_sentences(2, dataset="news"))
    ids = list_ids(harness)
    for expected in ids:
        handed_out = ask(harness, "anna")["item"]["id"]
        assert handed_out == expected
        decide(harness, handed_out, "anna", "ok")
    assert ask(harness, "anna") == {"item": None, "claimed_until": None, "confirmed": True}
    assert ask(harness, "ben")["item"]["id"] == ids[0]
    decide(harness, ids[0], "ben", "error")
    assert ask(harness, "anna", state="adjudication")["item"] is None  # she is one of those who differ
    assert ask(harness, "cyd", state="adjudication")["item"]["id"] == ids[0]


def test_filters_narrow_down_what_is_handed_out(full: ApiHarness) -> None:
    assert ask(full, "anna", dataset="blogs")["item"]["dataset"] == "blogs"
    item = full.client.get(f"/v1/review/news/{list_ids(full)[3]}").json()
    phrase = " ".join(item["tokens"])
    assert ask(full, "anna", q=f'"{phrase}"')["item"]["tokens"] == item["tokens"]
    assert ask(full, "anna", given="no-such-label")["item"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "reviewer"),
        ({"reviewer": "anna", "minutes": 0.01}, "minutes"),
        ({"reviewer": "anna", "after": "news/1"}, "after"),
        ({"reviewer": "anna", "after": {"dataset": "news"}}, "after.id"),
        ({"reviewer": "anna", "state": "closed"}, "state"),
        ({"reviewer": "anna", "colour": "red"}, "colour"),
        ({"reviewer": "anna", "q": "?!"}, "q"),
    ],
)
def test_a_request_that_breaks_a_rule_names_the_field(quiet: ApiHarness, body: dict[str, Any], field: str) -> None:
    answer = quiet.client.post(NEXT, json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_queue_that_is_behind_hands_out_without_confirmation(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.claims.CLAIM_TIMEOUT_S", 0.05)
    answer = full.client.post(NEXT, json={"reviewer": "anna", "dataset": "news"})
    assert (answer.status_code, answer.json()["confirmed"]) == (200, False)
    assert answer.json()["item"]["id"] == list_ids(full)[0]


def test_reviewers_of_two_replicas_who_ask_at_once_get_different_items(full: ApiHarness, tmp_path: Path) -> None:
    """Each replica has its own queue, and learns of the other's claims from the log."""
    with ExitStack() as stack:
        queue = ReviewQueue(tmp_path / "second.sqlite")
        stack.callback(queue.close)
        projector = ReviewProjector(full.log, TOPICS, queue.file)
        stack.callback(projector.close)
        while not projector.caught_up:
            projector.step()
        appender = LogAppender(full.log, request_timeout_s=30.0)
        stack.callback(appender.close)
        second = create_app(replace(full.backend, queue=queue, projector=projector, appender=appender))
        stop = threading.Event()

        def keep_up() -> None:
            while not stop.is_set():
                projector.step()
                stop.wait(0.005)

        thread = threading.Thread(target=keep_up)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.set)
        names = [f"r{number}" for number in range(6)]
        together = threading.Barrier(len(names))

        def ask_one(name: str) -> tuple[int, str | None]:
            client = TestClient(second if int(name[1]) % 2 else full.app)
            together.wait()
            answer = client.post(NEXT, json={"reviewer": name, "dataset": "news"})
            item = answer.json().get("item")
            return answer.status_code, None if item is None else item["id"]

        with full.run_projector(), ThreadPoolExecutor(len(names)) as threads:
            answers = list(threads.map(ask_one, names))
    assert [status for status, _ in answers] == [200] * len(names)
    handed_out = [sentence_id for _, sentence_id in answers if sentence_id is not None]
    assert len(set(handed_out)) == len(handed_out), answers
    assert len(handed_out) >= 2


def test_a_lost_claim_is_withdrawn_and_another_item_is_claimed(full: ApiHarness) -> None:
    """The other replica's claim is in the log, but not in the queue yet."""
    ids = list_ids(full)
    until = datetime.now(UTC) + timedelta(minutes=3)
    full.log.append([build_claim_message(TOPICS, Claim(dataset="news", id=ids[0], reviewer="ben", until=until))])

    class Late:
        """The queue reads on only when the claim has been written."""

        def append(self, outputs: Any, *, timeout: float = 30.0) -> None:
            full.log.append(outputs, timeout=timeout)
            full.project()

    answer = full.serve_with(append_to=Late()).post(NEXT, json={"reviewer": "anna", "dataset": "news"})
    assert answer.json()["item"]["id"] in ids[1:3]
    assert full.client.get(f"/v1/review/news/{ids[0]}").json()["claimed_by"] == "ben"
    assert full.backend.queue.find_holder(("news", ids[0]), "anna")[0] is None
