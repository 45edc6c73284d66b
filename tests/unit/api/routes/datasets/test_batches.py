"""Batches over REST: the counts, the estimate and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from service.contracts import BudgetPolicy, DatasetSettings
from tests.support.command_harness import make_sentences

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

BATCH = "vendor/7 ü"


@pytest.fixture
def delivered(harness: ApiHarness) -> ApiHarness:
    """A delivery of 40 sentences, all of them in review."""
    policy = BudgetPolicy(kind="budget", share=0.1)
    harness.worker._datasets.put(DatasetSettings(name="news", flag_policy=policy, control_share=1.0))
    harness.send(*make_sentences(40, dataset="news", batch=BATCH))
    harness.send(*make_sentences(3, seed=1, dataset="news", batch="8"))
    while harness.backend.state_view.step():
        pass
    return harness


def get(harness: ApiHarness, batch: str = BATCH, **query: Any) -> dict[str, Any]:
    response = harness.client.get(f"/v1/datasets/news/batches/{quote(batch, safe='')}", params=query)
    assert response.status_code == 200, response.text
    report = response.json()
    assert isinstance(report, dict)
    return report


def decide(harness: ApiHarness, verdict: str) -> None:
    items = harness.client.get("/v1/review", params={"batch": BATCH, "state": "all", "limit": 200}).json()["items"]
    for item in items:
        about = {name: item[name] for name in ("dataset", "id", "revision")}
        response = harness.client.post("/v1/decisions", json={**about, "reviewer": "ada", "verdict": verdict})
        assert response.status_code == 202, response.text
    harness.project()


def test_a_batch_is_reviewed_and_accepted(delivered: ApiHarness) -> None:
    before = get(delivered, max_error_rate=0.05)
    assert (before["sentences"], before["open"], before["verdict"]) == (40, 40, "review")
    assert 0 < before["items_to_review"] <= 40
    decide(delivered, "ok")
    after = get(delivered, max_error_rate=0.05)
    assert (after["low"], after["error_rate"], after["high"], after["verdict"]) == (0, 0, 0, "accept")
    decide(delivered, "error")
    assert get(delivered, max_error_rate=0.05)["verdict"] == "reject"


def test_without_a_limit_there_is_an_estimate_and_no_verdict(delivered: ApiHarness) -> None:
    assert get(delivered)["verdict"] is None
    delivered.client.patch("/v1/datasets/news", json={"max_error_rate": 0.05})
    while delivered.backend.state_view.step():
        pass
    assert (get(delivered)["max_error_rate"], get(delivered)["verdict"]) == (0.05, "review")


def test_all_batches_are_listed_the_last_first(delivered: ApiHarness) -> None:
    listed = delivered.client.get("/v1/datasets/news/batches").json()["batches"]
    assert [(each["batch"], each["sentences"]) for each in listed] == [("8", 3), (BATCH, 40)]


def test_errors_name_the_field(delivered: ApiHarness) -> None:
    client = delivered.client
    assert client.get("/v1/datasets/news/batches/9").status_code == 404
    assert client.get("/v1/datasets/nowhere/batches").status_code == 404
    assert client.get("/v1/datasets/news/batches/8", params={"max_error_rate": 2}).status_code == 422
    assert client.get("/v1/datasets/news/batches", params={"max_rate": 0.1}).status_code == 422
