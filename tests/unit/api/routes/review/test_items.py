"""The queue over REST: items worst first, claims, decisions, numbers, live updates."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from service.api.routes.review.events import QueueWatcher, stream_queue_events
from service.api.withdrawals import RecentDecisions
from service.contracts import BelowPolicy, Claim, DatasetSettings
from service.errors import StreamError
from service.log.codec import get_header
from service.log.protocol import Output
from service.review.messages import build_claim_message
from service.review.ranker import Ranker
from tests.support import live_server
from tests.support.api_harness import TOPICS, wait_for
from tests.support.command_harness import make_sentences

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import httpx2 as httpx

    from service.review.ranker import ReviewedWords
    from tests.support.api_harness import ApiHarness

BELOW = BelowPolicy(kind="below", cut=2.0)  # flags every sentence


@pytest.fixture
def full(harness: ApiHarness) -> ApiHarness:
    """A queue with 12 items of one dataset and 3 of another."""
    for name in ("news", "blogs"):
        harness.worker._datasets.put(DatasetSettings(name=name, flag_policy=BELOW))
    harness.send(*make_sentences(12, dataset="news", annotator="anna"))
    harness.send(*make_sentences(3, seed=1, dataset="blogs", annotator="ben"))
    return harness


def first(harness: ApiHarness, **query: str) -> dict[str, Any]:
    item = harness.client.get("/v1/review", params=query).json()["items"][0]
    assert isinstance(item, dict)
    return item


def test_an_empty_queue(quiet: ApiHarness) -> None:
    assert quiet.client.get("/v1/review").json() == {"items": [], "next": None}
    assert quiet.client.get("/v1/overview").json()["counts"] == {
        "open": 0,
        "adjudication": 0,
        "decided": 0,
        "closed": 0,
    }


def test_worst_first_page_by_page(full: ApiHarness) -> None:
    whole = full.client.get("/v1/review", params={"dataset": "news"}).json()
    assert whole["next"] is None
    ranks = [item["rank"] for item in whole["items"]]
    assert len(ranks) == 12
    assert ranks == sorted(ranks)
    pages, after = [], None
    while True:
        query = {"dataset": "news", "limit": "5"} | ({"after": after} if after else {})
        page = full.client.get("/v1/review", params=query).json()
        pages.append([item["id"] for item in page["items"]])
        after = page["next"]
        if after is None:
            break
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [name for page in pages for name in page] == [item["id"] for item in whole["items"]]


def test_filters(full: ApiHarness) -> None:
    def ids(**query: str) -> set[str]:
        return {item["dataset"] for item in full.client.get("/v1/review", params=query).json()["items"]}

    assert ids() == {"news", "blogs"}
    assert ids(annotator="ben") == {"blogs"}
    assert ids(state="decided") == set()
    item = first(full)
    flag = item["doubtful"][0]
    page = full.client.get("/v1/review", params={"given": flag["given"], "suggested": flag["suggested"]}).json()
    assert item["id"] in {entry["id"] for entry in page["items"]}
    for unknown in ({"given": "no-such-label"}, {"dataset": "no-such-dataset"}, {"model": "no-such-model"}):
        assert ids(**unknown) == set()


def test_a_search_over_words(full: ApiHarness) -> None:
    item = first(full, dataset="blogs")
    phrase = " ".join(item["tokens"][:3])
    found = full.client.get("/v1/review", params={"q": f'"{phrase}"', "dataset": "blogs"}).json()["items"]
    assert item["id"] in [entry["id"] for entry in found]
    assert full.client.get("/v1/review", params={"q": "nobody-wrote-this"}).json()["items"] == []
    for search in ("?!", "a " * 30):
        answer = full.client.get("/v1/review", params={"q": search})
        assert (answer.status_code, answer.json()["field"]) == (422, "q")


def test_filters_by_decision_and_model(full: ApiHarness) -> None:
    item = first(full, dataset="blogs")
    body = {"dataset": "blogs", "id": item["id"], "reviewer": "anna", "verdict": "unsure"}
    assert full.client.post("/v1/decisions", json=body).status_code == 202
    full.project()

    def list_ids(**query: str) -> list[str]:
        page = full.client.get("/v1/review", params={"state": "all", "dataset": "blogs", **query}).json()
        return [entry["id"] for entry in page["items"]]

    assert list_ids(verdict="unsure") == list_ids(decided_by="anna") == [item["id"]]
    assert list_ids(verdict="ok") == list_ids(decided_by="ben") == list_ids(model="none") == []
    assert len(list_ids(model=item["model"]["name"])) == 3
    assert full.client.get("/v1/review", params={"verdict": "maybe"}).status_code == 422


def test_similar_items(harness: ApiHarness) -> None:
    harness.worker._datasets.put(DatasetSettings(flag_policy=BELOW))
    harness.send(*({"id": name, "tokens": ["the"], "labels": ["O"]} for name in ("a/b", "c")))
    found = harness.client.get("/v1/review/similar", params={"dataset": "default", "id": "a/b", "limit": "5"}).json()
    assert (found["dataset"], found["id"]) == ("default", "a/b")
    (item,) = found["same_words"]["items"]
    assert (item["id"], item["words"], item["labels"]) == ("c", ["the"], ["O"])
    assert found["same_words"]["more"] is False


def test_similar_items_of_nothing_or_asked_for_wrongly(quiet: ApiHarness) -> None:
    unknown = quiet.client.get("/v1/review/similar", params={"dataset": "default", "id": "none"})
    assert (unknown.status_code, unknown.json()["field"]) == (404, "id")
    for query, field in (
        ({"dataset": "default"}, "id"),
        ({"id": "a"}, "dataset"),
        ({"dataset": "default", "id": "a", "limit": "51"}, "limit"),
        ({"dataset": "default", "id": "a", "colour": "red"}, "colour"),
    ):
        answer = quiet.client.get("/v1/review/similar", params=query)
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_misspelt_parameter_is_named_with_those_there_are(quiet: ApiHarness) -> None:
    for path, known in (("/v1/review", "dataset, given, suggested"), ("/v1/overview", "dataset")):
        answer = quiet.client.get(path, params={"datset": "news"})
        assert answer.status_code == 422
        assert answer.json()["field"] == "datset"
        assert f"there are {known}" in answer.json()["detail"]
        assert quiet.client.get(path, params={"dataset": "nobodys"}).status_code == 200


def test_one_item_whatever_its_name(harness: ApiHarness) -> None:
    harness.worker._datasets.put(DatasetSettings(flag_policy=BELOW))
    names = ["a/b", "ü % ?", "x/claim", "..."]
    harness.send(*({"id": name, "tokens": ["the"], "labels": ["O"]} for name in names))
    for name in names:
        for path in (quote(name, safe=""), quote(name)):
            answer = harness.client.get(f"/v1/review/default/{path}")
            assert (answer.status_code, answer.json().get("id")) == (200, name)
    with harness.run_projector():
        claimed = harness.client.post("/v1/review/default/a%2Fb/claim", json={"reviewer": "anna"})
    assert (claimed.status_code, claimed.json()["id"]) == (202, "a/b")
    assert harness.client.get("/v1/review/default/none").status_code == 404


def test_a_claim_keeps_others_away(full: ApiHarness) -> None:
    item = first(full, dataset="blogs")
    path = f"/v1/review/blogs/{item['id']}/claim"
    with full.run_projector():
        answer = full.client.post(path, json={"reviewer": "anna", "minutes": 5}, headers={"X-Request-ID": "r-7"})
    assert answer.status_code == 202
    until = datetime.fromisoformat(answer.json()["until"])
    assert timedelta(minutes=4) < until - datetime.now(UTC) <= timedelta(minutes=5)
    (record,) = full.log.read(TOPICS.decisions, 0, 10)
    assert get_header(record.headers, "x-request-id") == "r-7"
    assert first(full, dataset="blogs")["claimed_by"] == "anna"
    for_ben = full.client.get("/v1/review", params={"dataset": "blogs", "reviewer": "ben"}).json()["items"]
    assert item["id"] not in {entry["id"] for entry in for_ben}
    refused = full.client.post(path, json={"reviewer": "ben"})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:labelwatch:problem:conflict")
    assert "anna" in refused.json()["detail"]
    with full.run_projector():
        assert full.client.post(path, json={"reviewer": "anna"}).status_code == 202
    assert full.client.delete(path, params={"reviewer": "anna"}).json()["until"] is None
    full.project()
    with full.run_projector():
        assert full.client.post(path, json={"reviewer": "ben"}).status_code == 202


def test_the_first_claim_counts_however_short_it_is(full: ApiHarness) -> None:
    """The replica that gets the second claim has not read the first one yet."""
    item = first(full, dataset="blogs")
    path = f"/v1/review/blogs/{item['id']}/claim"
    until = datetime.now(UTC) + timedelta(minutes=30)
    theirs = Claim(dataset="blogs", id=item["id"], reviewer="anna", until=until)
    full.log.append([build_claim_message(TOPICS, theirs)])  # by another replica
    assert full.client.get(f"/v1/review/blogs/{item['id']}").json()["claimed_by"] is None
    step = full.projector.step
    answers: list[int] = []

    class Late:
        """Reads on only when the claim has been written."""

        def append(self, outputs: Any, *, timeout: float = 30.0) -> None:
            full.log.append(outputs, timeout=timeout)
            answers.append(step())

    refused = full.serve_with(append_to=Late()).post(path, json={"reviewer": "ben", "minutes": 1})
    assert (refused.status_code, refused.json()["field"]) == (409, "reviewer")
    assert "'anna' has it open until" in refused.json()["detail"]
    assert answers == [2, 1]  # the second claim was withdrawn
    claims = {record.key: json.loads(record.value or b"") for record in full.log.read(TOPICS.decisions, 0, 10)}
    assert [claim["reviewer"] for claim in claims.values() if claim.get("until")] == ["anna"]
    claimed = full.client.get(f"/v1/review/blogs/{item['id']}").json()
    assert (claimed["claimed_by"], datetime.fromisoformat(claimed["claimed_until"])) == ("anna", until)


def test_of_many_simultaneous_claims_one_counts(full: ApiHarness) -> None:
    item = first(full, dataset="blogs")
    path = f"/v1/review/blogs/{item['id']}/claim"
    names = [f"r{n}" for n in range(6)]
    together = threading.Barrier(len(names))

    def ask(name: str) -> tuple[int, str]:
        client = TestClient(full.app)
        together.wait()
        answer = client.post(path, json={"reviewer": name, "minutes": 60 - int(name[1])})
        return answer.status_code, answer.json().get("detail", "")

    with full.run_projector(), ThreadPoolExecutor(len(names)) as threads:
        answers = dict(zip(names, threads.map(ask, names), strict=True))
    (winner,) = [name for name, (status, _) in answers.items() if status == 202]
    assert all(
        (status, repr(winner) in text) == (409, True) for name, (status, text) in answers.items() if name != winner
    )
    full.project()
    assert full.client.get(f"/v1/review/blogs/{item['id']}").json()["claimed_by"] == winner


def test_a_claim_that_the_queue_does_not_show_in_time_is_not_confirmed(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.claims.CLAIM_TIMEOUT_S", 0.05)
    item = first(full, dataset="blogs")
    path = f"/v1/review/blogs/{item['id']}"
    answer = full.client.post(f"{path}/claim", json={"reviewer": "anna"})
    assert (answer.status_code, answer.json()["confirmed"]) == (202, False)
    full.project()
    assert full.client.get(path).json()["claimed_by"] == "anna"
    longer = full.client.post(f"{path}/claim", json={"reviewer": "anna", "minutes": 60})
    assert (longer.status_code, longer.json()["confirmed"]) == (202, True)  # a slow queue does not end a claim


def test_a_claim_that_has_ended_is_known_to_be_read(full: ApiHarness) -> None:
    item = first(full, dataset="blogs")
    key = ("blogs", item["id"])
    claim = Claim(dataset=key[0], id=key[1], reviewer="anna", until=datetime.now(UTC) - timedelta(seconds=1))
    full.log.append([build_claim_message(TOPICS, claim)])
    full.project()
    own_until, holder = full.backend.queue.find_holder(key, "anna")
    assert own_until == pytest.approx(claim.until.timestamp() if claim.until else None)
    assert holder.reviewer is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "reviewer"),
        ({"reviewer": ""}, "reviewer"),
        ({"reviewer": 7}, "reviewer"),
        ({"reviewer": "anna", "minutes": 0}, "minutes"),
        ({"reviewer": "anna", "minutes": 5e-324}, "minutes"),
        ({"reviewer": "anna", "minutes": 1e9}, "minutes"),
        ({"reviewer": "anna", "minutes": "5"}, "minutes"),
        ({"reviewer": "anna", "hours": 1}, "hours"),
    ],
)
def test_claims_that_break_a_rule(full: ApiHarness, body: dict[str, Any], field: str) -> None:
    item = first(full)
    answer = full.client.post(f"/v1/review/{item['dataset']}/{item['id']}/claim", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_decision_removes_the_item_from_the_queue(full: ApiHarness) -> None:
    item = first(full, dataset="news")
    assert item["reason"] is None  # or a control sentence would be recognised
    decision = {"dataset": "news", "id": item["id"], "reviewer": "anna", "verdict": "error", "words": [0]}
    answer = full.client.post("/v1/decisions", json=decision, headers={"X-Request-ID": "r-9"})
    assert (answer.status_code, answer.json()) == (202, {"accepted": 1, "request_id": "r-9"})
    (record,) = full.log.read(TOPICS.decisions, 0, 10)
    written = json.loads(record.value or b"")
    assert (written["verdict"], written["revision"]) == ("error", item["revision"])
    assert written["decided_at"]
    assert get_header(record.headers, "x-request-id") == "r-9"
    full.project()
    path = f"/v1/review/news/{item['id']}"
    decided = full.client.get(path).json()
    assert (decided["state"], decided["reason"]) == ("decided", "flagged")
    assert decided["decisions"][0]["reviewer"] == "anna"
    assert item["id"] not in {entry["id"] for entry in full.client.get("/v1/review").json()["items"]}
    counts = full.client.get("/v1/overview", params={"dataset": "news"}).json()
    assert counts["counts"] == {"open": 11, "adjudication": 0, "decided": 1, "closed": 0}
    assert counts["verdicts"]["error"] == 1
    full.client.post("/v1/decisions", json={**decision, "withdrawn": True})
    full.project()
    assert full.client.get(path).json()["state"] == "open"


def withdraw(harness: ApiHarness, item: dict[str, Any], reviewer: str = "anna", **more: Any) -> httpx.Response:
    decision = {"dataset": item["dataset"], "id": item["id"], "reviewer": reviewer, "verdict": "ok", "withdrawn": True}
    return harness.client.post("/v1/decisions", json=decision | more)


def test_a_decision_that_was_never_made_is_not_withdrawn(full: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)  # never too late, on a busy machine either
    item = first(full, dataset="news")
    decision = {"dataset": "news", "id": item["id"], "reviewer": "ben", "verdict": "ok"}
    assert full.client.post("/v1/decisions", json=decision).status_code == 202
    with full.run_projector():
        refused = withdraw(full, item)
        other_kind = withdraw(full, item, "ben", adjudication=True)
        several = full.client.post(
            "/v1/decisions", json={"decisions": [decision, decision | {"reviewer": "anna", "withdrawn": True}]}
        )
    assert (refused.status_code, refused.json()["field"]) == (404, "withdrawn")
    assert refused.json()["detail"].startswith(f"'anna' has made no decision about news/{item['id']}")
    assert (other_kind.status_code, other_kind.json()["field"]) == (404, "withdrawn")
    assert other_kind.json()["detail"].startswith(f"'ben' has made no adjudication of news/{item['id']}")
    assert (several.status_code, several.json()["field"]) == (404, "decisions.1.withdrawn")
    assert len(full.log.read(TOPICS.decisions, 0, 10)) == 1


def test_a_decision_is_withdrawn_twice(full: ApiHarness) -> None:
    item = first(full, dataset="news")
    decision = {"dataset": "news", "id": item["id"], "reviewer": "anna", "verdict": "ok"}
    full.client.post("/v1/decisions", json=decision)
    with full.run_projector():
        restarted = full.serve_with(recent_decisions=RecentDecisions())
        answers = [restarted.post("/v1/decisions", json=decision | {"withdrawn": True}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]


def test_a_decision_that_the_queue_has_not_read_can_be_withdrawn(full: ApiHarness) -> None:
    """Of this process at once. Of another one, once the queue has read what the log held."""
    items = full.client.get("/v1/review", params={"dataset": "news"}).json()["items"]
    decisions = [{"dataset": "news", "id": item["id"], "reviewer": "anna", "verdict": "ok"} for item in items[:3]]
    full.client.post("/v1/decisions", json={"decisions": decisions[:2]})
    assert withdraw(full, items[0]).status_code == 202
    both = {"decisions": [decisions[2], decisions[2] | {"withdrawn": True}]}
    assert full.client.post("/v1/decisions", json=both).status_code == 202
    full.serve_with(recent_decisions=RecentDecisions())
    with full.run_projector():
        assert withdraw(full, items[1]).status_code == 202


def test_a_withdrawal_is_accepted_while_the_log_may_hold_the_decision(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision failed with an unknown outcome, or the queue is behind: nothing that may be valid is refused."""
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 0.1)
    item, other, *_ = full.client.get("/v1/review", params={"dataset": "news"}).json()["items"]
    log = full.log

    class Ambiguous:
        def append(self, outputs: Sequence[Output], **options: Any) -> None:
            raise StreamError("no answer in time")

    full.serve_with(append_to=Ambiguous())
    decision = {"dataset": "news", "id": item["id"], "reviewer": "anna", "verdict": "ok"}
    assert full.client.post("/v1/decisions", json=decision).status_code == 503
    full.serve_with(append_to=log)
    with full.run_projector():
        assert withdraw(full, item).status_code == 202
    assert withdraw(full, other).status_code == 202  # the queue does not read


