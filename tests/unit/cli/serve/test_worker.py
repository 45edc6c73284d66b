"""`labelwatch worker`: how it starts, what it survives, how it ends."""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest

from service.errors import ModelError, StreamError
from service.inference.classifier import Classifier
from service.log.protocol import MAX_BATCH_BYTES, BatchResult, FencedError, RecordBatch
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.runtime import worker as runtime_worker
from service.runtime.load_model import load_model_folder
from service.runtime.process import set_up_logging
from service.runtime.supervisor import Supervisor, ThreadEndedError
from service.settings import Settings
from service.telemetry import Telemetry
from tests.support.command_harness import ROOT, CommandHarness, make_sentences

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOPICS = Topics()


@pytest.fixture
def desk(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def test_once_reads_to_the_end_and_says_what_it_did(desk: CommandHarness) -> None:
    desk.run("send", desk.write_file([*make_sentences(30), {"tokens": ["a"], "labels": ["B-GHOST"]}]))
    ran = desk.run("worker", "--once", LABELWATCH_WORKER_BATCH_RECORDS="4")
    assert ran.code == 0
    assert f"31 messages read, {len(desk.read_assessments())} to review, 1 dead letter" in ran.err
    assert "0 messages read" in desk.run("worker", "--once").err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_well(desk: CommandHarness, number: signal.Signals) -> None:
    desk.run("send", desk.write_file(make_sentences(20)))
    worker = desk.start("worker")
    wait_until(lambda: position(desk) == 20, worker)
    desk.run("send", desk.write_file(make_sentences(5, seed=1)))
    wait_until(lambda: position(desk) == 25, worker)
    worker.send_signal(number)
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert "25 messages read" in err
    with closing(SqliteWorkerSession(desk.log_path, TOPICS)):
        pass  # its place is free again


def position(desk: CommandHarness) -> int:
    described = desk.run("topics", "describe").out
    return int(described.partition("continues at offset ")[2].split()[0])


def wait_until(reached: Callable[[], bool], worker: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not reached():
        assert worker.poll() is None, worker.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)


STUBBORN = """
import sys, threading, time
from service.runtime.process import stop_on_signals
stop = threading.Event()
with stop_on_signals(stop):
    print("ready", flush=True)
    stop.wait()
    print("asked", flush=True)
    while True:
        time.sleep(0.1)
"""


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(second: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(second)
        assert process.wait(60) == -second


def test_a_second_worker_on_the_embedded_log_is_refused(desk: CommandHarness) -> None:
    with closing(SqliteWorkerSession(desk.log_path, TOPICS)):
        ran = desk.run("worker", "--once")
    assert ran.code == 1
    assert f"another worker is running on {desk.log_path}" in ran.err


def test_a_model_that_cannot_be_used_ends_it(desk: CommandHarness) -> None:
    ran = desk.run("worker", LABELWATCH_MODEL_FOLDER="nowhere")
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("labelwatch: nowhere is not a folder")


class Failing(SqliteWorkerSession):
    """Fails at the first commits and polls, as a log that is away for a while."""

    failures: list[Exception]

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        if self.failures and not isinstance(self.failures[0], AssertionError):
            raise self.failures.pop(0)
        return super().poll(max_records=max_records, timeout=timeout, max_bytes=max_bytes)

    def commit(self, result: BatchResult) -> None:
        if self.failures:
            raise self.failures.pop(0)
        super().commit(result)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FencedError("another process has the identity w-0"), "labelwatch: another process has the identity w-0"),
        (ModelError("the session answers no more; restart"), "labelwatch: the session answers no more; restart"),
        (KeyError("a bug"), "labelwatch: the thread `worker` failed with KeyError: 'a bug'"),
        (AssertionError("a bug"), "labelwatch: the thread `worker` failed with AssertionError: a bug"),
    ],
)
def test_what_no_retry_mends_ends_it_with_a_sentence(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    desk.run("send", desk.write_file(make_sentences(5)))
    monkeypatch.setattr(Failing, "failures", [error], raising=False)
    monkeypatch.setattr("service.runtime.open_log.SqliteWorkerSession", Failing)
    ran = desk.run("worker")
    assert ran.code == 1
    assert told in ran.err.splitlines()
    monkeypatch.undo()
    assert "5 messages read" in desk.run("worker", "--once").err  # nothing was lost, and its place is free


def test_a_log_that_is_away_for_a_while_is_waited_for(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk.run("send", desk.write_file(make_sentences(12)))
    monkeypatch.setattr(runtime_worker, "MIN_RETRY_INTERVAL_S", 0.001)
    monkeypatch.setattr(Failing, "failures", [StreamError("gone"), StreamError("still gone")], raising=False)
    monkeypatch.setattr("service.runtime.open_log.SqliteWorkerSession", Failing)
    for name, value in desk.environment.items():
        monkeypatch.setenv(name, value)
    running, stop = runtime_worker.WorkerRunner(Settings(), TOPICS, once=False), threading.Event()
    thread = threading.Thread(target=running.run, args=(stop,))
    thread.start()
    until = time.monotonic() + 60
    while running.counts.records < 12 and time.monotonic() < until:
        time.sleep(0.02)
    stop.set()
    thread.join(60)
    assert running.counts.records == 12
    assert "gone; trying again in" in caplog.text
    assert "still gone; trying again in" in caplog.text
    assert running.summarize() == f"12 messages read, {len(desk.read_assessments())} to review, 0 dead letters"


def test_once_does_not_wait_for_a_log_that_fails(desk: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.run("send", desk.write_file(make_sentences(2)))
    monkeypatch.setattr(Failing, "failures", [StreamError("the disk is gone")], raising=False)
    monkeypatch.setattr("service.runtime.open_log.SqliteWorkerSession", Failing)
    ran = desk.run("worker", "--once")
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == "labelwatch: the disk is gone"


def test_settings_that_cannot_be_used_are_told_in_the_log(
    desk: CommandHarness, caplog: pytest.LogCaptureFixture
) -> None:
    desk.append_settings(name="news", version=1, method="magic")
    desk.run("worker", "--once")
    assert "the settings of the dataset news can't be used" in caplog.text


def test_a_thread_that_ends_unasked_ends_the_process() -> None:
    supervisor, stopped = Supervisor(), threading.Event()

    def patient(stop: threading.Event) -> None:
        stop.wait()
        stopped.set()

    supervisor.start("patient", patient)
    supervisor.start("fickle", lambda stop: None)
    with pytest.raises(ThreadEndedError, match=r"^the thread `fickle` ended although it was not stopped$"):
        supervisor.wait()
    assert stopped.is_set()


def test_leaving_a_group_is_for_kafka(desk: CommandHarness) -> None:
    ran = desk.run("worker", "leave", "w-0")
    assert ran.code == 1
    assert "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS is not set" in ran.err


# -- the worker's own port ---------------------------------------------------------------------------------------------


def ask(port: int, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False, timeout=60)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_the_worker_tells_its_numbers_and_its_readiness(desk: CommandHarness) -> None:
    desk.run("send", desk.write_file([*make_sentences(20), {"tokens": ["a"], "labels": ["B-GHOST"]}]))
    port = free_port()
    worker = desk.start("worker", LABELWATCH_WORKER_METRICS_PORT=str(port), LABELWATCH_METRICS_ANNOTATORS="*")
    wait_until(lambda: position(desk) == 21, worker)
    ready = ask(port, "/readyz")
    assert ready.status_code == 200
    assert ready.json() == {
        "ready": True,
        "conditions": dict.fromkeys(("worker", "log", "datasets", "state", "partitions", "probes"), ""),
        "degraded": {},
    }
    assert ask(port, "/healthz").status_code == 200
    wait_until(lambda: "labelwatch_records_total 21.0" in ask(port, "/metrics").text, worker)
    metrics = ask(port, "/metrics").text
    for line in (
        'labelwatch_lag_records{partition="0"} 0.0',
        'labelwatch_assessed_sentences_total{dataset="default"} 20.0',
        'labelwatch_dead_letters_total{stage="labels"} 1.0',
        'labelwatch_ready{condition="state"} 1.0',
        'labelwatch_stage_seconds_count{role="worker",stage="commit"} 1.0',
    ):
        assert line in metrics
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert f"http://127.0.0.1:{port}/metrics" in err


def test_a_port_that_is_taken_ends_the_worker_with_a_sentence(desk: CommandHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = desk.run("worker", LABELWATCH_WORKER_METRICS_PORT=str(taken.getsockname()[1]))
    assert ran.code == 1
    assert "labelwatch: LABELWATCH_WORKER_METRICS_PORT: can't listen on" in ran.err


def test_a_worker_without_its_log_is_not_ready_and_says_why(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object, **__: object) -> SqliteWorkerSession:
        told.append(running.conditions())
        if len(told) > 1:
            stop.set()
        raise StreamError("the broker is away")

    told: list[dict[str, str]] = []
    stop = threading.Event()
    for name, value in {**desk.environment, "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": "localhost:1"}.items():
        monkeypatch.setenv(name, value)
    running = runtime_worker.WorkerRunner(Settings(), TOPICS, once=False)
    monkeypatch.setattr(runtime_worker, "open_worker_session", away)
    monkeypatch.setattr(runtime_worker, "MIN_RETRY_INTERVAL_S", 0.0)
    running.run(stop)
    assert told[0]["state"] == "the state is not read yet"
    assert told[1]["log"] == "the broker is away"
    assert running.lag() == {}
    assert running.degraded() == {}


def test_a_model_that_others_use_too_is_made_known_by_them(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in desk.environment.items():
        monkeypatch.setenv(name, value)
    settings, telemetry = Settings(), Telemetry()
    shared = Classifier(load_model_folder(settings), self_test=False)
    runtime_worker.WorkerRunner(settings, TOPICS, once=False, telemetry=telemetry, classifier=shared)
    assert shared.runner.on_run is None
    assert b"labelwatch_model_info{" not in telemetry.render_exposition()[0]
    runtime_worker.WorkerRunner(settings, TOPICS, once=False, telemetry=telemetry)
    assert b"labelwatch_model_info{" in telemetry.render_exposition()[0]


def test_a_thread_that_died_is_told_until_the_process_ends() -> None:
    supervisor, died, hold = Supervisor(), threading.Event(), threading.Event()

    def short(_: threading.Event) -> None:
        died.wait()
        raise RuntimeError("unexpected")

    supervisor.start("short", short)
    supervisor.start("long", lambda _: (hold.wait(), None)[1])
    assert supervisor.conditions == {"short": "", "long": ""}
    died.set()
    supervisor.stop.wait()
    assert supervisor.conditions == {"short": "the thread has died", "long": "the service is about to stop"}
    assert not supervisor.alive
    hold.set()
    with pytest.raises(ThreadEndedError, match="the thread `short` failed with RuntimeError: unexpected"):
        supervisor.wait()


# -- logs --------------------------------------------------------------------------------------------------------------


def test_logs_as_json(desk: CommandHarness) -> None:
    desk.run("send", desk.write_file(make_sentences(3)))
    worker = desk.start("worker", "--once", LABELWATCH_LOGS_FORMAT="json")
    _, err = worker.communicate(timeout=60)
    *lines, summary = err.splitlines()
    events = [json.loads(line) for line in lines]
    assert {"time", "level", "logger", "message"} <= set(events[0])
    assert any(event["message"].startswith("assigned partitions") for event in events)
    assert summary.startswith("3 messages read")


def test_secrets_of_the_settings_stand_in_no_line(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    digest = "ab" * 32
    for name, value in {
        "KAFKA_BOOTSTRAP_SERVERS": "localhost:1",
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": "PLAIN",
        "KAFKA_SASL_USERNAME": "joe",
        "KAFKA_SASL_PASSWORD": "hunter2, and more",
        "API_KEYS": f"ci:read:{digest}",
    }.items():
        monkeypatch.setenv(f"LABELWATCH_{name}", value)
    set_up_logging(Settings())
    try:
        logging.getLogger("service.x").info("%s", ["ci", "hunter2, and more", digest])
    finally:
        root = logging.getLogger()
        root.handlers[:] = [handler for handler in root.handlers if handler.get_name() != "labelwatch"]
    assert capfd.readouterr().err.endswith("INFO service.x: ['ci', '****', '****']\n")
