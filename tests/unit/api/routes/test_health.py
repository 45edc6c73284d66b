"""Readiness by condition, what is degraded, and a dead thread."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.log.protocol import Output
from service.runtime.lifecycle.supervisor import Supervisor, ThreadEndedError
from service.stream.state.view import StateView
from tests.support.api_harness import TOPICS, wait_for

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness


def test_ready_with_every_condition_by_name(harness: ApiHarness) -> None:
    answer = harness.client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "conditions": {"datasets": "", "keys": "", "draining": ""}, "degraded": {}}
    assert harness.client.get("/healthz").json() == {"status": "ok"}


def test_it_is_not_ready_before_settings_and_statistics_are_read(
    harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StateView, "caught_up", False)
    answer = harness.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["conditions"]["datasets"] == "dataset settings and statistics are still being read"
    assert harness.client.get("/healthz").status_code == 200


def test_without_the_broker_it_stays_ready_and_reports_it_as_degraded(
    harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> int:
        raise StreamError("nobody there")

    monkeypatch.setattr(harness.backend.state_view, "step", gone)
    monkeypatch.setattr(harness.projector, "_caught_up", False)
    wait_for(lambda: harness.backend.state_view.broker_error is not None)
    answer = harness.client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["degraded"] == {
        "broker": "nobody there",
        "review": "the review queue is still being built",
    }


def test_stored_settings_and_records_that_cannot_be_used_are_named(harness: ApiHarness) -> None:
    large = {"name": "news", "version": 1, "label_map": {f"T{n}": "PER" for n in range(1_001)}}
    harness.log.append(
        [Output(TOPICS.datasets, b"news", json.dumps(large).encode()), Output(TOPICS.decisions, b"x", b"{")]
    )
    harness.project()
    wait_for(lambda: "news" in harness.backend.state_view.refused_settings)
    answer = harness.client.get("/readyz")
    assert answer.status_code == 200
    degraded = answer.json()["degraded"]
    assert degraded["settings"].startswith(
        "the stored settings of news can't be used, the previous ones are in force: "
    )
    assert "at most 1000 entries" in degraded["settings"]
    assert degraded["records"].startswith("the review queue leaves out 2 records; the first: ")


def test_a_draining_service_is_not_ready(harness: ApiHarness) -> None:
    harness.backend.draining.set()
    answer = harness.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["conditions"]["draining"] == "the service is stopping"


def test_a_dead_thread_makes_it_unready(harness: ApiHarness) -> None:
    supervisor, die, dead = Supervisor(), threading.Event(), threading.Event()

    def idle(stop: threading.Event) -> None:
        stop.wait()

    def worker(_: threading.Event) -> None:
        try:
            die.wait()
            raise ZeroDivisionError("killed")
        finally:
            dead.set()

    supervisor.start("worker", worker)
    supervisor.start("other", idle)
    client = harness.serve_with(conditions=lambda: supervisor.conditions, draining=supervisor.stop)
    assert client.get("/readyz").status_code == 200
    assert client.get("/readyz").json()["conditions"]["worker"] == ""
    die.set()
    dead.wait()
    with pytest.raises(ThreadEndedError):  # and the process ends, non-zero
        supervisor.wait()
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["conditions"]["worker"] == "the thread has died"
    assert client.get("/healthz").status_code == 200


def test_metrics_are_exposed(harness: ApiHarness) -> None:
    harness.client.get("/healthz")
    answer = harness.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'labelwatch_http_requests_total{method="GET",route="/healthz",status="2xx"} 1.0' in answer.text
