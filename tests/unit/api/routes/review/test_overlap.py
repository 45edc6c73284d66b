"""Several independent decisions per item over REST: blind until complete, then adjudication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import BelowPolicy, DatasetSettings
from service.datasets.settings_records import build_settings_message
from service.review.settlement import MAX_REVIEWERS_PER_ITEM
from tests.support.api_harness import TOPICS
from tests.support.command_harness import make_sentences

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness


def set_overlap(harness: ApiHarness, overlap: int, version: int = 1) -> None:
    settings = DatasetSettings(
        name="news", flag_policy=BelowPolicy(kind="below", cut=2.0), overlap=overlap, version=version
    )
    harness.worker._datasets.put(settings)
    harness.log.append([build_settings_message(TOPICS.datasets, settings.model_dump(mode="json"))])
    harness.project()


@pytest.fixture
def double(harness: ApiHarness) -> ApiHarness:
    """A queue with 4 items that need two decisions each."""
    set_overlap(harness, 2)
    harness.send(*make_sentences(4, dataset="news"))
    return harness


def list_items(harness: ApiHarness, **query: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = harness.client.get("/v1/review", params={"dataset": "news", **query}).json()["items"]
    return items


def decide(harness: ApiHarness, sentence_id: str, reviewer: str, verdict: str = "ok", **more: Any) -> Any:
    body = {"dataset": "news", "id": sentence_id, "reviewer": reviewer, "verdict": verdict, **more}
    answer = harness.client.post("/v1/decisions", json=body)
    harness.project()
    return answer


def test_two_reviewers_and_an_adjudicator(double: ApiHarness) -> None:
    name = list_items(double)[0]["id"]
    path = f"/v1/review/news/{name}"
    assert decide(double, name, "ann", "error", note="a town").status_code == 202
    for query in ({}, {"viewer": "bob"}):
        item = double.client.get(path, params=query).json()
        assert (item["state"], item["decisions"], item["decision_count"]) == ("open", [], 1)
        assert "a town" not in double.client.get("/v1/review", params={"state": "all", **query}).text
    assert double.client.get(path, params={"viewer": "ann"}).json()["decisions"][0]["note"] == "a town"
    assert name not in {item["id"] for item in list_items(double, viewer="ann")}
    early = decide(double, name, "cyd", adjudication=True)
    assert (early.status_code, early.json()["field"]) == (409, "adjudication")
    assert decide(double, name, "bob", "ok").status_code == 202
    (item,) = list_items(double, state="adjudication")
    assert [each["reviewer"] for each in item["decisions"]] == ["ann", "bob"]
    late = decide(double, name, "cyd")
    assert (late.status_code, late.json()["field"]) == (409, "reviewer")
    own = decide(double, name, "bob", adjudication=True)
    assert (own.status_code, own.json()["field"]) == (409, "adjudication")
    unsure = decide(double, name, "cyd", "unsure", adjudication=True)
    assert (unsure.status_code, unsure.json()["field"]) == (422, "verdict")
    assert decide(double, name, "cyd", "error", adjudication=True).status_code == 202
    first, *_, last = double.read_messages(TOPICS.audit)
    assert "adjudication" not in first["details"]
    assert last["details"]["adjudication"] is True
    assert double.client.get(path).json()["state"] == "decided"
    assert double.client.get("/v1/overview", params={"dataset": "news"}).json()["precision"] == 1.0


def test_a_conflict_in_a_list_names_its_place_and_nothing_is_written(double: ApiHarness) -> None:
    name, other = (item["id"] for item in list_items(double)[:2])
    for reviewer in ("ann", "bob"):
        decide(double, name, reviewer)
    before = len(double.read_messages(TOPICS.decisions))
    good, bad = (
        {"dataset": "news", "id": sentence_id, "reviewer": "cyd", "verdict": "ok"} for sentence_id in (other, name)
    )
    answer = double.client.post("/v1/decisions", json={"decisions": [good, bad]})
    assert (answer.status_code, answer.json()["field"]) == (409, "decisions.1.reviewer")
    assert len(double.read_messages(TOPICS.decisions)) == before


def test_reviewers_per_item_are_limited(double: ApiHarness) -> None:
    set_overlap(double, 1, version=2)
    name = list_items(double)[0]["id"]
    for number in range(MAX_REVIEWERS_PER_ITEM):
        assert decide(double, name, f"r{number}").status_code == 202
    refused = decide(double, name, "zoe")
    assert (refused.status_code, refused.json()["field"]) == (409, "reviewer")
    assert decide(double, name, "r3", "error").status_code == 202  # changes the own decision


@pytest.mark.parametrize("overlap", [0, 11, 1.5, "2"])
def test_an_overlap_out_of_range_is_refused(quiet: ApiHarness, overlap: object) -> None:
    answer = quiet.client.patch("/v1/datasets/news", json={"overlap": overlap})
    assert (answer.status_code, answer.json()["field"]) == (422, "overlap")


def test_a_decision_ends_the_claim_of_its_reviewer(double: ApiHarness) -> None:
    name = list_items(double)[0]["id"]
    with double.run_projector():
        assert double.client.post(f"/v1/review/news/{name}/claim", json={"reviewer": "ann"}).status_code == 202
    double.project()
    assert decide(double, name, "ann").json()["accepted"] == 1
    assert double.client.get(f"/v1/review/news/{name}").json()["claimed_by"] is None
    assert name in {item["id"] for item in list_items(double, reviewer="bob")}
