"""What the stream benchmarks measure, in a process of its own that keeps to the cores it is given.

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

from service.datasets.registry import Datasets
from service.inference.classifier import Classifier
from service.inference.model.default import default_model
from service.inference.model.folder import ModelFolder
from service.log.kafka.session import KafkaStream
from service.log.kafka.settings import KafkaSettings
from service.log.sqlite.log import SqliteStream
from service.log.topics import Topics
from service.stream.worker.batch_processor import Assessor
from service.stream.worker.loop import Worker
from tests.bench.pipeline import raw_run, sample_sentences, session_of, sorted_batches, timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.log.protocol import Stream, Work

RAW_BATCHES = (8, 16)


class Untransacted(KafkaStream):
    """The same log without the transaction: messages are written and waited for, offsets are not kept at all."""

    def commit(self, work: Work) -> None:
        self.append(list(self._outputs(work)))
        self._committed |= work.polled.next_offsets


def stream_of(job: dict[str, Any], topics: Topics) -> Stream:
    if job["kind"] == "sqlite":
        return SqliteStream(Path(job["path"]), topics)
    kind = Untransacted if job["kind"] == "untransacted" else KafkaStream
    settings = KafkaSettings(bootstrap_servers=job["servers"])
    return kind(settings, topics, group="bench", worker_id=None)


class Measured(Worker):
    """The whole loop, from the poll that brings the first records to the commit of the last ones."""

    wanted = 0
    done = 0
    partitions: int | None = None
    begun: tuple[float, float] | None = None
    ended = (0.0, 0.0)

    def run_until(self, wanted: int, told: Callable[[int], None] = lambda _: None) -> dict[str, float]:
        self.wanted, self._told, self._end = wanted, told, threading.Event()
        self.run(self._end)
        assert self.begun is not None
        wall, processor = (after - before for before, after in zip(self.begun, self.ended, strict=True))
        return {"seconds": wall, "cpu_seconds": processor, "records": self.done, "ended": self.ended[0]}

    def step(self) -> int:
        now = time.perf_counter(), time.process_time()
        records = super().step()
        if len(self.owned) == self.partitions:
            print("ready", flush=True)
            self.partitions = None
        if records:
            self.begun = self.begun or now
            self.ended = time.perf_counter(), time.process_time()
            self.done += records
            self._told(self.done)
            if self.done >= self.wanted:
                self._end.set()
        return records


def worker_of(classifier: Classifier, stream: Stream, topics: Topics) -> Measured:
    datasets = Datasets(classifier.folder, min_words=20, prior_words=200)
    return Measured(stream, Assessor(classifier, datasets, topics), datasets, topics)


def best_raw(folder: ModelFolder, classifier: Classifier) -> Callable[[], None]:
    """The graph alone over the sample, with the batch size that suits it best."""
    session = session_of(folder, 1)
    runs = [raw_run(session, sorted_batches(classifier, sample_sentences(), size)) for size in RAW_BATCHES]
    for run in runs:
        run()
    return min(runs, key=timed)


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The raw graph and the worker in turn, once for each prefix that has been filled."""
    folder = ModelFolder.load(Path(job["model"]) if "model" in job else default_model())
    classifier = Classifier(folder, threads=1)
    raw = best_raw(folder, classifier)
    rounds = []
    for prefix in job["prefixes"]:
        topics = Topics(prefix)
        with contextlib.closing(stream_of(job, topics)) as stream:
            found = worker_of(classifier, stream, topics).run_until(job["records"])
        rounds.append({**found, "raw_seconds": timed(raw) * found["records"] / len(sample_sentences())})
    return {"rounds": rounds}


def share(job: dict[str, Any]) -> dict[str, Any]:
    """One of several workers on a topic: tells when it has its partition, and each time it has done a batch."""
    classifier = Classifier(ModelFolder.load(default_model()), threads=1)
    topics = Topics(job["prefixes"][0])
    with contextlib.closing(stream_of(job, topics)) as stream:
        worker = worker_of(classifier, stream, topics)
        worker.partitions = job["partitions"]
        return worker.run_until(job["records"])


def memory(job: dict[str, Any]) -> dict[str, Any]:
    """Resident memory as the stream goes on: the statistics must not grow with it."""
    classifier = Classifier(ModelFolder.load(Path(job["model"])), threads=1)
    topics = Topics(job["prefixes"][0])
    seen: dict[int, float] = {}

    def note(done: int) -> None:
        for mark in job["marks"]:
            if done >= mark and mark not in seen:
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                seen[mark] = pages * resource.getpagesize() / 1e6

    with contextlib.closing(stream_of(job, topics)) as stream:
        worker_of(classifier, stream, topics).run_until(job["records"], note)
    return {"megabytes": seen}


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    os.sched_setaffinity(0, task["cores"])
    print(json.dumps({"measure": measure, "share": share, "memory": memory}[task["what"]](task)), flush=True)
