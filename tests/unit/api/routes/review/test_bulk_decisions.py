"""Decisions about many items over REST: preview, apply, apply again, undo."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from service.api.routes.review.previews import BulkFilter
from service.contracts import BelowPolicy, DatasetSettings
from service.review.queue.filters import QueueFilter
from tests.support.api_harness import TOPICS
from tests.support.command_harness import make_sentences

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

BELOW = BelowPolicy(kind="below", cut=2.0)  # flags every sentence


@pytest.fixture
def full(harness: ApiHarness) -> ApiHarness:
    """A queue with 12 items."""
    harness.worker._datasets.put(DatasetSettings(name="news", flag_policy=BELOW))
    harness.send(*make_sentences(12, dataset="news", annotator="anna"))
    return harness


def preview(harness: ApiHarness, **body: Any) -> dict[str, Any]:
    answer = harness.client.post("/v1/decisions/preview", json={"reviewer": "anna", **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def decide(harness: ApiHarness, decisions: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    answer = harness.client.post("/v1/decisions", json={"decisions": decisions, "partial": True, **more})
    assert answer.status_code == 202, answer.text
    harness.project()
    accepted: dict[str, Any] = answer.json()
    return accepted


def read_overview(harness: ApiHarness) -> dict[str, Any]:
    """What the overview has from the queue: `priorities` are of the state, which a thread reads beside the test."""
    overview: dict[str, Any] = harness.client.get("/v1/overview").json()
    return {name: value for name, value in overview.items() if name != "priorities"}


def count_open(harness: ApiHarness) -> int:
    counts: dict[str, int] = read_overview(harness)["counts"]
    return counts["open"]


def test_a_preview_writes_nothing_and_its_decisions_are_accepted_as_they_are(full: ApiHarness) -> None:
    found = preview(full, action="accept", filter={"dataset": "news"})
    assert found["total"] == 12
    assert len(found["planned"]) + len(found["left_out"]) == 12
    assert full.log.read(TOPICS.decisions, 0, 100) == []
    decisions = [entry["decision"] for entry in found["planned"]]
    assert decisions
    assert decide(full, decisions)["accepted"] == len(decisions)
    records = full.log.read(TOPICS.decisions, 0, 100)
    assert len(records) == len(decisions)  # one per item
    for record, decision in zip(records, decisions, strict=True):
        written = json.loads(record.value or b"")
        assert (written["id"], written["labels"]) == (decision["id"], decision["labels"])
        assert written["shown"]["labels"]
    assert count_open(full) == 12 - len(decisions)


def test_the_same_request_again_changes_nothing_and_undo_opens_exactly_these_items(full: ApiHarness) -> None:
    full.client.post(
        "/v1/decisions",
        json={"dataset": "news", "id": "0-0", "reviewer": "anna", "verdict": "unsure", "note": "mine"},
    )
    full.project()
    found = preview(full, action="ok", filter={"dataset": "news"})
    decisions = [
        {**entry["decision"], "decided_at": "2024-05-31T12:00:00Z"}
        for entry in found["planned"]
        if entry["decision"]["id"] != "0-1"
    ]
    assert len(decisions) == 10
    decide(full, decisions)
    overview = read_overview(full)
    assert decide(full, decisions) | {"request_id": ""} == {"accepted": 10, "left_out": [], "request_id": ""}
    assert read_overview(full) == overview
    undo = [{**decision, "withdrawn": True} for decision in decisions]
    assert decide(full, undo)["accepted"] == 10
    assert count_open(full) == 11  # all but the one that was decided before
    assert full.client.get("/v1/review/news/0-0").json()["state"] == "decided"


def test_a_withdrawal_of_a_decision_that_was_never_made_is_left_out(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)  # never too late, on a busy machine either
    withdrawal = {"dataset": "news", "id": "0-1", "reviewer": "anna", "verdict": "ok", "withdrawn": True}
    with full.run_projector():
        answer = full.client.post("/v1/decisions", json={"decisions": [withdrawal], "partial": True}).json()
    (left_out,) = answer["left_out"]
    assert (answer["accepted"], left_out["id"], left_out["reason"]) == (0, "0-1", "missing")
    assert left_out["detail"].startswith("'anna' has made no decision about news/0-1")


def test_a_selection_names_its_items(full: ApiHarness) -> None:
    selection = [
        {"dataset": "news", "id": "0-1"},
        {"dataset": "news", "id": "0-2", "revision": 9},
        {"dataset": "news", "id": "none"},
        {"dataset": "news", "id": "0-1"},
    ]
    found = preview(full, action="unsure", items=selection)
    assert found["total"] == 3
    assert [entry["decision"]["id"] for entry in found["planned"]] == ["0-1"]
    assert {entry["id"]: entry["reason"] for entry in found["left_out"]} == {"0-2": "changed", "none": "missing"}


def test_a_filter_is_read_page_by_page(full: ApiHarness) -> None:
    ids: list[str] = []
    after: dict[str, str] = {}
    while True:
        found = preview(full, action="ok", filter={"dataset": "news"}, limit=5, **after)
        assert found["total"] == 12
        ids += [entry["decision"]["id"] for entry in found["planned"]]
        if "next" not in found:
            break
        after = {"after": found["next"]}
    queue = full.client.get("/v1/review", params={"dataset": "news"}).json()["items"]
    assert ids == [item["id"] for item in queue]


def test_items_that_changed_since_the_preview_are_left_out(full: ApiHarness) -> None:
    decisions = [entry["decision"] for entry in preview(full, action="ok", filter={"dataset": "news"})["planned"]]
    full.client.post(
        "/v1/decisions", json={"dataset": "news", "id": "0-3", "reviewer": "ben", "verdict": "error", "words": [0]}
    )
    full.project()
    body = {**decisions[0], "revision": 9}
    left = decide(full, [body, *decisions[1:], {**decisions[0], "id": "none"}])
    reasons = {entry["id"]: entry["reason"] for entry in left["left_out"]}
    assert reasons == {decisions[0]["id"]: "changed", "0-3": "decided", "none": "missing"}
    assert left["accepted"] == 10


def test_a_malformed_decision_refuses_all(full: ApiHarness) -> None:
    good = {"dataset": "news", "id": "0-1", "reviewer": "anna", "verdict": "ok"}
    body = {"decisions": [good, {**good, "verdict": "maybe"}], "partial": True}
    answer = full.client.post("/v1/decisions", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "decisions.1.verdict")
    assert full.log.read(TOPICS.decisions, 0, 10) == []


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"action": "ok"}, 422, "items"),
        ({"action": "ok", "items": [], "filter": {}}, 422, "items"),
        ({"action": "shrug", "filter": {}}, 422, "action"),
        ({"action": "ok", "filter": {"colour": "red"}}, 422, "filter.colour"),
        ({"action": "ok", "filter": {"q": "..."}}, 422, "q"),
        ({"action": "ok", "filter": {}, "after": "x"}, 422, "after"),
        ({"action": "ok", "filter": {}, "limit": 201}, 422, "limit"),
        ({"action": "ok", "items": [{"id": str(number)} for number in range(4)]}, 413, "items"),
    ],
)
def test_previews_that_break_a_rule(harness: ApiHarness, body: dict[str, Any], status: int, field: str) -> None:
    client = harness.serve_with_limits(max_sentences=3)
    answer = client.post("/v1/decisions/preview", json={"reviewer": "anna", **body})
    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_partial_is_true_or_false(quiet: ApiHarness) -> None:
    body = {"decisions": [{"id": "a", "reviewer": "anna", "verdict": "ok"}], "partial": "yes"}
    answer = quiet.client.post("/v1/decisions", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "partial")


def test_a_preview_takes_every_filter_of_the_queue() -> None:
    """The others are not for REST, or come from the caller."""
    others = {"reviewer", "viewer", "datasets", "phrases"}
    assert set(BulkFilter.model_fields) == {field.name for field in fields(QueueFilter)} - others
