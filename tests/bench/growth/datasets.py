"""Datasets, each with settings and with statistics in six partitions: the start of a worker, a batch, a scrape, the API's memory.

The worker runs on the embedded log, so the time of a broker is not included. It is ready when it has read the settings and
the statistics of all partitions, and has its own partition.
"""

from __future__ import annotations

import gc
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from service.api.routes.health import get_conditions, get_degraded
from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.log.codec import to_state_key
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import SqliteWorkerSession
from service.runtime.api.backend import report_review_metrics
from service.statistics.running import RunningStats
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from service.stream.worker.reporting import register_datasets
from service.telemetry import Telemetry
from tests.bench.growth.curves import Curve, Goal
from tests.bench.growth.isolation import collect_points
from tests.bench.growth.review_data import LABELS, N_WORDS, TOPICS, append_all, get_source
from tests.bench.growth.worker_stream import read_rss_mb
from tests.support.api_harness import ApiHarness, api_harness, wait_for
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SIZES: Final = (1, 10, 100, 1_000)
N_PARTITIONS: Final = 6
N_SENTENCES: Final = 2_000
ITEMS_PER_DATASET: Final = 20
BATCH_RECORDS: Final = 128
ROUNDS: Final = 7


def measure(sizes: Sequence[int], *, isolated: bool = True) -> list[Curve]:
    points = collect_points(measure_size, sizes, isolated=isolated)
    largest = SIZES[-1]
    curves = {
        "worker_ready": ("seconds", "from the start of a worker to ready, six partitions", Goal(largest, 5)),
        "worker_batch": ("ms", f"{BATCH_RECORDS} sentences with probabilities, of up to as many datasets", None),
        "metrics_scrape": (
            "ms of CPU (p50)",
            "GET /metrics of `labelwatch up` after a change of the queue",
            Goal(largest, 50),
        ),
    }
    curves["api_memory"] = ("MB", f"the memory of an API and a worker, {ITEMS_PER_DATASET} items in review each", None)
    return [Curve(name, "datasets", unit, what, points[name], goal=goal) for name, (unit, what, goal) in curves.items()]


def measure_size(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="labelwatch-growth-") as name:
        folder = Path(name)
        classifier = Classifier(ModelFolder.load(make_model(folder / "model", "wordpiece", labels=LABELS)))
        append_datasets(folder, Judge(classifier.folder, DatasetSettings(), streamed=True).stats_key, size)
        ready_s = measure_ready(folder, classifier)
        batch_ms = measure_batch(folder, classifier, size)
        with api_harness(folder, classifier) as harness:
            scrape_ms = measure_scrape(harness)
            gc.collect()
            memory_mb = read_rss_mb()
        return {
            "api_memory": memory_mb,
            "worker_ready": ready_s,
            "worker_batch": batch_ms,
            "metrics_scrape": scrape_ms,
        }


def append_datasets(folder: Path, stats_key: str, size: int) -> None:
    """Settings, statistics of six partitions, and a few items in review for each dataset."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([0.1] * len(LABELS), 10 * N_SENTENCES)
    given = rng.integers(0, len(LABELS), len(probs))
    stats = RunningStats.empty(len(LABELS)).update(probs, given, priority=rng.beta(3.0, 0.2, N_SENTENCES))
    value = json.dumps(stats.snapshot(), separators=(",", ":")).encode()
    source = get_source()

    def list_outputs() -> Iterator[Output]:
        for number in range(size):
            dataset = f"dataset-{number}"
            settings = {"name": dataset, "version": 1}
            yield Output(TOPICS.datasets, dataset.encode(), json.dumps(settings).encode())
            for partition in range(N_PARTITIONS):
                yield Output(TOPICS.state, to_state_key(partition, dataset, stats_key), value)
            for item in range(ITEMS_PER_DATASET):
                yield source.build_output(item, dataset)
            for item in range(0, ITEMS_PER_DATASET, 4):
                yield source.build_decision(item, "reviewer-1", dataset)

    log = SqliteLog(folder / "log.sqlite", TOPICS)
    append_all(log, list_outputs())
    log.close()


def build_worker(folder: Path, classifier: Classifier) -> tuple[Worker, SqliteWorkerSession]:
    session, models = SqliteWorkerSession(folder / "log.sqlite", TOPICS), make_pool(classifier)
    datasets = DatasetRegistry(models, min_words=1, prior_words=0)
    processor = BatchProcessor(models, datasets, TOPICS)
    return Worker(session, processor, datasets, TOPICS, poll_timeout=0.0, reporter=Telemetry()), session


def measure_ready(folder: Path, classifier: Classifier) -> float:
    """Seconds from the start of a worker until it is ready, with its metrics registered."""
    worker, _ = build_worker(folder, classifier)
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,))
    started = time.perf_counter()
    thread.start()
    try:
        wait_for(lambda: worker.status.ready)
        return time.perf_counter() - started
    finally:
        stop.set()
        thread.join()


def measure_batch(folder: Path, classifier: Classifier, size: int) -> float:
    """Milliseconds of a batch: decode, judge, learn, commit and report, without a model."""
    worker, session = build_worker(folder, classifier)
    settings, states = session.follow(TOPICS.datasets), session.follow(TOPICS.state)
    while not (settings.caught_up and states.caught_up):
        worker.datasets.apply_records(settings.poll())
        worker.apply_state_records(states.poll())
    worker.apply_rebalance()
    seconds = []
    try:
        for number in range(ROUNDS):
            session.append([build_sentence(number * BATCH_RECORDS + k, size) for k in range(BATCH_RECORDS)])
            started = time.perf_counter()
            while worker.step():
                pass
            seconds.append(time.perf_counter() - started)
    finally:
        session.close()
    return 1000 * statistics.median(seconds)


def build_sentence(number: int, datasets: int) -> Output:
    """Fifteen words with the probabilities of their classes, of one of the datasets in turn."""
    rng = np.random.default_rng(number)
    probs = rng.dirichlet([0.1] * len(LABELS), N_WORDS)
    sentence = {
        "dataset": f"dataset-{number % datasets}",
        "id": f"b{number}",
        "tokens": [f"w{k}" for k in range(N_WORDS)],
        "labels": [LABELS[k] for k in probs.argmax(axis=1)],
        "probabilities": {"classes": LABELS, "words": probs.tolist()},
    }
    return Output(TOPICS.sentences, None, json.dumps(sentence).encode())


def measure_scrape(harness: ApiHarness) -> float:
    """Milliseconds of a scrape after a change of the queue. The hooks are those that `labelwatch up` registers."""
    backend, worker = harness.backend, harness.worker
    telemetry = backend.telemetry
    harness.project()
    worker.datasets.apply_records(harness.log.follow(TOPICS.datasets).poll())
    register_datasets(telemetry, worker.datasets, backend.state_view.snapshot)
    telemetry.watch_readiness(lambda: get_conditions(backend), lambda: get_degraded(backend))
    telemetry.on_scrape(lambda: report_review_metrics(telemetry, backend.queue))
    source, seconds = get_source(), []
    for number in range(ROUNDS):
        harness.log.append([source.build_output(1_000 + number, "dataset-0")])
        harness.project()
        started = time.process_time()
        telemetry.render_exposition()
        seconds.append(time.process_time() - started)
    return 1000 * statistics.median(seconds)
