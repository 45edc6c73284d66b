"""The process that the stream benchmarks measure. It runs on the cores that it is assigned.

python -m tests.bench.stream_side '{"kind": "kafka", …}'    →    one line of JSON
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.log.kafka.worker.session import KafkaWorkerSession
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.bench.pipeline import make_raw_run, make_sorted_batches, measure_seconds, open_session, read_sample
from tests.support.model_pools import make_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.log.protocol import BatchResult, WorkerSession

RAW_BATCHES = (8, 16)


class NonTransactionalSession(KafkaWorkerSession):
    """The same session without transactions: it waits for its messages and commits no offsets."""

    def commit(self, result: BatchResult) -> None:
        self.append(list(self._iter_outputs(result)))
        self._committed |= result.batch.next_offsets


def open_worker_session(job: dict[str, Any], topics: Topics) -> WorkerSession:
    if job["kind"] == "sqlite":
        return SqliteWorkerSession(Path(job["path"]), topics)
    kind = NonTransactionalSession if job["kind"] == "untransacted" else KafkaWorkerSession
    settings = KafkaSettings(bootstrap_servers=job["servers"])
    return kind(settings, topics, group="bench", worker_id=None)


class MeasuredWorker(Worker):
    """The whole loop, from the poll that brings the first records to the commit of the last ones."""

    target_records = 0
    processed = 0
    partitions: int | None = None
    began_at: tuple[float, float] | None = None
    ended_at = (0.0, 0.0)

    def run_until(self, target_records: int, on_progress: Callable[[int], None] = lambda _: None) -> dict[str, float]:
        self.target_records, self._on_progress, self._stop_event = target_records, on_progress, threading.Event()
        self.run(self._stop_event)
        assert self.began_at is not None
        wall, processor = (after - before for before, after in zip(self.began_at, self.ended_at, strict=True))
        return {"seconds": wall, "cpu_seconds": processor, "records": self.processed, "ended": self.ended_at[0]}

    def step(self) -> int:
        now = time.perf_counter(), time.process_time()
        records = super().step()
        if len(self.assigned) == self.partitions:
            print("ready", flush=True)
            self.partitions = None
        if records:
            self.began_at = self.began_at or now
            self.ended_at = time.perf_counter(), time.process_time()
            self.processed += records
            self._on_progress(self.processed)
            if self.processed >= self.target_records:
                self._stop_event.set()
        return records


def make_worker(classifier: Classifier, session: WorkerSession, topics: Topics) -> MeasuredWorker:
    datasets = DatasetRegistry(make_pool(classifier), min_words=20, prior_words=200)
    return MeasuredWorker(session, BatchProcessor(make_pool(classifier), datasets, topics), datasets, topics)


def pick_fastest_raw_run(folder: ModelFolder, classifier: Classifier) -> Callable[[], None]:
    """The graph alone over the sample, with the batch size that suits it best."""
    session = open_session(folder, 1)
    runs = [make_raw_run(session, make_sorted_batches(classifier, read_sample(), size)) for size in RAW_BATCHES]
    for run in runs:
        run()
    return min(runs, key=measure_seconds)


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The raw graph and the worker in turn, once for each prefix that has been filled."""
    folder = ModelFolder.load(Path(job["model"]) if "model" in job else find_default_model())
    classifier = Classifier(folder, threads=1)
    raw = pick_fastest_raw_run(folder, classifier)
    rounds = []
    for prefix in job["prefixes"]:
        topics = Topics(prefix)
        with contextlib.closing(open_worker_session(job, topics)) as session:
            found = make_worker(classifier, session, topics).run_until(job["records"])
        rounds.append({**found, "raw_seconds": measure_seconds(raw) * found["records"] / len(read_sample())})
    return {"rounds": rounds}


def measure_shared(job: dict[str, Any]) -> dict[str, Any]:
    """One of several workers on a topic. It reports its assignment and each batch."""
    classifier = Classifier(ModelFolder.load(find_default_model()), threads=1)
    topics = Topics(job["prefixes"][0])
    with contextlib.closing(open_worker_session(job, topics)) as session:
        worker = make_worker(classifier, session, topics)
        worker.partitions = job["partitions"]
        return worker.run_until(job["records"])


def measure_memory(job: dict[str, Any]) -> dict[str, Any]:
    """Resident memory over time. It must not grow with the number of records."""
    classifier = Classifier(ModelFolder.load(Path(job["model"])), threads=1)
    topics = Topics(job["prefixes"][0])
    seen: dict[int, float] = {}

    def note(done: int) -> None:
        for mark in job["marks"]:
            if done >= mark and mark not in seen:
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                seen[mark] = pages * resource.getpagesize() / 1e6

    with contextlib.closing(open_worker_session(job, topics)) as session:
        make_worker(classifier, session, topics).run_until(job["records"], note)
    return {"megabytes": seen}


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    os.sched_setaffinity(0, task["cores"])
    print(
        json.dumps({"measure": measure, "share": measure_shared, "memory": measure_memory}[task["what"]](task)),
        flush=True,
    )
