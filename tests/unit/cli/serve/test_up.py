"""`labelwatch up`, `api` and `key`: how they start, what they serve, how they end."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.api.http.auth import hash_key
from service.inference.model.default import find_default_model
from service.log.protocol import Output
from service.log.sqlite.session import SqliteWorkerSession
from tests.support.command_harness import CommandHarness

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

WAIT = 120.0
WRONG = {
    "id": "doc-1",
    "tokens": ["Angela", "Merkel", "visited", "Paris", "."],
    "labels": ["B-PER", "I-PER", "O", "B-PER", "O"],
}


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, tiny_model, variables={"LABELWATCH_API_PORT": "0"}, capfd=capfd)


@contextlib.contextmanager
def running(
    harness: CommandHarness, *arguments: str, **variables: str
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A process that is ready, and a client for it. The process is killed at the end, whatever happens."""
    process = harness.start(*arguments, **variables)
    try:
        with httpx.Client(base_url=read_address(process), timeout=WAIT) as client:
            yield process, client
    finally:
        process.kill()
        process.communicate()


def read_address(process: subprocess.Popen[str]) -> str:
    """The address of the ready line."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        assert ready.select(WAIT), "no line says that it is ready"
    line = process.stdout.readline()
    match = re.match(r"labelwatch is ready: (http://127\.0\.0\.1:\d+)/", line)
    assert match, (line, process.stderr.read() if process.stderr and process.poll() is not None else "")
    assert "/docs" in line
    assert "/metrics" in line
    return match[1]


def poll_until(client: httpx.Client, path: str, holds: Any) -> Any:
    last = time.monotonic() + WAIT
    while True:
        answer = client.get(path).json()
        if holds(answer):
            return answer
        assert time.monotonic() < last, f"{path} stays {answer}"
        time.sleep(0.02)


def stop_process(process: subprocess.Popen[str], number: signal.Signals) -> str:
    process.send_signal(number)
    _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return err


def test_a_wrong_label_comes_to_review_and_nothing_is_left_behind(harness: CommandHarness) -> None:
    harness.model = find_default_model()  # one that knows what Paris is
    with running(harness, "up") as (process, client):
        assert client.get("/readyz").json()["ready"] is True
        sent = client.post("/v1/sentences", json=WRONG, headers={"X-Request-ID": "r-1"})
        assert (sent.status_code, sent.json()["ids"]) == (202, ["doc-1"])
        (item,) = poll_until(client, "/v1/review", lambda answer: answer["items"])["items"]
        assert (item["id"], item["doubtful"][0]["token"]) == ("doc-1", "Paris")
        decision = {"id": "doc-1", "reviewer": "anna", "verdict": "error", "words": [3]}
        assert client.post("/v1/decisions", json=decision).status_code == 202
        poll_until(client, "/v1/review/default/doc-1", lambda answer: answer["state"] == "decided")
        # The API judges with the statistics of the worker.
        learned = poll_until(client, "/v1/datasets/default/thresholds", lambda answer: answer["sentences"] == 1)
        scored = client.post("/v1/score", json={"tokens": ["Paris"], "labels": ["B-PER"]}).json()
        thresholds = {item["name"]: item["threshold"] for item in learned["classes"]}
        assert scored["assessments"][0]["thresholds"] == thresholds
        metrics = client.get("/metrics").text
        assert 'labelwatch_assessed_sentences_total{dataset="default"} 1.0' in metrics
        assert 'labelwatch_review_items{dataset="default",state="decided"} 1.0' in metrics
        assert re.search(r'labelwatch_ready\{condition="worker"\} 1.0', metrics)
        again = harness.run("up")
        assert again.code == 1
        assert "another worker" in again.err
        err = stop_process(process, signal.SIGTERM)
        assert "1 message read, 1 to review" in err
    (assessment,) = harness.read_assessments()
    assert assessment.request_id == "r-1"
    with contextlib.closing(SqliteWorkerSession(harness.log_path, harness.topics)):
        pass  # the lock is free again


def test_the_api_alone_drains_while_a_client_listens(harness: CommandHarness) -> None:
    key = harness.run("key", "new", "anna", "--scope", "write").out.splitlines()
    variables = {"LABELWATCH_API_KEYS": key[1].partition("=")[2], "LABELWATCH_LOGS_FORMAT": "json"}
    with running(harness, "api", **variables) as (process, client):
        assert client.get("/v1/datasets").status_code == 401
        client.headers["Authorization"] = f"Bearer {key[0]}"
        assert client.post("/v1/sentences", json=WRONG).status_code == 202
        heard = threading.Event()
        ended = threading.Event()

        def listen() -> None:
            with client.stream("GET", "/v1/events") as events:
                for line in events.iter_lines():
                    if line.startswith("data:"):
                        heard.set()
            ended.set()

        listener = threading.Thread(target=listen)
        listener.start()
        assert heard.wait(WAIT)
        err = stop_process(process, signal.SIGINT)
        assert ended.wait(WAIT)  # to its end, not cut off
        listener.join()
        assert key[0] not in err
        assert all(line.startswith(("{", "labelwatch has stopped")) for line in err.splitlines())
    assert harness.read_records(harness.topics.sentences)
    assert harness.read_records(harness.topics.review) == []  # no worker


def test_a_thread_that_dies_ends_the_process(harness: CommandHarness) -> None:
    with running(harness, "up") as (process, _):
        harness.append(Output(harness.topics.state, b"not a key", b"{}"))
        out, err = process.communicate(timeout=WAIT)
        assert process.returncode == 1, out
        assert "unreadable key" in err.splitlines()[-1]
        assert "Traceback" not in err


def test_a_port_in_use_is_reported_at_once(harness: CommandHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = harness.run("up", LABELWATCH_API_PORT=port)
    assert ran.code == 1
    assert f"LABELWATCH_API_PORT: can't listen on 127.0.0.1:{port}" in ran.err
    assert "set it to another port, or 0 for any free one" in ran.err
    assert "LABELWATCH_API_HOST" in harness.run("api", LABELWATCH_API_HOST="no.such.host.invalid").err


def test_a_new_key(harness: CommandHarness) -> None:
    ran = harness.run("key", "new", "anna")
    key, line = ran.out.splitlines()
    assert line == f"LABELWATCH_API_KEYS=anna:read:{hash_key(key)}"
    assert key not in ran.err
    both = harness.run("key", "new", "ben", "--scope", "write", LABELWATCH_API_KEYS=line.partition("=")[2])
    assert both.out.splitlines()[1].startswith(f"{line},ben:write:")
    again = harness.run("key", "new", "anna", LABELWATCH_API_KEYS=line.partition("=")[2])
    assert again.code == 2
    assert "anna has a key already" in again.err
    assert harness.run("key", "new", "a b").code == 2
    assert os.environ.get("LABELWATCH_API_KEYS") is None


def test_a_new_key_for_label_studio(harness: CommandHarness) -> None:
    ran = harness.run("key", "new", "studio", "--scope", "label-studio", "--dataset", "trips")
    key, line = ran.out.splitlines()
    assert line == f"LABELWATCH_API_KEYS=studio:label-studio:trips:{hash_key(key)}"
    assert key not in ran.err
    assert "http://127.0.0.1:0/label-studio/trips/KEY" in ran.err
    both = harness.run("key", "new", "ben", LABELWATCH_API_KEYS=line.partition("=")[2])
    assert both.out.splitlines()[1].startswith(f"{line},ben:read:")
    for wrong in (["label-studio"], ["read", "--dataset", "trips"], ["label-studio", "--dataset", "Big Trips"]):
        refused = harness.run("key", "new", "other", "--scope", *wrong)
        assert refused.code == 2
        assert "--dataset" in refused.err
