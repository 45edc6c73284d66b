"""`labelwatch worker`: how it starts, what it survives, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import time
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest

from service.errors import ModelError, StreamError
from service.log.protocol import FencedError
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.failing_session import use_failing_session
from tests.support.ports import find_free_port

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

TOPICS = Topics()


def test_once_reads_to_the_end_and_prints_a_summary(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file([*make_sentences(30), {"tokens": ["a"], "labels": ["B-GHOST"]}]))
    ran = harness.run("worker", "--once", LABELWATCH_WORKER_BATCH_RECORDS="4")
    assert ran.code == 0
    assert f"31 messages read, {len(harness.read_assessments())} to review, 1 dead letter" in ran.err
    assert "0 messages read" in harness.run("worker", "--once").err


def test_an_empty_log_in_the_place_of_one_that_is_gone_is_a_warning(harness: CommandHarness) -> None:
    assert "is missing" not in harness.run("worker", "--once").err
    harness.log_path.unlink()
    (harness.folder / "log.sqlite.replaced-20260101T000000").touch()
    warning = harness.run("check").out.partition("WRONG log: ")[2].splitlines()[0]
    assert "log.sqlite.replaced-20260101T000000 is left beside it" in warning
    assert f"{warning}. This start begins an empty log: stop" in harness.run("worker", "--once").err
    assert "is missing" not in harness.run("worker", "--once").err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_batch_and_ends_with_code_0(harness: CommandHarness, number: signal.Signals) -> None:
    harness.run("send", harness.write_file(make_sentences(20)))
    worker = harness.start("worker")
    wait_until(lambda: read_position(harness) == 20, worker)
    harness.run("send", harness.write_file(make_sentences(5, seed=1)))
    wait_until(lambda: read_position(harness) == 25, worker)
    worker.send_signal(number)
    _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert "25 messages read" in err
    with closing(SqliteWorkerSession(harness.log_path, TOPICS)):
        pass  # the lock is free again


def read_position(harness: CommandHarness) -> int:
    described = harness.run("topics", "describe").out
    return int(described.partition("continues at offset ")[2].split()[0])


def wait_until(reached: Callable[[], bool], worker: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not reached():
        assert worker.poll() is None, worker.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_second_worker_on_the_embedded_log_is_refused(harness: CommandHarness) -> None:
    with closing(SqliteWorkerSession(harness.log_path, TOPICS)):
        ran = harness.run("worker", "--once")
    assert ran.code == 1
    assert f"another worker is running on {harness.log_path}" in ran.err


def test_a_model_that_cannot_be_used_ends_the_worker(harness: CommandHarness) -> None:
    ran = harness.run("worker", LABELWATCH_MODEL_FOLDER="nowhere")
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("labelwatch: LABELWATCH_MODEL_FOLDER: nowhere is not a folder")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (FencedError("another process has the identity w-0"), "labelwatch: another process has the identity w-0"),
        (ModelError("the session answers no more; restart"), "labelwatch: the session answers no more; restart"),
        (KeyError("a bug"), "labelwatch: the thread `worker` failed with KeyError: 'a bug'"),
        (AssertionError("a bug"), "labelwatch: the thread `worker` failed with AssertionError: a bug"),
    ],
)
def test_an_error_that_no_retry_fixes_ends_the_worker_with_one_line(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    harness.run("send", harness.write_file(make_sentences(5)))
    use_failing_session(monkeypatch, error)
    ran = harness.run("worker")
    assert ran.code == 1
    assert line in ran.err.splitlines()
    monkeypatch.undo()
    assert "5 messages read" in harness.run("worker", "--once").err  # nothing is lost, and the lock is free


def test_once_does_not_wait_for_a_log_that_fails(harness: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.run("send", harness.write_file(make_sentences(2)))
    use_failing_session(monkeypatch, StreamError("the disk is gone"))
    ran = harness.run("worker", "--once")
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == "labelwatch: the disk is gone"


def test_settings_that_cannot_be_used_are_logged(harness: CommandHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.append_settings(name="news", version=1, method="magic")
    harness.run("worker", "--once")
    assert "the settings of the dataset news can't be used" in caplog.text


def test_leaving_a_group_needs_kafka(harness: CommandHarness) -> None:
    ran = harness.run("worker", "leave", "w-0")
    assert ran.code == 1
    assert "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS is not set" in ran.err


# -- the worker's own port ---------------------------------------------------------------------------------------------


def get(port: int, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False, timeout=60)


def test_the_worker_serves_metrics_and_readiness(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file([*make_sentences(20), {"tokens": ["a"], "labels": ["B-GHOST"]}]))
    port = find_free_port()
    worker = harness.start("worker", LABELWATCH_WORKER_METRICS_PORT=str(port), LABELWATCH_METRICS_ANNOTATORS="*")
    wait_until(lambda: read_position(harness) == 21, worker)
    wait_until(lambda: get(port, "/readyz").status_code == 200, worker)
    assert get(port, "/readyz").json() == {
        "ready": True,
        "conditions": dict.fromkeys(("worker", "log", "datasets", "state", "partitions", "models", "probes"), ""),
        "degraded": {},
    }
    assert get(port, "/healthz").status_code == 200
    wait_until(lambda: "labelwatch_records_total 21.0" in get(port, "/metrics").text, worker)
    metrics = get(port, "/metrics").text
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


def test_a_port_in_use_ends_the_worker_with_one_line(harness: CommandHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = harness.run("worker", LABELWATCH_WORKER_METRICS_PORT=str(taken.getsockname()[1]))
    assert ran.code == 1
    assert "labelwatch: LABELWATCH_WORKER_METRICS_PORT: can't listen on" in ran.err


# -- logs --------------------------------------------------------------------------------------------------------------


def test_logs_as_json(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(3)))
    worker = harness.start("worker", "--once", LABELWATCH_LOGS_FORMAT="json")
    _, err = worker.communicate(timeout=60)
    *lines, summary = err.splitlines()
    events = [json.loads(line) for line in lines]
    assert {"time", "level", "logger", "message"} <= set(events[0])
    assert any(event["message"].startswith("assigned partitions") for event in events)
    assert summary.startswith("3 messages read")
