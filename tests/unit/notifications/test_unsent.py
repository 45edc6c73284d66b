"""Endpoints that get nothing because the service has no key are named."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from service.contracts.notification import EndpointStatus
from service.errors import StreamError
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.notifications import unsent
from service.notifications.state import (
    NotificationState,
    build_endpoint_record,
    build_removal,
    build_status_record,
    create_endpoint,
)
from service.notifications.unsent import UnsentWebhooks, describe_unsent
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.log.protocol import Output

TOPICS = Topics()
ENDPOINT = create_endpoint(NotificationState(), {"url": "https://example.com"}, allowed_hosts=frozenset())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    yield log
    log.close()


def make_state(*records: Output) -> NotificationState:
    state = NotificationState()
    for record in records:
        state.apply(record)
    return state


def test_only_endpoints_that_would_get_something_count() -> None:
    other = create_endpoint(NotificationState(), {"url": "https://example.org"}, allowed_hosts=frozenset())
    records = [build_endpoint_record(TOPICS.webhooks, each) for each in (ENDPOINT, other)]
    assert describe_unsent(NotificationState()) == ""
    assert describe_unsent(make_state(records[0])).startswith("1 endpoint of outgoing webhooks gets nothing")
    both = make_state(*records)
    assert describe_unsent(both).startswith("2 endpoints of outgoing webhooks get nothing")
    assert "LABELWATCH_WEBHOOKS_KEY" in describe_unsent(both)
    for endpoint in (ENDPOINT, other):
        disabled = EndpointStatus(disabled_at=datetime.now(UTC))
        both.apply(build_status_record(TOPICS.webhooks, endpoint.id, disabled))
    assert describe_unsent(both) == ""


def test_an_endpoint_is_noticed_and_forgotten_while_the_service_runs(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unsent, "CHECK_INTERVAL_S", 0.01)
    webhooks, stop = UnsentWebhooks(), threading.Event()
    thread = threading.Thread(target=webhooks.run, args=(log, TOPICS.webhooks, stop))
    thread.start()
    try:
        record = build_endpoint_record(TOPICS.webhooks, ENDPOINT)
        log.append([record])
        wait_for(lambda: "LABELWATCH_WEBHOOKS_KEY" in webhooks.problem)
        log.append(build_removal(make_state(record), TOPICS.webhooks, ENDPOINT.id))
        wait_for(lambda: webhooks.problem == "")
    finally:
        stop.set()
        thread.join()
    assert caplog.text.count("get nothing") + caplog.text.count("gets nothing") == 1


def test_a_log_that_does_not_answer_is_asked_again(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that was upgraded may lack the topic, and then has no endpoints."""
    monkeypatch.setattr(unsent, "CHECK_INTERVAL_S", 0.01)
    webhooks, stop, follow, asked = UnsentWebhooks(), threading.Event(), log.follow, threading.Event()

    def fail_once(topic: str) -> object:
        if not asked.is_set():
            asked.set()
            raise StreamError("nobody there")
        return follow(topic)

    monkeypatch.setattr(log, "follow", fail_once)
    log.append([build_endpoint_record(TOPICS.webhooks, ENDPOINT)])
    thread = threading.Thread(target=webhooks.run, args=(log, TOPICS.webhooks, stop))
    thread.start()
    try:
        wait_for(lambda: webhooks.problem != "")
    finally:
        stop.set()
        thread.join()
    assert asked.is_set()
