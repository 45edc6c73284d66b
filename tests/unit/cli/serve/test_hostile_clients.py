"""A whole service beside clients that mean it no good: it stops when it should, and gives back what they took."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from service.runtime.lifecycle.process_limits import MAX_STOP_S
from tests.attack.watch import read_memory
from tests.support.command_harness import CommandHarness
from tests.support.service_process import wait_until
from tests.unit.cli.serve.test_up import WRONG, running, stop_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

MEGABYTE = 1_000_000
SLOW_CONVERSIONS = """
import time
from service.api.ingest import record_converter

def build_slowly(*arguments, build=record_converter.build_sentence):
    time.sleep(0.1)
    return build(*arguments)

record_converter.build_sentence = build_slowly
"""


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    variables = {"LABELWATCH_API_PORT": "0", "LABELWATCH_LOGS_LEVEL": "error"}
    return CommandHarness(tmp_path, tiny_model, variables=variables, capfd=capfd)


def test_sigterm_ends_a_service_that_converts_records(harness: CommandHarness) -> None:
    """Exit code 0: nothing had to be ended by force. A process waits for its threads, so each conversion must end early.

    Real conversions are too short to show it, since their sentences are limited. Here one takes minutes.
    """
    harness.program = SLOW_CONVERSIONS + harness.program
    annotations = [{"id": n, "result": []} for n in range(MAX_STOP_S * 20)]
    record = json.dumps({"id": 1, "data": {"text": "a word"}, "annotations": annotations}).encode()
    with running(harness, "up", LABELWATCH_API_TIMEOUT_S="1", LABELWATCH_API_MAX_SENTENCES="10000") as (
        process,
        client,
    ):
        answer = client.post(
            "/v1/score?format=label-studio", content=record, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 504, answer.text
        stop_process(process, signal.SIGTERM)


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
