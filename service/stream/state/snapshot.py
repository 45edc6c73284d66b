"""The state of the stream: class statistics per stats key and source partition, and their sums over all partitions.
The counts of what has arrived in a dataset, the sums of annotators (annotators.py) and the counts of batches (batches.py) are kept
in the same way. Memories (memories.py) are kept too, but not added up: a partition has its own.

Only this module adds partitions up. Worker, API and CLI ask it for the statistics of a judge and therefore judge with
the same thresholds, to the bit.

A snapshot never changes. A `StateDraft` collects changes and ends in a new snapshot, which adds up only the keys that
changed and shares the rest. The worker replaces its snapshot only after a commit: a batch that fails leaves no trace.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from service.errors import StateError
from service.log.codec import to_arrivals_key, to_state_key
from service.statistics.arrivals import ArrivalCounts
from service.statistics.running import RunningStats
from service.stream.state.annotators import AnnotatorDraft, AnnotatorRecord
from service.stream.state.batches import BatchesDraft, BatchesRecord
from service.stream.state.memories import MemoryDraft, MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.judging.judge import Judge
    from service.statistics.memory.memory import Memory
    from service.stream.state.annotators import AnnotatorsByKey
    from service.stream.state.batches import BatchesByDataset
    from service.stream.state.memories import MemoriesByKey, PartitionMemory


class StatsKey(NamedTuple):
    """What statistics belong to: a dataset, judged by one model in one way."""

    dataset: str
    stats_key: str

    @classmethod
    def from_judge(cls, judge: Judge) -> StatsKey:
        return cls(judge.settings.name, judge.stats_key)


@dataclass(frozen=True, slots=True)
class StateRecord:
    """The statistics of one key and source partition; `stats` is None for a tombstone."""

    partition: int
    key: StatsKey
    stats: RunningStats | None

    @property
    def dataset(self) -> str:
        return self.key.dataset

    @property
    def is_tombstone(self) -> bool:
        return self.stats is None

    def to_key(self) -> bytes:
        return to_state_key(self.partition, *self.key)


@dataclass(frozen=True, slots=True)
class ArrivalsRecord:
    """The counts of what has arrived in a dataset from one source partition; `counts` is None for a tombstone."""

    partition: int
    dataset: str
    counts: ArrivalCounts | None

    @property
    def is_tombstone(self) -> bool:
        return self.counts is None

    def to_key(self) -> bytes:
        return to_arrivals_key(self.partition, self.dataset)


AnyStateRecord = StateRecord | ArrivalsRecord | MemoryRecord | AnnotatorRecord | BatchesRecord


class KeyStats:
    """The statistics of one key by partition, and their sum, which is computed when first needed."""

    __slots__ = ("_total", "partitions")

    def __init__(self, partitions: Mapping[int, RunningStats], total: RunningStats | None = None) -> None:
        self.partitions = partitions
        self._total = total

    def get_total(self, keep_days: int | None) -> RunningStats:
        if self._total is None or self._total.keep_days != keep_days:
            self._total = _sum_partitions(self.partitions.values(), keep_days)
        return self._total


def _sum_partitions(partitions: Iterable[RunningStats], keep_days: int | None) -> RunningStats:
    """The sum over all partitions, with the dataset's `forget_after_days` of now as `keep_days`.

    Each partition is written with the setting of its last batch. An idle partition with a shorter memory must not make
    the others forget, so the stored settings play no part.
    """
    return reduce(RunningStats.merge, [stats.with_keep_days(keep_days) for stats in partitions])


class DatasetArrivals:
    """The counts of one dataset by partition, and their sum."""

    __slots__ = ("partitions", "total")

    def __init__(self, partitions: Mapping[int, ArrivalCounts]) -> None:
        self.partitions = partitions
        self.total = reduce(ArrivalCounts.merge, partitions.values(), ArrivalCounts())

    @property
    def next_offsets(self) -> dict[int, int]:
        """By partition, the offset of the input before which stored records are released."""
        return {partition: counts.next_offset for partition, counts in self.partitions.items()}


NO_ARRIVALS = DatasetArrivals({})
NO_MEMORIES: Mapping[int, PartitionMemory] = {}


class StateSnapshot:
    """Statistics and memories by stats key and source partition, and counts of arrivals by dataset and source partition."""

    __slots__ = ("annotators", "arrivals", "batches", "by_key", "memories")

    def __init__(
        self,
        by_key: Mapping[StatsKey, KeyStats] | None = None,
        arrivals: Mapping[str, DatasetArrivals] | None = None,
        memories: MemoriesByKey | None = None,
        annotators: AnnotatorsByKey | None = None,
        batches: BatchesByDataset | None = None,
    ) -> None:
        self.annotators: AnnotatorsByKey = annotators or {}
        self.batches: BatchesByDataset = batches or {}
        self.memories: MemoriesByKey = memories or {}
        self.by_key: Mapping[StatsKey, KeyStats] = by_key or {}
        self.arrivals: Mapping[str, DatasetArrivals] = arrivals or {}

    @property
    def keys(self) -> frozenset[StatsKey]:
        return frozenset(self.by_key)

    @property
    def datasets(self) -> frozenset[str]:
        """Datasets that have statistics, or in which something has arrived."""
        return frozenset(key.dataset for key in self.by_key) | self.arrivals.keys()

    def count_sentences(self) -> int:
        """All sentences that were learned from, whatever their dataset and stats key."""
        partitions = (stats for key_stats in self.by_key.values() for stats in key_stats.partitions.values())
        return sum(stats.histogram.total for stats in partitions)

    def count_sentences_by_dataset(self) -> Counter[str]:
        """Sentences of each dataset that were learned from, by any model and in any epoch."""
        counts: Counter[str] = Counter()
        for key, key_stats in self.by_key.items():
            counts[key.dataset] += sum(stats.histogram.total for stats in key_stats.partitions.values())
        return counts

    def get_partitions(self, key: StatsKey) -> Mapping[int, RunningStats]:
        key_stats = self.by_key.get(key)
        return {} if key_stats is None else key_stats.partitions

    def get_total(self, key: StatsKey, keep_days: int | None) -> RunningStats | None:
        """The sum over all partitions, or None if nothing was learned. The same object until the key changes."""
        key_stats = self.by_key.get(key)
        return None if key_stats is None else key_stats.get_total(keep_days)

    def find_stats(self, judge: Judge) -> RunningStats | None:
        """The statistics that `judge` judges with, or None if nothing was learned yet."""
        key = StatsKey.from_judge(judge)
        total = self.get_total(key, judge.settings.forget_after_days)
        if total is not None and total.n_classes != len(judge.classes):
            raise StateError(
                f"the statistics of dataset {key.dataset} have {total.n_classes} classes, its model has "
                f"{len(judge.classes)}: run `labelwatch thresholds reset {key.dataset}` to start with new statistics"
            )
        return total

    def get_stats(self, judge: Judge) -> RunningStats:
        """The statistics that `judge` judges with; empty ones if nothing was learned yet."""
        stats = self.find_stats(judge)
        return judge.create_empty_stats() if stats is None else stats

    def get_memories(self, judge: Judge) -> Mapping[int, PartitionMemory]:
        """The memories of a judge's statistics by partition. The same object until one of them changes."""
        return self.memories.get(StatsKey.from_judge(judge), NO_MEMORIES)

    @property
    def memory_partitions(self) -> tuple[int, ...]:
        """The partitions that have a memory, of any key."""
        return tuple(sorted({partition for partitions in self.memories.values() for partition in partitions}))

    def list_arrivals(self) -> dict[str, ArrivalCounts]:
        """What has arrived in each dataset, from all partitions."""
        return {dataset: arrivals.total for dataset, arrivals in self.arrivals.items()}

    def get_arrivals(self, dataset: str) -> DatasetArrivals:
        return self.arrivals.get(dataset, NO_ARRIVALS)

    def start_draft(self) -> StateDraft:
        return StateDraft(self)


