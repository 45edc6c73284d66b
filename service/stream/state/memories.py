"""The memory of each stats key and source partition, as records of the state topic.

A memory has two records: what changes with every sentence is written with every commit, the history only when a
generation was added to it. Both are in the transaction of the batch. Records are unpacked when a sentence needs them:
most processes need few of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.errors import StateError
from service.log.codec import to_memory_key
from service.statistics.memory.snapshot import read_history, read_memory, write_history, write_recent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.statistics.memory.history import FormHistory
    from service.statistics.memory.memory import Memory
    from service.stream.state.snapshot import StatsKey

    MemoriesByKey = Mapping[StatsKey, Mapping[int, "PartitionMemory"]]

RECENT: Final = "recent"
HISTORY: Final = "history"
MEMORY_PARTS: Final = (RECENT, HISTORY)


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One part of a memory, as the topic has it; `value` is None for a tombstone."""

    partition: int
    key: StatsKey
    part: str
    value: bytes | None

    @property
    def dataset(self) -> str:
        return self.key.dataset

    @property
    def is_tombstone(self) -> bool:
        return self.value is None

    def to_key(self) -> bytes:
        return to_memory_key(self.partition, *self.key, self.part)


class HistoryValue:
    """A record of a history. It is unpacked once, though a new record of the other part comes with every commit.

    A full history takes 3 ms to unpack, the other part .5 ms.
    """

    __slots__ = ("_history", "_value")

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._history: FormHistory | None = None

    def get_history(self) -> FormHistory:
        if self._history is None:
            self._history = read_history(_load(self._value))
        return self._history


class PartitionMemory:
    """The memory of one key and partition: its records, or the tables that were learned since. It never changes."""

    __slots__ = ("_history", "_memory", "_recent")

    def __init__(
        self, *, recent: bytes | None = None, history: HistoryValue | None = None, memory: Memory | None = None
    ) -> None:
        self._recent = recent
        self._history = history
        self._memory = memory

    def with_record(self, record: MemoryRecord) -> PartitionMemory | None:
        """With another value of one part; None if nothing is left."""
        recent, history = self._recent, self._history
        if record.part == RECENT:
            recent = record.value
        else:
            history = None if record.value is None else HistoryValue(record.value)
        return None if recent is None and history is None else PartitionMemory(recent=recent, history=history)

    def get_tables(self) -> Memory | None:
        """The tables, which must not be changed: fork them. StateError if a record can't be read."""
        if self._memory is None and self._recent is not None:
            history = None if self._history is None else self._history.get_history()
            self._memory = read_memory(_load(self._recent), history)
        return self._memory


class MemoryDraft:
    """Changes on top of the memories of a snapshot, which stay as they are."""

    def __init__(self, before: MemoriesByKey) -> None:
        self._before = before
        self._changed: dict[StatsKey, dict[int, PartitionMemory]] = {}
        self._learned: dict[tuple[int, StatsKey], Memory] = {}

    def apply(self, record: MemoryRecord) -> None:
        partitions = self._copy_partitions(record.key)
        memory = partitions.get(record.partition, PartitionMemory()).with_record(record)
        if memory is None:
            partitions.pop(record.partition, None)
        else:
            partitions[record.partition] = memory

    def clear_partition(self, partition: int) -> None:
        for key in {*self._before, *self._changed}:
            if partition in self._get_partitions(key):
                self._copy_partitions(key).pop(partition)

    def list_keys(self, partition: int) -> list[StatsKey]:
        """The keys that have a memory in the partition."""
        return [key for key in {**self._before, **self._changed} if partition in self._get_partitions(key)]

    def get(self, partition: int, key: StatsKey) -> Memory | None:
        """The tables of a partition, for this draft to change; `put` must follow."""
        learned = self._learned.get((partition, key))
        if learned is not None:
            return learned
        tables = self.get_tables(partition, key)
        return None if tables is None else tables.fork()

    def put(self, partition: int, key: StatsKey, memory: Memory) -> None:
        self._learned[partition, key] = memory

    def iter_records(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Partition, key and value of each record that has changed by `put`."""
        for (partition, key), memory in self._learned.items():
            yield partition, to_memory_key(partition, *key, RECENT), _dump(write_recent(memory))
            before = self.get_tables(partition, key)
            history = memory.history
            if history is not None and history.generations and (before is None or before.history is not history):
                yield partition, to_memory_key(partition, *key, HISTORY), _dump(write_history(history))

    def to_mapping(self) -> MemoriesByKey:
        for (partition, key), memory in self._learned.items():
            self._copy_partitions(key)[partition] = PartitionMemory(memory=memory)
        if not self._changed:
            return self._before
        return {key: partitions for key, partitions in {**self._before, **self._changed}.items() if partitions}

    def get_tables(self, partition: int, key: StatsKey) -> Memory | None:
        """The tables before anything was `put`, which must not be changed."""
        memory = self._get_partitions(key).get(partition)
        return None if memory is None else memory.get_tables()

    def _get_partitions(self, key: StatsKey) -> Mapping[int, PartitionMemory]:
        return self._changed.get(key, self._before.get(key, {}))

    def _copy_partitions(self, key: StatsKey) -> dict[int, PartitionMemory]:
        partitions = self._changed.get(key)
        if partitions is None:
            partitions = self._changed[key] = dict(self._before.get(key, {}))
        return partitions


def _load(value: bytes) -> object:
    try:
        loaded: object = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise StateError(f"the value is not JSON: {error}") from error
    return loaded


def _dump(snapshot: dict[str, object]) -> bytes:
    return json.dumps(snapshot, separators=(",", ":")).encode()
