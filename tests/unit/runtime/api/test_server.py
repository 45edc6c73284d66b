"""Readiness of `labelwatch up` and `labelwatch api`, built as they build it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

import pytest
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.routes.health import get_readiness
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.runtime.api.backend import build_backend
from service.runtime.lifecycle.supervisor import Supervisor
from service.settings import read_settings
from service.telemetry import Telemetry
from tests.support.api_harness import wait_for
from tests.support.model_pools import make_pool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.api.backend import Backend

BUILDING = "the review queue is still being built"
DEAD = "the thread has died"


class FakeWorker:
    """Reports the conditions that the test sets."""

    def __init__(self) -> None:
        self.reported = {"worker": "", "log": ""}

    def get_conditions(self) -> dict[str, str]:
        return dict(self.reported)

    def get_degraded(self) -> dict[str, str]:
        return {}


class Parts:
    def __init__(self, backend: Backend, supervisor: Supervisor, worker: FakeWorker) -> None:
        self.backend, self.supervisor, self.worker = backend, supervisor, worker

    @property
    def conditions(self) -> dict[str, str]:
        return get_readiness(self.backend).conditions

    @property
    def degraded(self) -> dict[str, str]:
        return get_readiness(self.backend).degraded


@pytest.fixture
def parts(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parts]:
    monkeypatch.setenv("LABELWATCH_LOG_PATH", str(tmp_path / "log.sqlite"))
    monkeypatch.setenv("LABELWATCH_MODEL_FOLDER", str(tiny_model))
    classifier = Classifier(ModelFolder.load(tiny_model))
    supervisor, worker = Supervisor(), FakeWorker()
    with ExitStack() as exit_stack:
        backend = build_backend(
            read_settings(),
            make_pool(classifier),
            Telemetry(),
            supervisor,
            exit_stack=exit_stack,
            runner=cast("Any", worker),
        )
        yield Parts(backend, supervisor, worker)
        supervisor.stop.set()


def test_a_queue_that_is_being_built_is_reported(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parts.degraded["review"] == BUILDING
    monkeypatch.setattr(parts.backend.projector, "error", "no broker answers")
    assert parts.degraded["review"] == f"{BUILDING}; no broker answers"


def test_a_dead_worker_is_reported_whatever_it_reported_last(parts: Parts) -> None:
    die = threading.Event()
    parts.supervisor.start("worker", lambda _: cast("None", die.wait()))
    assert parts.conditions["worker"] == ""
    parts.backend.key_view.step()  # nobody may enter before the keys are read
    client = TestClient(create_app(parts.backend))
    assert 'labelwatch_ready{condition="worker"} 1.0' in client.get("/metrics").text
    die.set()
    wait_for(lambda: not parts.supervisor.alive)
    assert parts.conditions["worker"] == DEAD
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"], answer.json()["conditions"]["worker"]) == (503, False, DEAD)
    assert 'labelwatch_ready{condition="worker"} 0.0' in client.get("/metrics").text
    assert client.get("/healthz").status_code == 200


def test_a_worker_that_is_not_ready_is_reported_though_its_thread_lives(parts: Parts) -> None:
    parts.worker.reported["log"] = "no broker answers"
    parts.supervisor.start("worker", lambda stop: cast("None", stop.wait()))
    assert parts.conditions["worker_log"] == "no broker answers"


def test_a_partition_that_waits_for_a_model_degrades_the_service(parts: Parts) -> None:
    parts.supervisor.start("worker", lambda stop: cast("None", stop.wait()))
    assert parts.conditions["worker"] == ""
    waiting = "partition 3 waits at offset 7: the dataset 'med' needs the model 'med-v1'"
    parts.worker.reported["models"] = waiting
    assert parts.conditions["worker"] == ""
    assert parts.degraded["worker"] == waiting


def test_a_model_that_is_not_running_is_reported_though_its_thread_lives(parts: Parts) -> None:
    parts.supervisor.start("model", lambda stop: cast("None", stop.wait()))
    assert parts.conditions["model"] == parts.backend.batcher.unavailable_reason != ""
