"""Reads records of the state topic: the one reader that worker, API and CLI share.

Every record that can't be read ends in a `StateError` that names the topic, the key, the dataset and what to do.
A worker stops at it, because it would write statistics on top of ones it has not seen. A read-only view keeps the last
statistics it could read and reports the error. `labelwatch check` prints it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from service.contracts import is_dataset_name
from service.errors import NewerStateError, StateError
from service.log.codec import (
    parse_annotator_key,
    parse_arrivals_key,
    parse_batches_key,
    parse_memory_key,
    parse_position,
    parse_position_key,
    parse_state_key,
)
from service.log.read import read_compacted_topic
from service.statistics.annotators.sums import AnnotatorSums
from service.statistics.arrivals import ArrivalCounts
from service.statistics.batches import DatasetBatches
from service.statistics.running import RunningStats
from service.stream.state.annotators import AnnotatorRecord
from service.stream.state.batches import BatchesRecord
from service.stream.state.memories import MEMORY_PARTS, RECENT, MemoryRecord
from service.stream.state.snapshot import ArrivalsRecord, StateRecord, StateSnapshot, StatsKey

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.stream.state.snapshot import AnyStateRecord, StateDraft

MAX_KEY_CHARS = 200
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RestoredState:
    """The contents of the state topic: the statistics of all partitions, and the next offset of each."""

    snapshot: StateSnapshot
    positions: dict[int, int]


def read_state(log: Log, topics: Topics) -> RestoredState:
    """Reads the whole state topic, for commands."""
    draft, positions = StateSnapshot().start_draft(), {}
    for key, record in read_compacted_topic(log, topics.state).items():
        state_record = read_state_record(topics.state, key, record.value)
        if state_record is None:
            positions[parse_position_key(key)] = parse_position(record.value or b"")
        else:
            apply_state_record(draft, topics.state, state_record)
    return RestoredState(draft.to_snapshot(), positions)


def read_state_record(
    topic: str, key: bytes | None, value: bytes | None, *, skip: Container[int] = ()
) -> AnyStateRecord | None:
    """What a record holds; None for a position record, or a partition to skip."""
    memory = parse_memory_key(key or b"")
    if memory is not None:
        partition, dataset, stats_key, part = memory
        _check_dataset(topic, key, dataset)
        if part not in MEMORY_PARTS:
            raise _describe_unreadable(topic, key, f"{part[:80]!r} is not a part of a memory")
        return None if partition in skip else MemoryRecord(partition, StatsKey(dataset, stats_key), part, value)
    source = _Source(topic, key, value)
    for read in (_read_annotator_record, _read_arrivals_record, _read_batches_record):
        record = read(source, skip)
        if record is not None:
            return None if record.partition in skip else record
    try:
        parsed = parse_state_key(key or b"")
    except StateError as error:
        raise _describe_unreadable(topic, key, str(error)) from error
    if parsed is None or parsed[0] in skip:
        return None
    partition, dataset, stats_key = parsed
    stats = source.restore(RunningStats.restore, partition, dataset, skip)
    return StateRecord(partition, StatsKey(dataset, stats_key), stats)


def _read_annotator_record(source: _Source, skip: Container[int]) -> AnnotatorRecord | None:
    parsed = parse_annotator_key(source.key or b"")
    if parsed is None:
        return None
    partition, dataset, stats_key, name = parsed
    sums = source.restore(AnnotatorSums.restore, partition, dataset, skip)
    return AnnotatorRecord(partition, StatsKey(dataset, stats_key), name, sums)


def _read_arrivals_record(source: _Source, skip: Container[int]) -> ArrivalsRecord | None:
    parsed = parse_arrivals_key(source.key or b"")
    return None if parsed is None else ArrivalsRecord(*parsed, source.restore(ArrivalCounts.restore, *parsed, skip))


def _read_batches_record(source: _Source, skip: Container[int]) -> BatchesRecord | None:
    parsed = parse_batches_key(source.key or b"")
    return None if parsed is None else BatchesRecord(*parsed, source.restore(DatasetBatches.restore, *parsed, skip))


class _Source(NamedTuple):
    """A record as it stands in its topic."""

    topic: str
    key: bytes | None
    value: bytes | None

    def restore(self, restore: Callable[[object], T], partition: int, dataset: str, skip: Container[int]) -> T | None:
        """The value; None for a tombstone, or a partition to skip."""
        _check_dataset(self.topic, self.key, dataset)
        if self.value is None or partition in skip:
            return None
        return _read_value(restore, self.topic, self.key, self.value, dataset=dataset)


def _check_dataset(topic: str, key: bytes | None, dataset: str) -> None:
    if not is_dataset_name(dataset):
        raise _describe_unreadable(topic, key, f"{dataset[:80]!r} is not a dataset name")


def _read_value(restore: Callable[[object], T], topic: str, key: bytes | None, value: bytes, *, dataset: str) -> T:
    try:
        return restore(json.loads(value))
    except NewerStateError as error:
        raise _describe_newer(topic, key, str(error), dataset=dataset) from error
    except StateError as error:
        raise _describe_unreadable(topic, key, str(error), dataset=dataset) from error
    except (ValueError, RecursionError) as error:
        raise _describe_unreadable(topic, key, f"the value is not JSON: {error}", dataset=dataset) from error


def apply_state_record(draft: StateDraft, topic: str, record: AnyStateRecord) -> None:
    """Applies a record that was read from `topic`. A StateError leaves the draft as it was."""
    try:
        draft.apply(record)
    except StateError as error:
        raise _describe_unreadable(topic, record.to_key(), str(error), dataset=record.dataset) from error


def check_memories(draft: StateDraft, topic: str, partition: int) -> None:
    """Raises a StateError that names the record, if a memory of the partition can't be read."""
    for key in draft.memories.list_keys(partition):
        record_key = MemoryRecord(partition, key, RECENT, None).to_key()
        try:
            draft.memories.get_tables(partition, key)
        except NewerStateError as error:
            raise _describe_newer(topic, record_key, str(error), dataset=key.dataset) from error
        except StateError as error:
            raise _describe_unreadable(topic, record_key, str(error), dataset=key.dataset) from error


def _describe_unreadable(topic: str, key: bytes | None, problem: str, *, dataset: str | None = None) -> StateError:
    """The error that names the record and says what to do about it."""
    subject = "a record" if dataset is None else f"the statistics of dataset {dataset}"
    return StateError(
        f"{subject} in {topic} can't be read (key {_quote(key)}): {problem}. Restore the record from a backup, or "
        f"delete it by writing its key without a value to {topic}. The statistics in it are lost then"
    )


def _describe_newer(topic: str, key: bytes | None, problem: str, *, dataset: str) -> NewerStateError:
    return NewerStateError(
        f"the statistics of dataset {dataset} in {topic} need a newer labelwatch (key {_quote(key)}): {problem}. "
        "Upgrade this process to the release that wrote them, or roll back: stop the newer workers and delete the "
        f"record by writing its key without a value to {topic}. The statistics in it are lost then"
    )


def _quote(key: bytes | None) -> str:
    return (key or b"").decode(errors="backslashreplace")[:MAX_KEY_CHARS]
