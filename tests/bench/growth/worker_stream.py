"""A worker's stream without a log and without a model: sentences with probabilities are decoded, judged and learned from.

So the costs of a broker, a disk and a graph are not included. Times are processor time.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.protocol import Record, RecordBatch
from service.log.topics import Topics
from service.stream.state.reader import apply_state_record, read_state_record
from service.stream.state.snapshot import StateSnapshot
from service.stream.worker.batch_processor import BatchProcessor
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOPICS: Final = Topics()
BATCH_RECORDS: Final = 512
N_POOL: Final = 200
N_VOCABULARY: Final = 200_000
DIGITS: Final = 4


class WorkerStream:
    """A processor that reads its own partitions, with the state that it has committed."""

    def __init__(self, folder: Path, labels: Sequence[str], *, words: int, partitions: int = 1) -> None:
        classifier = Classifier(ModelFolder.load(make_model(folder / "model", "wordpiece", labels=tuple(labels))))
        models = make_pool(classifier)
        registry = DatasetRegistry(models, min_words=1, prior_words=0)
        self._processor = BatchProcessor(models, registry, TOPICS, max_words=max(words, 1_000))
        self._partitions = partitions
        self._words = words
        self._pool = list(build_bodies(labels, words))
        self._snapshot = StateSnapshot()
        self.committed: dict[bytes, bytes] = {}
        self.sentences = 0

    def build_batch(self, records: int) -> RecordBatch:
        """The next sentences, each with an id and words of its own, in all partitions in turn."""
        by_partition: dict[int, list[Record]] = {number: [] for number in range(self._partitions)}
        for number in range(self.sentences, self.sentences + records):
            first = number * self._words * 7
            tokens = ",".join(f'"w{(first + 7 * k) % N_VOCABULARY}"' for k in range(self._words))
            value = f'{{"id":"s{number}","tokens":[{tokens}],{self._pool[number % len(self._pool)]}'.encode()
            partition = number % self._partitions
            record = Record(TOPICS.sentences, partition, number // self._partitions, None, value, (), 1_000)
            by_partition[partition].append(record)
        self.sentences += records
        return RecordBatch({partition: found for partition, found in by_partition.items() if found})

    def process(self, batch: RecordBatch) -> float:
        """Seconds of processor time."""
        started = time.process_time()
        processed = self._processor.process(batch, self._snapshot)
        self._snapshot = processed.snapshot
        for state in processed.result.state.values():
            self.committed |= state
        return time.process_time() - started

    def run(self, sentences: int, *, batch: int = BATCH_RECORDS) -> float:
        """Seconds of processor time for so many more sentences."""
        sizes = [batch] * (sentences // batch) + ([sentences % batch] if sentences % batch else [])
        return sum(self.process(self.build_batch(size)) for size in sizes)

    def restore(self) -> float:
        """Seconds of processor time to read back what was committed, as a worker does that starts."""
        started = time.process_time()
        draft = StateSnapshot().start_draft()
        for key, value in self.committed.items():
            record = read_state_record(TOPICS.state, key, value)
            if record is not None:
                apply_state_record(draft, TOPICS.state, record)
        draft.to_snapshot()
        return time.process_time() - started


@contextmanager
def open_stream(labels: Sequence[str], *, words: int, partitions: int = 1) -> Iterator[WorkerStream]:
    with tempfile.TemporaryDirectory(prefix="labelwatch-growth-") as name:
        yield WorkerStream(Path(name), labels, words=words, partitions=partitions)


def build_bodies(labels: Sequence[str], words: int) -> Iterator[str]:
    """Labels and probabilities of a sentence as JSON, after its tokens. Few given labels are not the most probable one."""
    random = np.random.default_rng(0)
    for _ in range(N_POOL if words < 1_000 else 1):
        probs = random.dirichlet([0.1] * len(labels), words).round(DIGITS)
        given = probs.argmax(axis=1)
        probs[np.arange(words), given] += 1 - probs.sum(axis=1)
        given[random.random(words) < 0.01] = 0
        body = {
            "labels": [labels[k] for k in given],
            "probabilities": {
                "classes": list(labels),
                "words": [[round(p, DIGITS) for p in row] for row in probs.tolist()],
            },
        }
        yield json.dumps(body, separators=(",", ":"))[1:]


def build_labels(classes: int) -> tuple[str, ...]:
    """O, and B and I of as many types as needed."""
    return ("O", *(f"{prefix}-TYPE{kind}" for kind in range(classes) for prefix in "BI"))[:classes]


def read_rss_mb() -> float:
    """What the process has in memory now."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
