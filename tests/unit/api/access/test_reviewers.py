"""In whose name callers decide, claim and withdraw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import generate_key, hash_key
from service.contracts import DatasetSettings
from service.contracts.datasets.flag_policies import BelowPolicy
from tests.support.api_harness import TOPICS

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from tests.support.api_harness import ApiHarness

DANA, EMIL, LEAD = generate_key(), generate_key(), generate_key()
KEYS = f"dana:reviewer:{hash_key(DANA)},emil:reviewer:{hash_key(EMIL)},lead:write:{hash_key(LEAD)}"
ITEM = {"id": "1", "dataset": "med", "tokens": ["Riga"], "labels": ["O"]}
EVERYTHING = DatasetSettings(
    name="med", flag_policy=BelowPolicy(kind="below", cut=2.0)
)  # sends every sentence to review
DECISION = {"dataset": "med", "id": "1", "verdict": "ok"}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def send_item(harness: ApiHarness) -> None:
    harness.worker._datasets.put(EVERYTHING)
    harness.send(ITEM)


@pytest.fixture
def client(harness: ApiHarness) -> TestClient:
    send_item(harness)
    return harness.serve_with_limits(keys=KEYS)


def decide(client: TestClient, key: str, **more: Any) -> Any:
    return client.post("/v1/decisions", json={**DECISION, **more}, headers=bearer(key))


def read_decisions(harness: ApiHarness) -> list[tuple[str, str | None, bool]]:
    return [
        (message["reviewer"], message.get("recorded_by"), message.get("withdrawn", False))
        for message in harness.read_messages(TOPICS.decisions)
    ]


def test_a_decision_carries_the_name_of_its_key(harness: ApiHarness, client: TestClient) -> None:
    assert decide(client, DANA).status_code == 202
    assert decide(client, EMIL, reviewer="emil").status_code == 202
    assert read_decisions(harness) == [("dana", None, False), ("emil", None, False)]


def test_the_progress_is_that_of_the_key(harness: ApiHarness, client: TestClient) -> None:
    """It is 0 for a key that decides under other names."""
    assert decide(client, LEAD, reviewer="dana").status_code == 202
    harness.project()
    for key, own in ((DANA, 1), (LEAD, 0)):
        found = client.get("/v1/review/progress", headers=bearer(key)).json()
        assert (found["decided"], found["decided_by_reviewer"], found["last_hour"]) == (1, own, own)


def test_the_audit_trail_refers_to_the_decision(harness: ApiHarness, client: TestClient) -> None:
    assert decide(client, LEAD, reviewer="dana", note="a secret").status_code == 202
    (record,) = harness.read_messages(TOPICS.audit)
    assert (record["actor"], record["action"], record["dataset"], record["subject"]) == ("lead", "decision", "med", "1")
    assert record["details"] == {"verdict": "ok", "reviewer": "dana", "revision": 0}
    assert "secret" not in str(record)


def test_nobody_decides_or_withdraws_in_the_name_of_another(harness: ApiHarness, client: TestClient) -> None:
    decide(client, DANA)
    for more in ({"reviewer": "dana"}, {"reviewer": "dana", "withdrawn": True}):
        refused = decide(client, EMIL, **more)
        assert (refused.status_code, refused.json()["field"]) == (403, "reviewer")
        assert "'emil' decides and claims as emil" in refused.json()["detail"]
    several = {"decisions": [DECISION, {**DECISION, "reviewer": "dana"}]}
    refused = client.post("/v1/decisions", json=several, headers=bearer(EMIL))
    assert (refused.status_code, refused.json()["field"]) == (403, "decisions.1.reviewer")
    assert read_decisions(harness) == [("dana", None, False)]


def test_the_author_or_an_admin_withdraws_a_decision(harness: ApiHarness, client: TestClient) -> None:
    decide(client, DANA)
    assert decide(client, DANA, withdrawn=True).status_code == 202
    assert read_decisions(harness)[-1] == ("dana", None, True)
    assert decide(client, LEAD, reviewer="dana", withdrawn=True).status_code == 202
    assert read_decisions(harness)[-1] == ("dana", "lead", True)


def test_an_admin_decides_in_the_name_of_another_and_it_is_recorded(harness: ApiHarness, client: TestClient) -> None:
    assert decide(client, LEAD, reviewer="Zoë").status_code == 202
    assert decide(client, LEAD).status_code == 202
    assert read_decisions(harness) == [("Zoë", "lead", False), ("lead", None, False)]
    harness.project()
    (first, _) = client.get("/v1/review/med/1", headers=bearer(DANA)).json()["decisions"]
    assert (first["reviewer"], first["recorded_by"]) == ("Zoë", "lead")


def test_nobody_chooses_who_recorded_a_decision(harness: ApiHarness, client: TestClient) -> None:
    assert decide(client, DANA, recorded_by="lead").status_code == 202
    assert read_decisions(harness) == [("dana", None, False)]


def test_claims_carry_the_name_of_their_key(harness: ApiHarness, client: TestClient) -> None:
    path = "/v1/review/med/1/claim"
    with harness.run_projector():
        claimed = client.post(path, json={}, headers=bearer(DANA))
        assert (claimed.status_code, claimed.json()["reviewer"]) == (202, "dana")
        assert client.post(path, json={"reviewer": "dana"}, headers=bearer(EMIL)).status_code == 403
        assert client.post(path, json={}, headers=bearer(EMIL)).status_code == 409
        assert client.delete(f"{path}?reviewer=dana", headers=bearer(EMIL)).status_code == 403
        assert client.delete(f"{path}?reviewer=dana", headers=bearer(LEAD)).json()["recorded_by"] == "lead"
        assert client.delete(path, headers=bearer(DANA)).json()["reviewer"] == "dana"


def test_a_reviewer_does_not_look_as_another(client: TestClient) -> None:
    for path in ("/v1/review?viewer=dana", "/v1/review?reviewer=dana", "/v1/review/med/1?viewer=dana"):
        assert client.get(path, headers=bearer(DANA)).status_code == 200
        assert client.get(path, headers=bearer(LEAD)).status_code == 200
        assert client.get(path, headers=bearer(EMIL)).status_code == 403


def test_without_keys_the_reviewer_is_named(harness: ApiHarness) -> None:
    send_item(harness)
    missing = harness.client.post("/v1/decisions", json=DECISION)
    assert (missing.status_code, missing.json()["field"]) == (422, "reviewer")
    assert harness.client.post("/v1/decisions", json={**DECISION, "reviewer": "anna"}).status_code == 202
    assert harness.client.delete("/v1/review/med/1/claim").status_code == 422
    assert read_decisions(harness) == [("anna", None, False)]
