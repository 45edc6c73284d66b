"""Where the partitions of a batch can't go on, since the model of a record's dataset is missing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.errors import MissingModelError
    from service.log.protocol import Record, RecordBatch


@dataclass(frozen=True, slots=True)
class StoppedPartition:
    """The record that a partition can't go on with, and why."""

    partition: int
    offset: int
    dataset: str
    reason: str


@dataclass(slots=True)
class PartitionStops:
    """The first record of each partition that can't be processed yet."""

    by_partition: dict[int, StoppedPartition] = field(default_factory=dict)

    def add(self, record: Record, dataset: str, error: MissingModelError) -> None:
        stop = self.by_partition.get(record.partition)
        if stop is None or record.offset < stop.offset:
            self.by_partition[record.partition] = StoppedPartition(record.partition, record.offset, dataset, str(error))

    def includes(self, record: Record) -> bool:
        stop = self.by_partition.get(record.partition)
        return stop is not None and record.offset >= stop.offset

    def trim(self, batch: RecordBatch) -> RecordBatch:
        """The batch without the records that can't be processed yet, and without partitions that have no others."""
        if not self.by_partition:
            return batch
        records = {
            partition: [record for record in records if not self.includes(record)]
            for partition, records in batch.records.items()
        }
        return replace(batch, records={partition: kept for partition, kept in records.items() if kept})
