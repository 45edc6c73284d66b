"""The port of a process without an API."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from service.errors import SettingsError
from service.telemetry import Telemetry
from service.telemetry.probe_server import ProbeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"


@contextmanager
def serving(probes: ProbeServer) -> Iterator[httpx.Client]:
    stop = threading.Event()
    thread = threading.Thread(target=probes.run, args=(stop,))
    thread.start()
    try:
        with httpx.Client(base_url=f"http://{HOST}:{probes.port}", trust_env=False) as client:
            yield client
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


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
        conditions["state"] = ""
        degraded["stream"] = "a broker is away"
        answer = client.get("/readyz?verbose")
        assert (answer.status_code, answer.json()) == (
            200,
            {"ready": True, "conditions": conditions, "degraded": degraded},
        )

        assert client.get("/healthz").json() == {"status": "ok"}
        alive[0] = False
        assert client.get("/healthz").status_code == 503

        assert client.get("/etc/passwd").status_code == 404
        assert client.post("/metrics").status_code == 501
        head = client.head("/healthz")
        assert (head.status_code, head.content) == (503, b"")


def test_a_silent_client_does_not_block_others() -> None:
    probes = ProbeServer(Telemetry(), host=HOST, port=0, conditions=dict)
    with serving(probes) as client, socket.create_connection((HOST, probes.port)):
        assert client.get("/readyz").status_code == 200


def test_a_failed_probe_is_logged_and_the_next_one_works(caplog: pytest.LogCaptureFixture) -> None:
    failing = [True]

    def conditions() -> dict[str, str]:
        if failing[0]:
            raise RuntimeError("unexpected")
        return {}

    with serving(ProbeServer(Telemetry(), host=HOST, port=0, conditions=conditions)) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/readyz")
        failing[0] = False
        assert client.get("/readyz").status_code == 200
    assert "can't answer a probe" in caplog.text


def test_a_port_in_use_is_an_error_of_the_setting() -> None:
    with socket.create_server((HOST, 0)) as occupied:
        port = occupied.getsockname()[1]
        with pytest.raises(SettingsError, match=f"LABELWATCH_WORKER_METRICS_PORT: can't listen on {HOST}:{port}"):
            ProbeServer(Telemetry(), host=HOST, port=port, conditions=dict)
