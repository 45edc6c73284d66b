"""A worker process of the real runs that the simulation is checked against. Prints a line of JSON for each event.

python -m tests.bench.scale.real_side '{"servers": …, "prefix": …}'    →    {"event": "batch", …}

With `sleep_s` the model is a tiny one that also sleeps for each sentence: so several workers run side by side on few cores, as
they would on machines of their own. The process joins the group when a line comes in, and stops with SIGTERM.
"""

from __future__ import annotations

import json
import signal
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
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.support.model_pools import make_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.inference.classifier import InferenceResult
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence
    from service.log.protocol import BatchResult, RecordBatch


def report(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, "at": time.perf_counter(), **values}), flush=True)


class SlowClassifier(Classifier):
    sleep_s = 0.0

    def run(self, encoded: Sequence[EncodedSentence], *, pooling: Pooling | None = None) -> list[InferenceResult]:
        time.sleep(self.sleep_s * len(encoded))
        return super().run(encoded, pooling=pooling)


class ReportingSession(KafkaWorkerSession):
    """Notes when a batch was read and how long its commit took."""

    polled_at = 0.0
    last_commit: dict[str, float]

    def poll(self, **limits: Any) -> RecordBatch:
        batch = super().poll(**limits)
        self.polled_at = time.perf_counter()
        return batch

    def commit(self, result: BatchResult) -> None:
        began = time.perf_counter()
        super().commit(result)
        records = [pair for values in result.state.values() for pair in values.items()]
        self.last_commit = {
            "commit_s": time.perf_counter() - began,
            "partitions": len(result.batch.next_offsets),
            "state_records": len(records),
            "state_bytes": sum(len(key) + len(value) for key, value in records),
            "output_bytes": sum(len(output.value or b"") for output in result.outputs),
        }


class ReportingWorker(Worker):
    session: ReportingSession

    def step(self) -> int:
        began = time.perf_counter()
        records = super().step()
        if records:
            session = self.session
            report("batch", began=began, polled=session.polled_at, records=records, **session.last_commit)
        return records

    def apply_rebalance(self) -> None:
        before = self.assigned
        super().apply_rebalance()
        if self.assigned != before:
            report("assigned", before=len(before), owned=sorted(self.assigned))


def main(job: dict[str, Any]) -> None:
    folder = ModelFolder.load(Path(job["model"]) if "model" in job else find_default_model())
    classifier = SlowClassifier(folder, threads=1)
    classifier.sleep_s = job.get("sleep_s", 0.0)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    report("loaded")
    sys.stdin.readline()
    topics = Topics(job["prefix"])
    settings = KafkaSettings(bootstrap_servers=job["servers"], session_timeout_ms=job["session_timeout_ms"])
    session = ReportingSession(settings, topics, group="scale", worker_id=None)
    datasets = DatasetRegistry(make_pool(classifier), min_words=20, prior_words=200)
    processor = BatchProcessor(make_pool(classifier), datasets, topics)
    worker = ReportingWorker(session, processor, datasets, topics, batch_records=job["batch_records"])
    worker.session = session
    report("joins")
    worker.run(stop)
    report("ended")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
