"""Two partitions that are read in batches, with commits, batches that fail, and restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.log.protocol import Record, RecordBatch
from service.log.topics import Topics
from service.stream.state.reader import apply_state_record, read_state_record
from service.stream.state.snapshot import StateSnapshot
from service.stream.worker.batch_processor import BatchProcessor
from tests.support.model_pools import make_pool

if TYPE_CHECKING:
    from service.datasets.registry import DatasetRegistry
    from service.inference.classifier import Classifier

TOPICS = Topics()


class Partitions:
    """Two partitions that one processor reads, with the state that it has committed."""

    def __init__(self, classifier: Classifier, registry: DatasetRegistry, **options: Any) -> None:
        self._processor = BatchProcessor(make_pool(classifier), registry, TOPICS, **options)
        self._offsets = {0: 0, 1: 0}
        self.snapshot = StateSnapshot()
        self.committed: dict[bytes, bytes] = {}
        self.written: list[bytes] = []

    def process(self, batch: dict[int, list[bytes]], *, commit: bool = True) -> None:
        records: dict[int, list[Record]] = {}
        for partition, values in batch.items():
            first = self._offsets[partition]
            records[partition] = [
                Record(TOPICS.sentences, partition, first + index, None, value, (), 1_000)
                for index, value in enumerate(values)
            ]
        next_offsets = {partition: self._offsets[partition] + len(values) for partition, values in batch.items()}
        processed = self._processor.process(RecordBatch(records, next_offsets), self.snapshot)
        if commit:
            self.snapshot = processed.snapshot
            self._offsets |= next_offsets
            for state in processed.result.state.values():
                self.committed |= state
                self.written += state

    def restart(self) -> None:
        draft = StateSnapshot().start_draft()
        for key, value in self.committed.items():
            record = read_state_record(TOPICS.state, key, value)
            assert record is not None
            apply_state_record(draft, TOPICS.state, record)
        self.snapshot = draft.to_snapshot()