def test_all_decisions_are_written_or_none(full: ApiHarness) -> None:
    items = full.client.get("/v1/review", params={"dataset": "news"}).json()["items"]
    good = [{"dataset": "news", "id": item["id"], "reviewer": "anna", "verdict": "ok"} for item in items[:3]]
    for bad, status, field in (
        ({"dataset": "news", "id": "none", "reviewer": "anna", "verdict": "ok"}, 404, "decisions.3.id"),
        ({**good[0], "verdict": "maybe"}, 422, "decisions.3.verdict"),
        ({**good[0], "revision": 99}, 422, "decisions.3.revision"),
        ({**good[0], "labels": ["O"] * 99}, 422, "decisions.3.labels"),
        ({**good[0], "verdict": "error", "words": [99]}, 422, "decisions.3.words"),
        (
            {**good[0], "verdict": "error", "labels": ["B-GHOST", *items[0]["labels"][1:]]},
            422,
            "decisions.3.labels",
        ),
        ({**good[0], "colour": "red"}, 422, "decisions.3.colour"),
        ("text", 422, "decisions.3"),
    ):
        answer = full.client.post("/v1/decisions", json={"decisions": [*good, bad]})
        assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert full.log.read(TOPICS.decisions, 0, 10) == []
    assert full.client.post("/v1/decisions", json={"decisions": good}).json()["accepted"] == 3
    assert len(full.log.read(TOPICS.decisions, 0, 10)) == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"decisions": []}, "decisions"),
        ({"decisions": {}}, "decisions"),
        ({"decisions": [], "extra": 1}, "extra"),
        ({}, "id"),
        ({"id": "a", "reviewer": "anna", "verdict": "ok", "decided_at": 7}, "decided_at"),
    ],
)
def test_decisions_that_break_a_rule(quiet: ApiHarness, body: dict[str, Any], field: str) -> None:
    answer = quiet.client.post("/v1/decisions", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_queue_that_is_being_built_answers_503(harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness.projector, "_caught_up", False)
    answer = harness.client.post("/v1/decisions", json={"id": "a", "reviewer": "anna", "verdict": "ok"})
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:labelwatch:problem:not-ready")
    assert answer.headers["Retry-After"]


def test_a_log_that_fails_answers_503(full: ApiHarness) -> None:
    class Gone:
        def append(self, outputs: object, *, timeout: float = 30.0) -> None:
            raise StreamError("nobody there")

    item = first(full)
    decision = {"dataset": item["dataset"], "id": item["id"], "reviewer": "anna", "verdict": "ok"}
    answer = full.serve_with(append_to=Gone()).post("/v1/decisions", json=decision)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


# -- live updates ------------------------------------------------------------------------------------------------------


def test_listeners_get_an_event_for_each_change(full: ApiHarness) -> None:
    async def listen() -> list[str]:
        counters = QueueWatcher(full.backend, poll_interval=0.01)
        heard = []
        async for event in stream_queue_events(full.backend, counters, "news"):
            heard.append(event)
            if len(heard) == 2:
                full.send(*make_sentences(1, seed=5, dataset="news"))
            if len(heard) == 3:
                full.backend.draining.set()
        return heard

    retry, before, after = asyncio.run(listen())
    assert retry.startswith("retry:")
    kinds = [event.splitlines()[0] for event in (before, after)]
    assert kinds == ["event: queue"] * 2
    events = [json.loads(event.splitlines()[1].removeprefix("data: ")) for event in (before, after)]
    assert [event["counts"]["open"] for event in events] == [12, 13]
    assert events[0]["version"] < events[1]["version"]


def test_all_listeners_of_a_version_share_one_query_and_one_text(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    count_items = full.backend.queue.count_items

    def count(datasets: Collection[str] | None = None) -> dict[str, int]:
        asked.append(datasets)
        return count_items(datasets)

    monkeypatch.setattr(full.backend.queue, "count_items", count)

    async def listen() -> list[str]:
        watcher = QueueWatcher(full.backend, poll_interval=0.0)
        streams = [stream_queue_events(full.backend, watcher, "news") for _ in range(20)]
        return [await anext(stream) for _ in range(2) for stream in streams][20:]

    heard = asyncio.run(listen())
    assert len({id(event) for event in heard}) == 1
    assert asked == [("news",)]


def test_requests_do_not_fit_the_ranker(full: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the projection does, in its own thread: a request appends the decision to the log."""
    fitted: list[int] = []
    refit = Ranker.refit

    def count(decisions: Sequence[ReviewedWords]) -> Ranker:
        fitted.append(len(decisions))
        return refit(decisions)

    monkeypatch.setattr(Ranker, "refit", count)
    monkeypatch.setattr("service.review.ranker.MIN_DECISIONS", 5)
    for item in full.client.get("/v1/review", params={"dataset": "news"}).json()["items"]:
        body = {"dataset": "news", "id": item["id"], "reviewer": "ann", "verdict": "error"}
        assert full.client.post("/v1/decisions", json=body).status_code == 202
    assert full.client.get("/v1/overview", params={"dataset": "news"}).status_code == 200
    assert fitted == []
    full.project()
    assert fitted


def test_a_heartbeat_is_sent_while_nothing_changes(harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.routes.review.events.HEARTBEAT_INTERVAL_S", 0.0)

    async def listen() -> list[str]:
        heard = []
        async for event in stream_queue_events(
            harness.backend, QueueWatcher(harness.backend, poll_interval=0.01), None
        ):
            heard.append(event)
            if len(heard) == 3:
                harness.backend.draining.set()
        return heard

    assert asyncio.run(listen())[2].startswith(":")


def test_the_stream_ends_when_the_service_does(full: ApiHarness) -> None:
    class Once:
        """Drains as soon as the first answer is asked for."""

        version = 1

        def count_items(self, dataset: str | None = None) -> dict[str, int]:
            full.backend.draining.set()
            return {"open": 1}

    client = full.serve_with(queue=Once())
    full.app.state.queue_watcher.poll_interval = 0.0
    answer = client.get("/v1/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert '"counts": {"open": 1}' in answer.text


def test_too_many_listeners_are_refused(harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.routes.review.events.MAX_LISTENERS", 0)
    assert harness.client.get("/v1/events").status_code == 429


def test_of_many_simultaneous_listeners_no_more_than_the_limit_are_accepted(
    harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.routes.review.events.MAX_LISTENERS", 3)
    with ExitStack() as leaving:
        port = leaving.enter_context(live_server.serve_app(harness.app))
        clients = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(20)]
        for client in clients:
            leaving.enter_context(client)
        for client in clients:
            client.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        heard = [client.recv(12, socket.MSG_WAITALL) for client in clients]
        assert sorted(heard) == [b"HTTP/1.1 200"] * 3 + [b"HTTP/1.1 429"] * 17
        for client in clients:
            client.close()
        wait_for(lambda: harness.app.state.queue_watcher.listeners == 0)  # a client that disconnects makes room


def test_a_correction_is_a_valid_sequence(full: ApiHarness) -> None:
    [item, *_] = full.client.get("/v1/review", params={"dataset": "news"}).json()["items"]
    alternating = [("I-PER", "I-LOC")[index % 2] for index in range(len(item["labels"]))]
    decision = {"dataset": "news", "id": item["id"], "reviewer": "anna", "verdict": "error", "labels": alternating}
    answer = full.client.post("/v1/decisions", json=decision)
    assert (answer.status_code, answer.json()["field"]) == (422, "labels")
    detail = answer.json()["detail"]
    assert f"word 0 ({item['tokens'][0]!r})" in detail
    assert "'I-PER' can't begin a sentence in scheme iob2: write 'B-PER' for 'I-PER'" in detail


def test_the_progress_of_the_day(full: ApiHarness) -> None:
    for number, decided_at in enumerate(("2024-05-31T12:00:00Z", None, None)):
        decision = {
            "dataset": "news",
            "id": f"0-{number}",
            "reviewer": ("anna", "anna", "ben")[number],
            "verdict": "ok",
        }
        time = {} if decided_at is None else {"decided_at": decided_at}
        assert full.client.post("/v1/decisions", json={**decision, **time}).status_code == 202
    full.project()
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    query = {"dataset": "news", "reviewer": "anna", "since": hour_ago}
    found = full.client.get("/v1/review/progress", params=query).json()
    assert {name: value for name, value in found.items() if name != "since"} == {
        "decided": 2,
        "decided_by_reviewer": 1,
        "last_hour": 1,
        "open": 9,
        "unsure": 0,
    }
    everybody = full.client.get("/v1/review/progress", params={"since": "2024-05-31T00:00:00+02:00"}).json()
    assert (everybody["decided"], everybody["decided_by_reviewer"], everybody["open"]) == (3, None, 12)
    assert everybody["last_hour"] == 2
    assert full.client.get("/v1/review/progress").json()["since"].endswith("T00:00:00Z")
    for since in ("yesterday", "2024-05-31T00:00:00"):
        refused = full.client.get("/v1/review/progress", params={"since": since})
        assert (refused.status_code, refused.json()["field"]) == (422, "since")


def read_priorities(harness: ApiHarness, dataset: str | None) -> list[dict[str, Any]]:
    query = {} if dataset is None else {"dataset": dataset}
    bins: list[dict[str, Any]] = harness.client.get("/v1/overview", params=query).json()["priorities"]
    return bins


def test_the_overview_has_the_priorities_of_all_sentences(full: ApiHarness) -> None:
    wait_for(lambda: sum(entry["sentences"] for entry in read_priorities(full, None)) == 15)
    for dataset, count in (("news", 12), ("blogs", 3), (None, 15)):
        bins = read_priorities(full, dataset)
        assert sum(entry["items"] for entry in bins) == count
        assert sum(entry["sentences"] for entry in bins) == count
        assert (bins[0]["low"], bins[-1]["high"]) == (0, 1)
    assert full.client.get("/v1/overview", params={"dataset": "news"}).json()["likelihood_bands"] == {
        "very_likely_below": 0.1,
        "probably_below": 0.35,
        "decisions": 0,
    }
    assert first(full)["likelihood"] in ("very_likely_wrong", "probably_wrong", "may_be_right")


def test_the_overview_goes_on_without_the_model_of_a_dataset(full: ApiHarness) -> None:
    settings = DatasetSettings(name="med", version=1, model="gone")
    full.log.append([Output(TOPICS.datasets, b"med", settings.model_dump_json().encode())])
    wait_for(lambda: "med" in full.backend.state_view.list_names())
    for query in ({}, {"dataset": "med"}):
        answer = full.client.get("/v1/overview", params=query)
        assert answer.status_code == 200, answer.text