class StateDraft:
    """Changes on top of a snapshot, which stays as it is: a batch in progress, or records of the state topic."""

    def __init__(self, snapshot: StateSnapshot) -> None:
        self._snapshot = snapshot
        self._changed: dict[StatsKey, dict[int, RunningStats]] = {}
        self._totals: dict[StatsKey, RunningStats] = {}
        self._arrivals: dict[str, dict[int, ArrivalCounts]] = {}
        self.memories = MemoryDraft(snapshot.memories)
        self.annotators = AnnotatorDraft(snapshot.annotators)
        self.batches = BatchesDraft(snapshot.batches)
        self.parts = (self.memories, self.annotators, self.batches)

    def apply(self, record: AnyStateRecord) -> None:
        """Applies a record of the state topic. A StateError leaves the draft as it was."""
        match record:
            case ArrivalsRecord():
                self._apply_arrivals(record)
            case MemoryRecord():
                self.memories.apply(record)
            case AnnotatorRecord():
                self.annotators.apply(record)
            case BatchesRecord():
                self.batches.apply(record)
            case _:
                self._apply_stats(record)

    def _apply_stats(self, record: StateRecord) -> None:
        if record.stats is None:
            self._copy_partitions(record.key).pop(record.partition, None)
        else:
            other = next(iter(self._get_partitions(record.key).values()), None)
            if other is not None and other.n_classes != record.stats.n_classes:
                raise StateError(
                    f"statistics of {record.stats.n_classes} classes where the key has {other.n_classes} classes"
                )
            self._copy_partitions(record.key)[record.partition] = record.stats
        self._totals.pop(record.key, None)

    def _apply_arrivals(self, record: ArrivalsRecord) -> None:
        if record.counts is not None:
            self.put_arrivals(record.partition, record.dataset, record.counts)
        elif record.partition in self._get_arrivals(record.dataset):
            self._copy_arrivals(record.dataset).pop(record.partition)

    def clear_partition(self, partition: int) -> None:
        """Removes everything of a partition."""
        for part in self.parts:
            part.clear_partition(partition)
        for dataset in {*self._snapshot.arrivals, *self._arrivals}:
            self._apply_arrivals(ArrivalsRecord(partition, dataset, None))
        for key in {*self._snapshot.by_key, *self._changed}:
            if partition in self._get_partitions(key):
                self.apply(StateRecord(partition, key, None))

    def get_stats(self, judge: Judge) -> RunningStats:
        """The statistics that `judge` judges with, with what the draft has learned so far."""
        key = StatsKey.from_judge(judge)
        total = self._totals.get(key)
        if total is not None:
            return total
        return (self.to_snapshot() if key in self._changed else self._snapshot).get_stats(judge)

    def put_stats(self, judge: Judge, total: RunningStats) -> None:
        """New statistics over all partitions; `put_partition_stats` must follow with those of the partition."""
        self._totals[StatsKey.from_judge(judge)] = total

    def get_partition_stats(self, partition: int, judge: Judge) -> RunningStats:
        """The partition's own share, with the dataset's `forget_after_days` of now."""
        stats = self._get_partitions(StatsKey.from_judge(judge)).get(partition)
        return judge.create_empty_stats() if stats is None else stats.with_keep_days(judge.settings.forget_after_days)

    def put_partition_stats(self, partition: int, judge: Judge, stats: RunningStats) -> None:
        self._copy_partitions(StatsKey.from_judge(judge))[partition] = stats

    def get_memory(self, partition: int, judge: Judge) -> Memory | None:
        """The partition's own memory with what the draft has learned so far; None: nothing yet."""
        return self.memories.get(partition, StatsKey.from_judge(judge))

    def put_memory(self, partition: int, judge: Judge, memory: Memory) -> None:
        self.memories.put(partition, StatsKey.from_judge(judge), memory)

    def get_partition_arrivals(self, partition: int, dataset: str) -> ArrivalCounts:
        """The partition's own share of what has arrived in the dataset."""
        return self._get_arrivals(dataset).get(partition, ArrivalCounts())

    def get_arrivals(self, dataset: str) -> ArrivalCounts:
        """What has arrived in the dataset from all partitions."""
        partitions = self._arrivals.get(dataset)
        if partitions is None:
            return self._snapshot.get_arrivals(dataset).total
        return DatasetArrivals(partitions).total

    def put_arrivals(self, partition: int, dataset: str, counts: ArrivalCounts) -> None:
        self._copy_arrivals(dataset)[partition] = counts

    def _get_arrivals(self, dataset: str) -> Mapping[int, ArrivalCounts]:
        return self._arrivals.get(dataset, self._snapshot.get_arrivals(dataset).partitions)

    def _copy_arrivals(self, dataset: str) -> dict[int, ArrivalCounts]:
        if dataset not in self._arrivals:
            self._arrivals[dataset] = dict(self._snapshot.get_arrivals(dataset).partitions)
        return self._arrivals[dataset]

    def _get_partitions(self, key: StatsKey) -> Mapping[int, RunningStats]:
        return self._changed.get(key, self._snapshot.get_partitions(key))

    def _copy_partitions(self, key: StatsKey) -> dict[int, RunningStats]:
        """The partitions of a key, for this draft to change."""
        partitions = self._changed.get(key)
        if partitions is None:
            partitions = self._changed[key] = dict(self._snapshot.get_partitions(key))
        return partitions

    def to_snapshot(self) -> StateSnapshot:
        """The snapshot with the changes of this draft."""
        memories, annotators = self.memories.to_mapping(), self.annotators.to_mapping()
        batches, before = self.batches.to_mapping(), self._snapshot
        is_same = memories is before.memories and annotators is before.annotators and batches is before.batches
        if is_same and not self._changed and not self._arrivals:
            return self._snapshot
        by_key = dict(self._snapshot.by_key)
        for key, partitions in self._changed.items():
            if partitions:
                by_key[key] = KeyStats(partitions, self._totals.get(key))
            else:
                by_key.pop(key, None)
        arrivals = dict(self._snapshot.arrivals)
        for dataset, counts in self._arrivals.items():
            if counts:
                arrivals[dataset] = DatasetArrivals(counts)
            else:
                arrivals.pop(dataset, None)
        return StateSnapshot(by_key, arrivals, memories, annotators, batches)
