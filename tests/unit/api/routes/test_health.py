"""Readiness by condition, what is degraded, and a dead thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.runtime.supervisor import Supervisor, ThreadEndedError
from service.stream.state.view import StateView
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness


def test_ready_with_every_condition_by_name(desk: ApiHarness) -> None:
    answer = desk.client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "conditions": {"datasets": "", "draining": ""}, "degraded": {}}
    assert desk.client.get("/healthz").json() == {"status": "ok"}


def test_it_is_not_ready_before_settings_and_statistics_are_read(
    desk: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StateView, "caught_up", False)
    answer = desk.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["conditions"]["datasets"] == "dataset settings and statistics are still being read"
    assert desk.client.get("/healthz").status_code == 200


def test_without_the_broker_it_stays_ready_and_reports_it_as_degraded(
    desk: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> int:
        raise StreamError("nobody there")

    monkeypatch.setattr(desk.backend.state_view, "step", gone)
    monkeypatch.setattr(desk.projector, "_caught_up", False)
    wait_for(lambda: desk.backend.state_view.broker_error is not None)
    answer = desk.client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["degraded"] == {
        "broker": "nobody there",
        "review": "the review queue is still being built",
    }


def test_a_draining_service_is_not_ready(desk: ApiHarness) -> None:
    desk.backend.draining.set()
    answer = desk.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["conditions"]["draining"] == "the service is stopping"


def test_a_dead_thread_makes_it_unready(desk: ApiHarness) -> None:
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
    client = desk.serve_with(conditions=lambda: supervisor.conditions, draining=supervisor.stop)
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


def test_metrics_are_exposed(desk: ApiHarness) -> None:
    desk.client.get("/healthz")
    answer = desk.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'labelwatch_http_requests_total{method="GET",route="/healthz",status="2xx"} 1.0' in answer.text
