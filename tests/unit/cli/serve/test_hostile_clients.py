"""A whole service beside clients that mean it no good: it stops when it should, and gives back what they took."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from tests.attack.watch import read_memory
from tests.support.command_harness import CommandHarness
from tests.support.service_process import wait_until
from tests.unit.cli.serve.test_up import WRONG, running, stop_process

if TYPE_CHECKING:
    from collections.abc import Iterator

MEGABYTE = 1_000_000
N_CONVERTING = 32  # together they convert for longer than a service may take to stop


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    variables = {"LABELWATCH_API_PORT": "0", "LABELWATCH_LOGS_LEVEL": "error"}
    return CommandHarness(tmp_path, tiny_model, variables=variables, capfd=capfd)


def test_sigterm_ends_a_service_that_converts_records(harness: CommandHarness) -> None:
    """Exit code 0: nothing had to be ended by force. Six bodies of 2 MB kept a service alive for 80 s."""
    annotations = [{"id": n, "result": []} for n in range(1_000)]
    record = json.dumps({"id": 1, "data": {"text": "a " * 4_900}, "annotations": annotations}).encode()
    timed_out = threading.Event()

    def convert(url: httpx.URL) -> None:
        with contextlib.suppress(httpx.TransportError), httpx.Client(timeout=120.0) as client:
            while True:
                answer = client.post(
                    url.join("/v1/score?format=label-studio"),
                    content=record,
                    headers={"Content-Type": "application/json"},
                )
                assert answer.status_code in (413, 429, 503, 504), answer.text
                if answer.status_code == 504:
                    timed_out.set()

    with running(harness, "up", LABELWATCH_API_TIMEOUT_S="1") as (process, client):
        threads = [threading.Thread(target=convert, args=(client.base_url,)) for _ in range(N_CONVERTING)]
        for thread in threads:
            thread.start()
        assert timed_out.wait(120)  # so conversions take longer than their requests
        stop_process(process, signal.SIGTERM)
        for thread in threads:
            thread.join()


def hold_back_body(url: httpx.URL, size: int) -> socket.socket:
    """A client that sends all of its body but the last byte."""
    address = urlsplit(str(url))
    client = socket.create_connection((address.hostname, address.port), timeout=120.0)
    head = f"POST /v1/score HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode() + b" " * (size - 1))
    return client


def test_the_memory_of_bodies_is_given_back(harness: CommandHarness) -> None:
    with running(harness, "api") as (process, client):
        client.post("/v1/score", json=WRONG).raise_for_status()
        idle = read_memory(process.pid)
        for _ in range(2):
            with contextlib.ExitStack() as held:
                for _ in range(8):
                    held.enter_context(hold_back_body(client.base_url, 12 * MEGABYTE))
                wait_until(lambda: read_memory(process.pid) > idle + 80 * MEGABYTE)
            wait_until(lambda: read_memory(process.pid) < idle + 30 * MEGABYTE)
        stop_process(process, signal.SIGTERM)


@contextlib.contextmanager
def soft_file_limit(limit: int) -> Iterator[int]:
    """Processes that are started inside have this soft limit. Yields the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_service_raises_its_limit_of_files(harness: CommandHarness) -> None:
    with soft_file_limit(512), running(harness, "api") as (process, _):
        limits = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
        (open_files,) = [line.split()[3] for line in limits if line.startswith("Max open files")]
        assert open_files == "unlimited" or int(open_files) > 512
        stop_process(process, signal.SIGTERM)
