"""How each service is started and asked: the command, the address that answers when it is ready, and the request of a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bench.rest import run_service
from tests.support.ports import find_free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from service.contracts import LabelledSentence

THREADS = 1
START_TIMEOUT_S = 180.0
MLSERVER_VARIABLE = "LABELWATCH_BENCH_MLSERVER"


class RunningService(NamedTuple):
    """A service that answers, and the body and path of a request for one sentence."""

    name: str
    port: int
    path: str
    build_body: Callable[[LabelledSentence], Mapping[str, Any]]

    def build_request(self, sentence: LabelledSentence) -> bytes:
        body = json.dumps(self.build_body(sentence)).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def build_plain_body(sentence: LabelledSentence) -> Mapping[str, Any]:
    return {"tokens": sentence.tokens, "labels": sentence.labels}


def build_inference_body(sentence: LabelledSentence) -> Mapping[str, Any]:
    """As the open inference protocol (v2) has it."""
    return {
        "inputs": [
            {"name": name, "shape": [len(values)], "datatype": "BYTES", "data": list(values)}
            for name, values in (("tokens", sentence.tokens), ("labels", sentence.labels))
        ]
    }


@contextmanager
def run_labelwatch(folder: Path, cores: set[int]) -> Iterator[RunningService]:
    with run_service(folder, cores) as (port, _):
        yield RunningService("labelwatch", port, "/v1/score", build_plain_body)


@contextmanager
def run_plain_service(folder: Path, cores: set[int]) -> Iterator[RunningService]:
    port = find_free_port()
    command = [sys.executable, "-m", "tests.bench.services.plain", str(port)]
    with run_process(command, f"http://127.0.0.1:{port}/ready", cores):
        yield RunningService("FastAPI + transformers + cleanlab", port, "/score", build_plain_body)


@contextmanager
def run_mlserver(folder: Path, cores: set[int]) -> Iterator[RunningService]:
    """MLServer of the environment whose command the variable names. It needs transformers and cleanlab there too."""
    port = find_free_port()
    models = folder / "mlserver"
    models.mkdir()
    settings = {
        "host": "127.0.0.1",
        "http_port": port,
        "grpc_port": find_free_port(),
        "metrics_port": find_free_port(),
        "parallel_workers": 0,
        "debug": False,
    }
    (models / "settings.json").write_text(json.dumps(settings))
    model = {"name": "labels", "implementation": "tests.bench.services.mlserver_runtime.LabelQuality"}
    (models / "model-settings.json").write_text(json.dumps(model))
    command = [os.environ[MLSERVER_VARIABLE], "start", str(models)]
    with run_process(command, f"http://127.0.0.1:{port}/v2/models/labels/ready", cores):
        yield RunningService(
            "MLServer + transformers + cleanlab", port, "/v2/models/labels/infer", build_inference_body
        )


@contextmanager
def run_process(command: list[str], ready_address: str, cores: set[int]) -> Iterator[None]:
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": str(THREADS)},  # noqa: PTH109
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - no threads here
    )
    try:
        until = time.monotonic() + START_TIMEOUT_S
        while not answers(ready_address):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{' '.join(command)} did not get ready: its message stands above")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - a loopback address of our own
            return bool(answer.status == 200)
    except OSError:
        return False
