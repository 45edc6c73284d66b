"""The port for probes, which a process of its own answers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.registry import Collector

from service.errors import SettingsError
from service.telemetry import Telemetry
from service.telemetry.probes import process as probe_process
from service.telemetry.probes.server import ProbeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.metrics_core import Metric

HOST = "127.0.0.1"
WAIT_S = 60.0


@contextmanager
def serving(probes: ProbeServer) -> Iterator[httpx.Client]:
    stop = threading.Event()
    thread = threading.Thread(target=probes.run, args=(stop,))
    thread.start()
    try:
        with open_client(probes.port) as client:
            wait_for(lambda: "starting" not in client.get("/readyz").text)
            yield client
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


def open_client(port: int) -> httpx.Client:
    return httpx.Client(base_url=f"http://{HOST}:{port}", trust_env=False, timeout=WAIT_S)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_metrics_health_and_readiness() -> None:
    conditions, degraded, alive = {"state": "not read yet", "worker": ""}, {"stream": ""}, [True]
    probes = ProbeServer(
        Telemetry(),
        host=HOST,
        port=0,
        conditions=lambda: conditions,
        degraded=lambda: degraded,
        alive=lambda: alive[0],
    )
    with serving(probes) as client:
        metrics = client.get("/metrics")
        assert metrics.status_code == 200
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "labelwatch_records_total 0.0" in metrics.text

        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"ready": False, "conditions": conditions, "degraded": {}})
        degraded["stream"] = "a broker is away"
        conditions["state"] = ""
        wait_for(lambda: client.get("/readyz?verbose").status_code == 200)
        assert client.get("/readyz").json() == {"ready": True, "conditions": conditions, "degraded": degraded}

        assert client.get("/healthz").json() == {"status": "ok"}
        alive[0] = False
        wait_for(lambda: client.get("/healthz").status_code == 503)
        assert client.get("/healthz").json() == {"status": "a thread has died"}

        assert client.get("/etc/passwd").status_code == 404
        assert client.post("/metrics").status_code == 405
        head = client.head("/healthz")
        assert (head.status_code, head.content) == (503, b"")


def test_a_silent_client_does_not_block_others() -> None:
    probes = ProbeServer(Telemetry(), host=HOST, port=0, conditions=dict)
    with serving(probes) as client, socket.create_connection((HOST, probes.port)):
        assert client.get("/readyz").status_code == 200


def test_readiness_that_waits_for_a_lock_does_not_delay_health() -> None:
    released = threading.Event()

    def conditions() -> dict[str, str]:
        released.wait(WAIT_S)
        return {}

    probes = ProbeServer(Telemetry(), host=HOST, port=0, conditions=conditions)
    stop = threading.Event()
    thread = threading.Thread(target=probes.run, args=(stop,))
    thread.start()
    try:
        with open_client(probes.port) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").json()["conditions"] == {"process": "the service is starting"}
            released.set()
            wait_for(lambda: client.get("/readyz").status_code == 200)
    finally:
        released.set()
        stop.set()
        thread.join(30)


def test_readiness_that_fails_is_logged_and_the_next_evaluation_counts(caplog: pytest.LogCaptureFixture) -> None:
    failing = [True]

    def conditions() -> dict[str, str]:
        if failing[0]:
            raise RuntimeError("unexpected")
        return {}

    with serving(ProbeServer(Telemetry(), host=HOST, port=0, conditions=conditions)) as client:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["conditions"] == {"readiness": "can't be evaluated: RuntimeError"}
        failing[0] = False
        wait_for(lambda: client.get("/readyz").status_code == 200)
    assert "can't evaluate whether the service is ready" in caplog.text


def test_metrics_that_fail_are_logged_and_the_next_scrape_counts(caplog: pytest.LogCaptureFixture) -> None:
    telemetry, failing = Telemetry(), [True]

    class Failing(Collector):
        def collect(self) -> Iterable[Metric]:
            if failing[0]:
                raise RuntimeError("unexpected")
            return ()

        def describe(self) -> Iterable[Metric]:
            return ()

    telemetry.registry.register(Failing())
    with serving(ProbeServer(telemetry, host=HOST, port=0, conditions=dict)) as client:
        answer = client.get("/metrics")
        assert answer.status_code == 500
        assert "RuntimeError" in answer.text
        failing[0] = False
        assert "labelwatch_build_info" in client.get("/metrics").text
    assert "can't render the metrics" in caplog.text


def test_a_port_in_use_is_an_error_of_the_setting() -> None:
    with socket.create_server((HOST, 0)) as occupied:
        port = occupied.getsockname()[1]
        with pytest.raises(SettingsError, match=f"LABELWATCH_WORKER_METRICS_PORT: can't listen on {HOST}:{port}"):
            ProbeServer(Telemetry(), host=HOST, port=port, conditions=dict)


SERVICE = """
import sys, threading
from service.telemetry import Telemetry
from service.telemetry.probes.server import ProbeServer
probes = ProbeServer(Telemetry(), host="127.0.0.1", port=0, conditions=dict)
print(probes.port, flush=True)
probes.run(threading.Event())
"""


@pytest.fixture
def service() -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    with subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with open_client(int(process.stdout.readline())) as client:
                wait_for(lambda: client.get("/readyz").status_code == 200)
                yield process, client
        finally:
            process.kill()


def find_child(process: subprocess.Popen[str]) -> int | None:
    """The process that answers for a service."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return next(iter(map(int, children.split())), None)


def test_the_process_is_started_anew_if_it_ends(service: tuple[subprocess.Popen[str], httpx.Client]) -> None:
    process, client = service
    child = find_child(process)
    assert child is not None
    os.kill(child, signal.SIGKILL)
    wait_for(lambda: find_child(process) not in (None, child))
    with open_client(client.base_url.port or 0) as fresh:  # no connection to the first process
        assert fresh.get("/healthz").status_code == 200


def test_it_ends_with_the_service(service: tuple[subprocess.Popen[str], httpx.Client]) -> None:
    process, client = service
    process.kill()

    def is_refused() -> bool:
        try:
            assert client.get("/healthz").status_code == 503
        except httpx.TransportError:
            return True
        return False

    process.wait()
    wait_for(is_refused)


def test_a_service_that_stands_still_is_answered_for_at_once_and_is_red(
    service: tuple[subprocess.Popen[str], httpx.Client],
) -> None:
    process, client = service
    process.send_signal(signal.SIGSTOP)
    assert client.get("/healthz").status_code == 200  # nothing of the service runs
    wait_for(lambda: client.get("/healthz").status_code == 503)
    assert "the service has not reported for 1" in client.get("/healthz").json()["status"]
    readiness = client.get("/readyz")
    assert readiness.status_code == 503
    assert "has not reported" in readiness.json()["conditions"]["process"]
    os.kill(process.pid, signal.SIGCONT)
    wait_for(lambda: client.get("/healthz").status_code == client.get("/readyz").status_code == 200)


def test_the_script_needs_the_standard_library_only() -> None:
    command = [sys.executable, "-I", "-S", probe_process.__file__]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "IndexError" in ended.stderr  # and no ImportError
