"""The worker's thread: how it retries, what it reports."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.inference.classifier import Classifier
from service.judging.misfit import find_misfit
from service.log.topics import Topics
from service.runtime import worker as runtime_worker
from service.runtime.load_model import load_model_folder
from service.runtime.worker import WorkerRunner
from service.settings import Settings
from service.statistics.arrivals import FlagCounts
from service.telemetry import Telemetry
from service.telemetry.batch_report import BatchReport
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.failing_session import use_failing_session
from tests.support.model_pools import make_pool
from tests.support.tiny_models import get_runner

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.sqlite.session import SqliteWorkerSession

TOPICS = Topics()


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def test_an_unavailable_log_is_retried(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness.run("send", harness.write_file(make_sentences(12)))
    monkeypatch.setattr(runtime_worker, "MIN_RETRY_INTERVAL_S", 0.001)
    use_failing_session(monkeypatch, StreamError("gone"), StreamError("still gone"))
    for name, value in harness.environment.items():
        monkeypatch.setenv(name, value)
    runner, stop = WorkerRunner(Settings(), TOPICS, once=False), threading.Event()
    thread = threading.Thread(target=runner.run, args=(stop,))
    thread.start()
    until = time.monotonic() + 60
    while runner.counts.records < 12 and time.monotonic() < until:
        time.sleep(0.02)
    stop.set()
    thread.join(60)
    assert runner.counts.records == 12
    assert "gone; trying again in" in caplog.text
    assert "still gone; trying again in" in caplog.text
    assert runner.summarize() == f"12 messages read, {len(harness.read_assessments())} to review, 0 dead letters"


def test_a_worker_without_its_log_is_not_ready_and_says_why(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_open(*_: object, **__: object) -> SqliteWorkerSession:
        observed.append(runner.get_conditions())
        if len(observed) > 1:
            stop.set()
        raise StreamError("the broker is unavailable")

    observed: list[dict[str, str]] = []
    stop = threading.Event()
    for name, value in {**harness.environment, "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": "localhost:1"}.items():
        monkeypatch.setenv(name, value)
    runner = WorkerRunner(Settings(), TOPICS, once=False)
    monkeypatch.setattr(runtime_worker, "open_worker_session", fail_to_open)
    monkeypatch.setattr(runtime_worker, "MIN_RETRY_INTERVAL_S", 0.0)
    runner.run(stop)
    assert observed[0]["state"] == "the state is not read yet"
    assert observed[1]["log"] == "the broker is unavailable"
    assert runner.get_lag() == {}
    assert runner.get_degraded() == {}


def test_a_shared_model_is_registered_by_its_owner(harness: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in harness.environment.items():
        monkeypatch.setenv(name, value)
    settings, telemetry = Settings(), Telemetry()
    shared = Classifier(load_model_folder(settings), self_test=False)
    WorkerRunner(settings, TOPICS, once=False, telemetry=telemetry, models=make_pool(shared))
    assert get_runner(shared).on_run is None
    assert b"labelwatch_model_info{" not in telemetry.render_exposition()[0]
    WorkerRunner(settings, TOPICS, once=False, telemetry=telemetry)
    assert b"labelwatch_model_info{" in telemetry.render_exposition()[0]


def test_a_model_that_does_not_fit_a_dataset_is_logged_once(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in harness.environment.items():
        monkeypatch.setenv(name, value)
    telemetry = Telemetry()
    runner = WorkerRunner(Settings(), TOPICS, once=False, telemetry=telemetry)
    telemetry.observe_batch(BatchReport(misfits={"med": find_misfit(FlagCounts(60, 60))}))
    for _ in range(2):
        runner.log_progress(threading.Event())
    assert caplog.text.count("dataset med: the model does not fit this data: it flags 100% of 60 sentences") == 1
    assert (
        "Train a model for these labels (`labelwatch train FILE --name NAME`, then `labelwatch datasets set med model=NAME`"
        in caplog.text
    )
