"""Endpoints of outgoing webhooks over REST and by command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from service.notifications.admin import WebhookAdmin
from service.notifications.client import WebhookClient
from tests.support.api_harness import TOPICS
from tests.support.command_harness import CommandHarness
from tests.support.tiny_models import make_model
from tests.support.webhook_receiver import WebhookReceiver

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.testclient import TestClient

    from tests.support.api_harness import ApiHarness

PATH = "/v1/webhook-endpoints"
KEY = "k" * 32


@pytest.fixture
def client(harness: ApiHarness) -> TestClient:
    sender = WebhookClient(allowed_hosts=frozenset({"127.0.0.1"}), timeout_s=1)
    return harness.serve_with(webhooks=WebhookAdmin(harness.log, TOPICS.webhooks, sender, KEY))


def test_an_endpoint_is_added_tested_and_removed(harness: ApiHarness, client: TestClient) -> None:
    with WebhookReceiver() as receiver:
        added = client.post(PATH, json={"url": receiver.url, "events": ["item.decided"], "datasets": ["med"]})
        assert added.status_code == 201, added.text
        assert added.json()["secret"].startswith("whsec_")
        path = f"{PATH}/{added.json()['id']}"
        (listed,) = client.get(PATH).json()["endpoints"]
        assert (listed["url"], listed["pending"], listed["failed"]) == (receiver.url, 0, 0)
        assert "secret" not in listed
        assert client.post(f"{path}/test", json={}).json() == {"delivered": True, "status": 204, "problem": None}
        receiver.behaviour = "fail"
        assert client.post(f"{path}/test", json={}).json()["problem"] == "answered 503"
    assert json.loads(receiver.requests[0][1])["type"] == "webhook.test"
    assert client.patch(path, json={"paused": True}).status_code == 204
    assert client.get(PATH).json()["endpoints"][0]["paused"] is True
    for wrong, field in (({}, "paused"), ({"paused": 1}, "paused"), ({"url": "https://example.com"}, "url")):
        refused = client.patch(path, json=wrong)
        assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert client.patch(path, json={"paused": False}).status_code == 204
    assert client.patch(f"{PATH}/wh_0000000000000000", json={"paused": True}).status_code == 404
    assert client.get(f"{path}/failed").json() == {"notifications": []}
    assert client.post(f"{path}/retry", json={}).json() == {"notifications": 0}
    assert client.delete(path).status_code == 204
    assert client.get(PATH).json() == {"endpoints": []}
    actions = [record["action"] for record in harness.read_messages(TOPICS.audit)]
    assert actions == [
        "webhook-added",
        "webhook-paused",
        "webhook-resumed",
        "webhook-retried",
        "webhook-removed",
    ]


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        ({}, "url", "it is not a URL"),
        ({"url": "http://example.com"}, "url", "use https"),
        ({"url": "https://10.0.0.1/hook"}, "url", "is not a public address"),
        ({"url": "https://localhost"}, "url", "LABELWATCH_WEBHOOKS_ALLOWED_HOSTS"),
        ({"url": "https://example.com", "events": ["nothing"]}, "events", "items.flagged"),
        ({"url": "https://example.com", "events": []}, "events", "give at least 1 entry"),
        ({"url": "https://example.com", "datasets": ["No Name"]}, "datasets", "lower-case"),
        ({"url": "https://example.com", "body": "xml"}, "body", "slack"),
        ({"url": "https://example.com", "color": "red"}, "color", "there is no such field"),
    ],
)
def test_an_endpoint_that_can_not_be_is_refused(
    client: TestClient, body: dict[str, object], field: str, problem: str
) -> None:
    answer = client.post(PATH, json=body)
    assert answer.status_code == 422
    assert field in str(answer.json().get("field", ""))
    assert problem in answer.json()["detail"]


def test_a_list_with_wrong_entries_is_not_too_short(client: TestClient) -> None:
    answer = client.post(PATH, json={"url": "https://example.com", "events": ["nothing"]}).json()
    assert answer["field"] == "events.0"
    assert "at least" not in answer["detail"]


def test_an_unknown_endpoint_is_not_found(client: TestClient) -> None:
    for method, path in (("DELETE", ""), ("POST", "/test"), ("GET", "/failed"), ("POST", "/retry")):
        body: dict[str, object] | None = {} if method == "POST" else None
        assert client.request(method, f"{PATH}/wh_0000000000000000{path}", json=body).status_code == 404


def test_without_a_key_webhooks_are_off(harness: ApiHarness) -> None:
    answer = harness.client.get(PATH)
    assert answer.status_code == 409
    assert "LABELWATCH_WEBHOOKS_KEY" in answer.json()["detail"]


def test_by_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    harness = CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), capfd=capfd)
    refused = harness.run("webhooks", "list", LABELWATCH_WEBHOOKS_KEY=KEY)
    assert (refused.code, "there is no log" in refused.err) == (1, True)
    assert not harness.log_path.exists()
    added = harness.run("webhooks", "add", "https://example.com", LABELWATCH_WEBHOOKS_KEY=KEY)
    assert (added.code, harness.log_path.exists()) == (0, True), added.err  # as `labelwatch key new`
    assert harness.run("webhooks", "remove", added.out.split()[1], LABELWATCH_WEBHOOKS_KEY=KEY).code == 0
    refused = harness.run("webhooks", "add", "https://example.com")
    assert (refused.code, "LABELWATCH_WEBHOOKS_KEY" in refused.err) == (1, True)
    harness.variables |= {"LABELWATCH_WEBHOOKS_KEY": KEY, "LABELWATCH_WEBHOOKS_ALLOWED_HOSTS": "127.0.0.1"}
    assert "there is no endpoint" in harness.run("webhooks", "list").out
    with WebhookReceiver() as receiver:
        added = harness.run("webhooks", "add", receiver.url, "--slack", "--event", "item.decided")
        assert added.code == 0, added.err
        endpoint_id = added.out.split()[1]
        assert harness.run("webhooks", "test", endpoint_id).out == "delivered: answered 204\n"
        receiver.behaviour = "fail"
        failed = harness.run("webhooks", "test", endpoint_id)
        assert (failed.code, failed.out) == (1, "not delivered: answered 503\n")
    assert "item.decided" in harness.run("webhooks", "list").out
    none_failed = harness.run("webhooks", "failed", endpoint_id)
    assert (none_failed.code, none_failed.out) == (0, "")
    assert f"no notification to {endpoint_id} has failed" in none_failed.err
    for url, problem in (("https://10.0.0.1", "is not a public address"), ("http://example.com", "use https")):
        refused = harness.run("webhooks", "add", url)
        assert (refused.code != 0, problem in refused.err) == (True, True), refused.err
    assert "0 notifications are sent again" in harness.run("webhooks", "retry", endpoint_id).out
    assert harness.run("webhooks", "remove", endpoint_id).code == 0
    assert harness.run("webhooks", "remove", endpoint_id).code == 1
