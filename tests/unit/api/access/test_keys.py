"""Keys of the topic over REST: created, listed, rotated and revoked without a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import generate_key, hash_key
from service.access.key_view import KeyView
from service.log.protocol import Output
from tests.support.api_harness import TOPICS, wait_for

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from tests.support.api_harness import ApiHarness

ADMIN = generate_key()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def client(harness: ApiHarness) -> TestClient:
    return harness.serve_with_limits(keys=f"lead:admin:{hash_key(ADMIN)}")


def create(client: TestClient, name: str = "dana", role: str = "reviewer", **more: Any) -> str:
    answer = client.post("/v1/keys", json={"name": name, "role": role, **more}, headers=bearer(ADMIN))
    assert answer.status_code == 201, answer.text
    key: str = answer.json()["key"]
    return key


def test_a_new_key_works_at_once_and_only_its_hash_is_stored(harness: ApiHarness, client: TestClient) -> None:
    key = create(client, datasets=["med"])
    me = client.get("/v1/me", headers=bearer(key)).json()
    assert (me["name"], me["role"], me["datasets"]) == ("dana", "reviewer", ["med"])
    (stored,) = harness.log.read(TOPICS.keys, 0, 10)
    assert key.encode() not in (stored.value or b"")
    assert hash_key(key).encode() in (stored.value or b"")
    listed = client.get("/v1/keys", headers=bearer(ADMIN))
    assert key not in listed.text
    assert hash_key(key) not in listed.text
    assert [(each["name"], each["source"], each["created_by"]) for each in listed.json()["keys"]] == [
        ("lead", "settings", None),
        ("dana", "topic", "lead"),
    ]


def test_a_rotated_key_replaces_the_old_one(client: TestClient) -> None:
    old = create(client)
    new = client.post("/v1/keys/dana/rotate", headers=bearer(ADMIN), json={}).json()["key"]
    assert client.get("/v1/me", headers=bearer(new)).json()["name"] == "dana"
    assert client.get("/v1/me", headers=bearer(old)).status_code == 401


def test_a_revoked_key_stops_working_and_its_name_may_get_another(client: TestClient) -> None:
    key = create(client)
    revoked = client.delete("/v1/keys/dana", headers=bearer(ADMIN)).json()
    assert revoked["revoked_by"] == "lead"
    assert client.get("/v1/me", headers=bearer(key)).status_code == 401
    assert client.delete("/v1/keys/dana", headers=bearer(ADMIN)).status_code == 404
    assert client.get("/v1/me", headers=bearer(create(client))).status_code == 200


def test_a_name_has_one_key(client: TestClient) -> None:
    create(client)
    for name in ("dana", "lead"):
        refused = client.post("/v1/keys", json={"name": name, "role": "read"}, headers=bearer(ADMIN))
        assert (refused.status_code, refused.json()["field"]) == (409, "name")
    assert "LABELWATCH_API_KEYS" in client.delete("/v1/keys/lead", headers=bearer(ADMIN)).json()["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "a b", "role": "read"}, "name"),
        ({"name": "x", "role": "boss"}, "role"),
        ({"name": "x", "role": "read", "datasets": ["A B"]}, "datasets.0"),
        ({"name": "x", "role": "label-studio"}, "datasets"),
        ({"name": "x", "role": "read", "key": "lw_mine"}, "key"),
    ],
)
def test_wrong_fields_are_named(client: TestClient, body: dict[str, Any], field: str) -> None:
    refused = client.post("/v1/keys", json=body, headers=bearer(ADMIN))
    assert (refused.status_code, refused.json()["field"]) == (422, field)


def test_nobody_revokes_their_own_key(client: TestClient) -> None:
    second = create(client, "second", "admin")
    refused = client.delete("/v1/keys/second", headers=bearer(second))
    assert (refused.status_code, "their own key" in refused.json()["detail"]) == (409, True)


def test_the_first_key_ends_keyless_use(harness: ApiHarness) -> None:
    client = harness.client
    assert client.get("/v1/datasets").status_code == 200
    assert client.post("/v1/keys", json={"name": "dana", "role": "reviewer"}).status_code == 422
    key = client.post("/v1/keys", json={"name": "lead", "role": "admin"}).json()["key"]
    assert client.get("/v1/datasets").status_code == 401
    assert client.get("/v1/datasets", headers=bearer(key)).status_code == 200


def test_with_all_keys_revoked_the_service_is_not_open(harness: ApiHarness) -> None:
    first = harness.client.post("/v1/keys", json={"name": "a", "role": "admin"}).json()["key"]
    second = harness.client.post("/v1/keys", json={"name": "b", "role": "read"}, headers=bearer(first)).json()["key"]
    record = harness.log.read(TOPICS.keys, 0, 10)[0]
    value = (record.value or b"").replace(b'"created_by"', b'"revoked_at":"2024-05-31T12:00:00Z","created_by"')
    harness.log.append([Output(TOPICS.keys, b"a", value)])
    wait_for(lambda: harness.client.get("/v1/me", headers=bearer(first)).status_code == 401)
    assert harness.client.get("/v1/me", headers=bearer(second)).status_code == 200
    assert harness.client.get("/v1/datasets").status_code == 401


def test_a_record_that_cannot_be_read_is_named_and_stops_nothing(harness: ApiHarness, client: TestClient) -> None:
    key = create(client)
    harness.log.append([Output(TOPICS.keys, b"dana", b"{"), Output(TOPICS.keys, None, b"[]")])
    wait_for(lambda: client.get("/v1/me", headers=bearer(key)).status_code == 401)  # it may have been a revocation
    degraded = client.get("/readyz").json()["degraded"]["keys"]
    assert "and 1 more" in degraded
    assert client.get("/v1/me", headers=bearer(create(client, "emil"))).status_code == 200
    assert client.get("/v1/me", headers=bearer(create(client))).status_code == 200


def test_nobody_is_let_in_before_the_keys_are_read(harness: ApiHarness) -> None:
    harness.serve_with(key_view=KeyView(harness.log, TOPICS.keys))
    refused = harness.client.get("/v1/datasets")
    assert (refused.status_code, refused.json()["type"]) == (503, "urn:labelwatch:problem:not-ready")
    assert harness.client.get("/readyz").json()["conditions"]["keys"] == "the keys are still being read"
    assert "the keys are still being read: try again" in refused.json()["detail"]


def test_keys_that_cannot_be_read_are_not_said_to_be_on_their_way(harness: ApiHarness) -> None:
    view = KeyView(harness.log, TOPICS.keys)
    view.error = "the embedded log failed"
    harness.serve_with(key_view=view)
    for path in ("/v1/datasets", "/v1/keys"):
        refused = harness.client.get(path)
        assert refused.status_code == 503
        assert refused.json()["detail"] == "the keys can't be read now: the service's log and /readyz have the reason"
    assert harness.client.get("/readyz").json()["conditions"]["keys"] == "the embedded log failed"


def test_keys_that_cannot_be_read_cannot_be_changed(harness: ApiHarness) -> None:
    """Also by those who are let in with a key of the settings."""
    view = KeyView(harness.log, TOPICS.keys)
    view.error = "the embedded log failed"
    harness.serve_with_limits(keys=f"lead:admin:{hash_key(ADMIN)}")
    client = harness.serve_with(key_view=view)
    refused = client.post("/v1/keys/dana/rotate", headers=bearer(ADMIN), json={})
    assert (refused.status_code, "can't be read" in refused.json()["detail"]) == (503, True)
