"""`labelwatch up`, `api` and `key`: how they start, what they serve, how they end."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import selectors
import shutil
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.access.key_text import hash_key
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


@pytest.mark.parametrize("command", ["up", "api"])
def test_an_empty_log_in_the_place_of_one_that_is_gone_is_a_warning(harness: CommandHarness, command: str) -> None:
    nowhere = {"LABELWATCH_API_HOST": "no.such.host.invalid"}  # it ends at once
    assert "is missing" not in harness.run(command, **nowhere).err
    (harness.folder / "queue.sqlite").touch()
    warning = f"{harness.log_path} is missing, and queue.sqlite is left beside it: move the file back"
    assert warning in harness.run(command, **nowhere).err


def test_a_new_key(harness: CommandHarness) -> None:
    ran = harness.run("key", "new", "anna")
    key, line = ran.out.splitlines()
    assert line == f"LABELWATCH_API_KEYS=anna:read:{hash_key(key)}"
    assert key not in ran.err
    both = harness.run("key", "new", "ben", "--scope", "write", LABELWATCH_API_KEYS=line.partition("=")[2])
    assert both.out.splitlines()[1].startswith(f"{line},ben:admin:")
    again = harness.run("key", "new", "anna", LABELWATCH_API_KEYS=line.partition("=")[2])
    assert again.code == 2
    assert "anna has a key already" in again.err
    assert harness.run("key", "new", "a b").code == 2
    assert os.environ.get("LABELWATCH_API_KEYS") is None


def test_a_new_key_with_a_role_and_datasets(harness: CommandHarness) -> None:
    options = ("--name", "dana", "--role", "reviewer", "--dataset", "med", "--dataset", "law")
    key, line = harness.run("key", "new", *options, "--print").out.splitlines()
    assert line == f"LABELWATCH_API_KEYS=dana:reviewer:med+law:{hash_key(key)}"
    assert not harness.log_path.exists()
    unnamed = harness.run("key", "new", "--role", "reviewer")
    assert (unnamed.code, "--name" in unnamed.err) == (2, True)


def test_a_first_key_that_is_not_of_an_admin_comes_with_a_hint(harness: CommandHarness) -> None:
    hint = "create one with `labelwatch key new --name NAME --role admin`"
    assert f"No key has the role admin for all datasets, and from now on every request needs a key: {hint}" in (
        harness.run("key", "new", "--name", "dana", "--role", "reviewer").err
    )
    proxy = {"LABELWATCH_API_PROXY_ADDRESSES": "10.0.0.1"}  # admins come through it
    assert hint not in harness.run("key", "new", "--name", "emil", **proxy).err
    limited = harness.run("key", "new", "--name", "fay", "--role", "admin", "--dataset", "med")
    assert hint in limited.err
    assert hint not in harness.run("key", "new", "--name", "lead", "--role", "admin").err
    assert hint not in harness.run("key", "new", "--name", "gus", "--role", "reviewer").err
    printed = harness.run("key", "new", "--name", "hal", "--print")
    assert f"None of these keys has the role admin: if the log has none either, {hint}" in printed.err
    admin = harness.run("key", "new", "--name", "ivy", "--role", "admin", "--print")
    assert hint not in admin.err


def test_stored_keys_are_created_listed_rotated_and_revoked(harness: CommandHarness) -> None:
    created = harness.run("key", "new", "--name", "dana", "--role", "reviewer", "--dataset", "med")
    key = created.out.strip()
    assert key not in created.err
    assert harness.run("key", "new", "--name", "dana", "--role", "read").code == 2
    rotated = harness.run("key", "rotate", "--name", "dana").out.strip()
    (stored,) = json.loads(harness.run("key", "list", "--json").out)["keys"]
    assert (stored["name"], stored["role"], stored["datasets"]) == ("dana", "reviewer", ["med"])
    shown = harness.run("key", "list").out
    assert "dana" in shown
    assert hash_key(rotated) not in shown
    (record,) = [record for record in harness.read_records(harness.topics.keys) if record.value]
    assert hash_key(rotated).encode() in (record.value or b"")
    assert harness.run("key", "revoke", "--name", "dana").code == 0
    assert json.loads(harness.run("key", "list", "--json").out)["keys"][0]["revoked_at"]
    again = harness.run("key", "revoke", "--name", "dana")
    assert (again.code, "`labelwatch key list`" in again.err) == (2, True)


def test_stored_keys_are_valid_and_revoked_without_a_restart(harness: CommandHarness) -> None:
    with running(harness, "api") as (process, client):
        assert client.get("/v1/datasets").status_code == 200
        key = harness.run("key", "new", "--name", "lead", "--role", "admin").out.strip()
        poll_until(client, "/v1/datasets", lambda answer: answer.get("status") == 401)
        client.headers["Authorization"] = f"Bearer {key}"
        assert client.get("/v1/me").json()["name"] == "lead"
        ended = threading.Event()
        heard = threading.Event()

        def listen() -> None:
            with client.stream("GET", "/v1/events") as events:
                for line in events.iter_lines():
                    if line.startswith("data:"):
                        heard.set()
            ended.set()

        listener = threading.Thread(target=listen)
        listener.start()
        assert heard.wait(WAIT)
        assert harness.run("key", "revoke", "--name", "lead").code == 0
        assert ended.wait(WAIT)  # an open stream ends too
        listener.join()
        assert client.get("/v1/me").status_code == 401
        stop_process(process, signal.SIGTERM)


def test_an_address_that_others_reach_needs_a_key(harness: CommandHarness) -> None:
    refused = harness.run("api", LABELWATCH_API_HOST="0.0.0.0")  # noqa: S104 - it is refused
    assert refused.code == 1
    assert "LABELWATCH_API_KEYLESS=allow" in refused.err


def test_a_new_key_for_label_studio(harness: CommandHarness) -> None:
    ran = harness.run("key", "new", "studio", "--scope", "label-studio", "--dataset", "trips")
    key, line = ran.out.splitlines()
    assert line == f"LABELWATCH_API_KEYS=studio:label-studio:trips:{hash_key(key)}"
    assert key not in ran.err
    assert "http://127.0.0.1:0/label-studio/trips/KEY" in ran.err
    both = harness.run("key", "new", "ben", LABELWATCH_API_KEYS=line.partition("=")[2])
    assert both.out.splitlines()[1].startswith(f"{line},ben:read:")
    for wrong in (["label-studio"], ["read", "--dataset", "Big Trips"], ["label-studio", "--dataset", "Big Trips"]):
        refused = harness.run("key", "new", "other", "--scope", *wrong)
        assert refused.code == 2
        assert "--dataset" in refused.err


def test_a_running_service_is_backed_up_and_its_log_is_not_replaced(harness: CommandHarness) -> None:
    backup = harness.folder / "copy.sqlite"
    with running(harness, "up") as (_, client):
        client.post("/v1/sentences", json=WRONG).raise_for_status()
        assert harness.run("backup", backup).code == 0
        ran = harness.run("restore", backup, "--replace")
        assert ran.code == 1
        assert "stop labelwatch first" in ran.err
        assert client.get("/readyz").status_code == 200
    assert harness.run("restore", backup, "--replace").code == 0
    assert len(harness.read_records(harness.topics.sentences)) == 1


def test_health_and_metrics_on_a_port_of_their_own(harness: CommandHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        running(harness, "api", LABELWATCH_API_METRICS_PORT=str(port)) as (process, client),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT) as probes,
    ):
        assert probes.get("/healthz").json() == {"status": "ok"}
        readiness = client.get("/readyz").json()
        poll_until(probes, "/readyz", lambda answer: answer == readiness)
        assert "labelwatch_ready" in probes.get("/metrics").text
        assert probes.get("/v1/datasets").status_code == 404
        stop_process(process, signal.SIGTERM)


def test_standard_error_that_nobody_reads_does_not_stop_requests(harness: CommandHarness) -> None:
    name = "x" * 1_500
    with running(harness, "up", LABELWATCH_LOGS_FORMAT="json") as (process, client):
        assert process.stderr is not None
        fill = 2 * fcntl.fcntl(process.stderr, fcntl.F_GETPIPE_SZ) // len(name)
        for _ in range(fill):  # each makes a line of the access log
            assert client.get(f"/v1/datasets/{name}").status_code == 422
        assert client.post("/v1/score", json=WRONG).status_code == 200
        assert "labelwatch_log_lines_dropped_total 0.0" in client.get("/metrics").text  # they wait
        err = stop_process(process, signal.SIGTERM)
        assert err.count('"status": 422') == fill


def test_with_a_full_disk_the_service_starts_and_does_not_write(harness: CommandHarness) -> None:
    with running(harness, "up") as (process, client):
        assert client.post("/v1/sentences", json=WRONG).status_code == 202
        poll_until(client, "/v1/datasets/default/thresholds", lambda answer: answer.get("sentences") == 1)
        stop_process(process, signal.SIGTERM)
    with running(harness, "up", LABELWATCH_LOG_RESERVE_BYTES=str(10**18)) as (process, client):
        assert "LABELWATCH_LOG_RESERVE_BYTES" in client.get("/readyz").json()["degraded"]["disk"]
        refused = client.post("/v1/sentences", json=WRONG)
        assert (refused.status_code, "free some space" in refused.json()["detail"]) == (503, True)
        assert client.post("/v1/score", json=WRONG).status_code == 200
        assert client.get("/v1/datasets/default/thresholds").json()["sentences"] == 1
        stop_process(process, signal.SIGTERM)


def test_a_log_that_is_deleted_is_noticed(harness: CommandHarness) -> None:
    with running(harness, "up") as (process, client):
        assert client.post("/v1/sentences", json=WRONG).status_code == 202
        harness.log_path.unlink()
        refused = client.post("/v1/sentences", json=WRONG)
        assert (refused.status_code, "was deleted" in refused.json()["detail"]) == (503, True)
        assert "was deleted" in client.get("/readyz").json()["degraded"]["log"]
        assert client.post("/v1/score", json=WRONG).status_code == 200
        stop_process(process, signal.SIGTERM)


def test_a_folder_that_is_deleted_does_not_end_the_service(harness: CommandHarness) -> None:
    folder = harness.folder / "data"
    with running(harness, "up", LABELWATCH_LOG_PATH=str(folder / "log.sqlite")) as (process, client):
        assert client.post("/v1/sentences", json=WRONG).status_code == 202
        poll_until(client, "/v1/datasets/default/thresholds", lambda answer: answer.get("sentences") == 1)
        poll_until(client, "/readyz", lambda _: len([*folder.glob("log.sqlite.*.lock")]) == 2)  # the leases are taken
        shutil.rmtree(folder)
        poll_until(client, "/readyz", lambda answer: "failed: No such file" in answer["degraded"].get("review", ""))
        refused = client.post("/v1/sentences", json=WRONG)
        assert (refused.status_code, "without keys and settings" in refused.json()["detail"]) == (503, True)
        assert client.post("/v1/score", json=WRONG).status_code == 200
        stop_process(process, signal.SIGTERM)


@contextlib.contextmanager
def usual_umask() -> Iterator[None]:
    """Files that processes started inside create are readable for everybody, unless they see to it."""
    previous = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(previous)


def list_modes(folder: Path) -> dict[str, int]:
    """The modes of everything in a folder, by path. What is removed meanwhile is left out."""
    modes = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            modes[str(path.relative_to(folder))] = path.stat().st_mode & 0o777
    return modes


def test_nobody_else_can_read_what_the_service_stores(harness: CommandHarness) -> None:
    """Also what it stores for a while: a queue without a file is in a temporary one."""
    folder, temporary = harness.folder / "new", harness.folder / "temporary"
    temporary.mkdir()
    variables = {
        "LABELWATCH_LOG_PATH": str(folder / "log.sqlite"),
        "LABELWATCH_API_QUEUE_PATH": ":memory:",
        "TMPDIR": str(temporary),
    }
    with usual_umask(), running(harness, "up", **variables) as (process, client):
        assert client.post("/v1/sentences", json=WRONG).status_code == 202
        modes = list_modes(harness.folder)
        stop_process(process, signal.SIGTERM)
    del modes["temporary"]
    assert any(name.startswith("temporary/") and name.endswith("queue.sqlite") for name in modes)
    assert {"new", "new/log.sqlite"} <= set(modes)
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
