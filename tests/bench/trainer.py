"""Latency of scoring while a model is trained beside the service, against the same without a training.

The service is the real command and the training the real process at low priority, on the same cores. Rounds with and
without a training take turns.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

from service.log.codec import build_sentence_message
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.runtime.training.messages import ProgressMessage
from service.runtime.training.process import TrainingProcess
from tests.bench.rest import run_service
from tests.bench.rest_load import build_requests, run_load, summarize_latencies
from tests.bench.training import iter_varied_sample

ROUNDS = 5
SENTENCES = 1_000
WAIT_TIMEOUT_S = 120.0
DATASET = "bench"


def store_sentences(path: Path) -> None:
    topics = Topics()
    with closing(SqliteLog(path, topics)) as log:
        log.append(
            [
                build_sentence_message(topics.sentences, sentence.model_copy(update={"dataset": DATASET}))
                for sentence in islice(iter_varied_sample(), SENTENCES)
            ]
        )


def wait_for_step(process: TrainingProcess, step: str) -> None:
    """Until the training is at this step: before it only reads."""
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while time.monotonic() < deadline:
        message = process.poll(1.0)
        if isinstance(message, ProgressMessage) and message.progress.step == step:
            return
    raise RuntimeError(f"the training did not get to the step {step}")


def measure(port: int) -> dict[str, float]:
    """One client that sends a sentence as soon as the one before is answered."""
    return summarize_latencies(run_load(port, build_requests(port), 1)["latencies"])


def run() -> list[dict[str, Any]]:
    idle: list[dict[str, float]] = []
    busy: list[dict[str, float]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store_sentences(folder / "training.sqlite")
        port, _ = stack.enter_context(run_service(folder, os.sched_getaffinity(0)))
        variables = {
            "LABELWATCH_LOG_PATH": str(folder / "training.sqlite"),
            "LABELWATCH_MODELS_PATH": str(folder / "models"),
        }
        stack.enter_context(mock.patch.dict(os.environ, variables))
        measure(port)  # warm
        for number in range(ROUNDS):
            idle.append(measure(port))
            with TrainingProcess(dataset=DATASET, model=f"bench-v{number}", in_use=None, threads=1) as process:
                wait_for_step(process, "encode")
                busy.append(measure(port))
            print(
                f"p99 {idle[-1]['p99']:.2f} ms idle, {busy[-1]['p99']:.2f} ms during a training; "
                f"p50 {idle[-1]['p50']:.2f} and {busy[-1]['p50']:.2f} ms",
                file=sys.stderr,
            )
    ratios = [during["p99"] / before["p99"] for before, during in zip(idle, busy, strict=True)]
    return [
        {
            "name": "score_p99_while_training_vs_idle",
            "ratio": statistics.median(ratios),
            "detail": {
                "what": "p99 of POST /v1/score during a training over p99 without one (lower is better), one client",
                "cores": len(os.sched_getaffinity(0)),
                "ratios": ratios,
                "idle_ms": idle,
                "training_ms": busy,
            },
        }
    ]
