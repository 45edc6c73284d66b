"""The counts of batches of each dataset and source partition, as records of the state topic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from service.log.codec import to_batches_key
from service.statistics.batches import DatasetBatches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.contracts import LabelledSentence, Reason
    from service.log.protocol import Record

    BatchesByDataset = Mapping[str, Mapping[int, DatasetBatches]]


@dataclass(frozen=True, slots=True)
class BatchesRecord:
    """The counts of a dataset from one source partition; `counts` is None for a tombstone."""

    partition: int
    dataset: str
    counts: DatasetBatches | None

    @property
    def is_tombstone(self) -> bool:
        return self.counts is None

    def to_key(self) -> bytes:
        return to_batches_key(self.partition, self.dataset)


class BatchesDraft:
    """Changes on top of the counts of a snapshot, which stay as they are."""

    def __init__(self, before: BatchesByDataset) -> None:
        self._before = before
        self._changed: dict[str, dict[int, DatasetBatches]] = {}
        self._counted: set[tuple[int, str]] = set()

    def apply(self, record: BatchesRecord) -> None:
        partitions = self._copy_partitions(record.dataset)
        if record.counts is None:
            partitions.pop(record.partition, None)
        else:
            partitions[record.partition] = record.counts

    def clear_partition(self, partition: int) -> None:
        for dataset in {*self._before, *self._changed}:
            if partition in self._get_partitions(dataset):
                self._copy_partitions(dataset).pop(partition)

    def count(self, record: Record, sentence: LabelledSentence, *, reason: Reason, share: float) -> None:
        """Counts a sentence that was judged. One that replaces an earlier annotation is not part of the delivery."""
        if sentence.batch is None or sentence.update:
            return
        partitions = self._copy_partitions(sentence.dataset)
        counts = partitions.get(record.partition, DatasetBatches())
        arrival_ms = max(0, record.timestamp_ms)
        partitions[record.partition] = counts.count(
            sentence.batch,
            flagged=reason == "flagged",
            drawn=reason == "control",
            share=share,
            arrival_ms=arrival_ms,
        )
        self._counted.add((record.partition, sentence.dataset))

    def iter_records(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Partition, key and value of each record that has changed by `count`."""
        for partition, dataset in sorted(self._counted):
            counts = self._changed[dataset][partition]
            yield partition, to_batches_key(partition, dataset), counts.to_json()

    def to_mapping(self) -> BatchesByDataset:
        if not self._changed:
            return self._before
        return {dataset: partitions for dataset, partitions in {**self._before, **self._changed}.items() if partitions}

    def _get_partitions(self, dataset: str) -> Mapping[int, DatasetBatches]:
        return self._changed.get(dataset, self._before.get(dataset, {}))

    def _copy_partitions(self, dataset: str) -> dict[int, DatasetBatches]:
        if dataset not in self._changed:
            self._changed[dataset] = dict(self._before.get(dataset, {}))
        return self._changed[dataset]


def sum_batches(by_dataset: BatchesByDataset, dataset: str) -> DatasetBatches:
    """The counts of a dataset over all partitions."""
    return reduce(DatasetBatches.merge, by_dataset.get(dataset, {}).values(), DatasetBatches())
