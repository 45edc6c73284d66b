"""The audit trail: who changed what."""

from __future__ import annotations

import os
import pwd
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

import pytest

from service.access.audit_log import get_command_actor
from service.access.key_text import generate_key, hash_key
from service.contracts.access.audit import AuditAction, AuditRecord
from service.log.protocol import Output
from tests.support.api_harness import TOPICS, wait_for

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from tests.support.api_harness import ApiHarness

LEAD = generate_key()
HEADERS = {"Authorization": f"Bearer {LEAD}", "X-Request-ID": "r-7"}


@pytest.fixture
def client(harness: ApiHarness) -> TestClient:
    return harness.serve_with_limits(keys=f"lead:admin:{hash_key(LEAD)}")


def read_audit(client: TestClient, count: int, **query: Any) -> list[dict[str, Any]]:
    """Once `count` records are there."""
    records: list[dict[str, Any]] = []

    def has_all() -> bool:
        records[:] = client.get("/v1/audit", params=query, headers=HEADERS).json()["records"]
        return len(records) >= count

    wait_for(has_all)
    return records


def test_a_change_of_settings_names_its_author_and_request(client: TestClient) -> None:
    assert client.patch("/v1/datasets/med", json={"control_share": 0.01}, headers=HEADERS).status_code == 201
    (record,) = read_audit(client, 1)
    assert (record["actor"], record["actor_kind"], record["action"]) == ("lead", "key", "settings")
    assert (record["dataset"], record["request_id"], record["via"]) == ("med", "r-7", "rest")
    assert record["details"] == {"version": 1, "fields": "control_share"}


def test_changes_of_keys_are_recorded_without_the_key(harness: ApiHarness, client: TestClient) -> None:
    key = client.post("/v1/keys", json={"name": "dana", "role": "reviewer"}, headers=HEADERS).json()["key"]
    client.post("/v1/keys/dana/rotate", json={}, headers=HEADERS)
    client.delete("/v1/keys/dana", headers=HEADERS)
    records = read_audit(client, 3)
    assert [record["action"] for record in records] == ["key-revoked", "key-rotated", "key-created"]
    assert {record["subject"] for record in records} == {"dana"}
    raw = b"".join(record.value or b"" for record in harness.log.read(TOPICS.audit, 0, 10))
    assert key.encode() not in raw
    assert hash_key(key).encode() not in raw


def test_a_requested_training_names_its_author(client: TestClient) -> None:
    client.patch("/v1/datasets/med", json={"control_share": 0.01}, headers=HEADERS)
    for _ in range(2):  # the second changes nothing
        assert client.post("/v1/datasets/med/trainings", json={}, headers=HEADERS).status_code == 202
    (record,) = read_audit(client, 1, action="training")
    assert (record["actor"], record["dataset"], record["request_id"]) == ("lead", "med", "r-7")


def test_a_refused_change_leaves_no_record(harness: ApiHarness, client: TestClient) -> None:
    assert client.patch("/v1/datasets/med", json={"control_share": 7}, headers=HEADERS).status_code == 422
    assert client.patch("/v1/datasets/med", json={"control_share": 0.1}).status_code == 401
    assert harness.log.read(TOPICS.audit, 0, 10) == []


def test_pages_and_filters(client: TestClient) -> None:
    for name in ("a", "b", "a", "c"):
        client.patch(f"/v1/datasets/{name}", json={"control_share": 0.01}, headers=HEADERS)
    assert len(read_audit(client, 4)) == 4
    first = client.get("/v1/audit?limit=3", headers=HEADERS).json()
    assert [record["dataset"] for record in first["records"]] == ["c", "a", "b"]
    second = client.get(f"/v1/audit?limit=3&before={first['next']}", headers=HEADERS).json()
    assert ([record["dataset"] for record in second["records"]], second["next"]) == (["a"], None)
    assert len(read_audit(client, 2, dataset="a")) == 2
    assert client.get("/v1/audit?action=decision", headers=HEADERS).json()["records"] == []
    assert client.get("/v1/audit?actor=nobody", headers=HEADERS).json()["records"] == []
    unknown = client.get("/v1/audit?action=Decision", headers=HEADERS)
    assert (unknown.status_code, unknown.json()["field"]) == (422, "action")
    assert "withdrawal" in unknown.json()["detail"]


def test_records_that_cannot_be_read_are_skipped(harness: ApiHarness, client: TestClient) -> None:
    harness.log.append([Output(TOPICS.audit, None, b"{"), Output(TOPICS.audit, None, None)])
    client.patch("/v1/datasets/med", json={"control_share": 0.01}, headers=HEADERS)
    assert [record["dataset"] for record in read_audit(client, 1)] == ["med"]


def test_a_command_of_a_user_without_a_name_is_recorded_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, whose user is often a number only."""

    def find_nobody(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", find_nobody)
    assert get_command_actor() == (f"uid {os.getuid()}", "command", None)


def test_a_long_name_of_a_user_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "x" * 300)
    message = get_command_actor().build_message(TOPICS.audit, "settings", dataset="med")
    assert AuditRecord.model_validate_json(message.value or b"").actor == "x" * 128


def test_the_console_filters_by_all_actions() -> None:
    script = files("service.api").joinpath("console/admin/audit.js").read_text("utf-8")
    found = re.search(r"const ACTIONS = \[(.*?)\];", script, re.DOTALL)
    assert found is not None
    assert tuple(re.findall(r'"([^"]+)"', found[1])) == get_args(AuditAction)
