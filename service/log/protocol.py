"""The two protocols that Kafka and SQLite implement: `Log` for everybody, `WorkerSession` for workers.

    Log              append, append_if_unchanged, follow
    WorkerSession    a Log, and:
        poll_rebalance() ─ partitions assigned (with the state their last owner committed) and revoked
        poll()           ─ records by partition, in offset order, and the lease they were read under
        commit()         ─ outputs, state and next offsets in one transaction, or nothing at all
        pause(), resume() ─ a partition that can't go on at a record, while the others do

A batch that can't be committed is dropped: `commit` raises `CommitRefused`. The next `poll_rebalance` then assigns every
partition again, with the state that the log holds, and `poll` returns the records again. So a worker keeps no state of
its own across an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Headers = tuple[tuple[str, bytes], ...]
RecordPosition = tuple[int, int]  # partition and offset

# About a thousand usual sentences, or twenty of the longest: a worker holds them in memory and assesses them in seconds.
MAX_BATCH_BYTES = 1024 * 1024


class CommitRefused(StreamError):  # noqa: N818 - it reads as what it says
    """A rebalance or an error of the log happened while the batch was processed. Nothing was written."""


class NothingAppended(StreamError):  # noqa: N818 - it reads as what it says
    """The log could not be reached. None of the messages was written."""


class VersionConflict(StreamError):  # noqa: N818 - it reads as what it says
    """Another writer has changed the key in the meantime. Nothing was written."""

    def __init__(self, output: Output) -> None:
        super().__init__(
            f"{(output.key or b'').decode(errors='replace')} of {output.topic} was changed by another writer"
        )


class FencedError(StreamError):
    """Another process uses this worker's identity. The worker must stop, or both would fence each other forever."""


@dataclass(frozen=True, slots=True)
class Record:
    """A message as the log holds it, bytes untouched."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 0

    @property
    def position(self) -> RecordPosition:
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Output:
    """A message to write. If it names no partition, the log chooses one by the key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """A partition that was assigned to this worker: the next offset, and the state that its last owner committed."""

    partition: int
    next_offset: int
    state: Mapping[bytes, bytes]
    lost_records: int = 0  # offsets that retention deleted before they were read


@dataclass(frozen=True, slots=True)
class Rebalance:
    assigned: Sequence[PartitionAssignment] = ()
    revoked: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record of the input that was stored in the waiting topic under `key`."""

    key: bytes
    dataset: str
    record: Record


@dataclass(frozen=True, slots=True)
class ReleasedRecords:
    """Stored records of one partition, in the order of offsets. They are judged now and deleted from the waiting topic.

    `missing`: datasets that should have stored records in the partition, of which the topic holds none.
    """

    records: Sequence[StoredRecord] = ()
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records by source partition. `lease` identifies the assignment they were read under; only the log reads it.

    `partitions` are those that the lease covers, with new records or without. Of these the worker may add released
    records, which are processed before the new ones.
    """

    records: Mapping[int, Sequence[Record]]
    lease: object = None
    partitions: frozenset[int] = frozenset()
    released: Mapping[int, ReleasedRecords] = field(default_factory=dict)

    @property
    def next_offsets(self) -> dict[int, int]:
        return {partition: records[-1].offset + 1 for partition, records in self.records.items() if records}

    @property
    def size_bytes(self) -> int:
        """Total size of the record values."""
        polled = (record for records in self.records.values() for record in records)
        released = (stored.record for release in self.released.values() for stored in release.records)
        return sum(len(record.value or b"") for record in chain(polled, released))

    @property
    def polled_records(self) -> int:
        """The number of new records, without released ones."""
        return sum(len(records) for records in self.records.values())

    def __len__(self) -> int:
        return self.polled_records + sum(len(release.records) for release in self.released.values())


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a polled batch: everything that must become visible together.

    `state` holds, per source partition, the full aggregates that changed (never deltas), by state key.
    """

    batch: RecordBatch
    outputs: Sequence[Output] = ()
    state: Mapping[int, Mapping[bytes, bytes]] = field(default_factory=dict)


class Follower(Protocol):
    """Reads a topic from its beginning and continues with new records. It sees committed records only."""

    def poll(self) -> Sequence[Record]:
        """Returns the records since the last call, or nothing. Never blocks for long."""

    @property
    def caught_up(self) -> bool:
        """Whether the follower has reached the end that the topic had when following began, or when the end was renewed."""

    def renew_end(self) -> None:
        """From now on `caught_up` is about the end that the topic has now.

        Raises StreamError if the log does not tell it. The follower then goes on as before.
        """

    def close(self) -> None: ...


@runtime_checkable
class PingableFollower(Protocol):
    """A follower whose `poll` does not notice that the log is unreachable, but which can check."""

    def ping(self) -> None:
        """Sends a request to the log. Raises StreamError if no answer comes within a few seconds."""


@runtime_checkable
class TransactionalFollower(Protocol):
    """A follower of a log whose transactions stay open while their writer is dead."""

    @property
    def waits_for_transaction(self) -> bool:
        """Whether only records of transactions that have been open for a while are missing until it has caught up."""


class Log(Protocol):
    """Appends to topics and follows them. Any thread may append; each follower belongs to one thread."""

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        """Writes messages. They are durable when it returns."""

    def append_if_unchanged(
        self, output: Output, expected: RecordPosition | None, *, also: Sequence[Output] = (), timeout: float = 30.0
    ) -> None:
        """Writes one message of a compacted topic if the last record of its key is still the one at `expected`.

        Raises `VersionConflict` if it is not: of two concurrent writers one gets the error. If the log holds no record
        of the key, the write succeeds: compaction has removed a deleted key. `also` is written with it, or not at all.
        """

    def follow(self, topic: str) -> Follower: ...

    def read_record(self, topic: str, partition: int, offset: int) -> Record | None:
        """Returns the record at this position; None if the topic holds none there, or not any more."""

    def close(self) -> None: ...


class WorkerSession(Log, Protocol):
    """A worker's session. One thread uses it; other threads may call only `lag` and the two append methods."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the session waits for or does without at this moment, one sentence each. It continues by itself."""

    @property
    def assignment_complete(self) -> bool:
        """Whether the worker has its share of the partitions. The share is empty if there are more workers than partitions."""

    def poll_rebalance(self) -> Rebalance:
        """Returns the partitions assigned and revoked since the last call. `poll` reads a partition only after that."""

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        """Returns the next records, within both limits, but at least one record of any size if there is one."""

    def commit(self, result: BatchResult) -> None:
        """Writes outputs, state and offsets atomically. The result may have fewer records of a partition than were polled.

        The partition must then be paused at the first record that is left out.

        Raises `CommitRefused` if nothing was written and the batch must be dropped, `FencedError` if the worker must stop.
        """

    def follow_partition(self, topic: str, partition: int) -> Follower:
        """Follows one partition of a topic that has as many as the input."""

    def pause(self, partition: int, next_offset: int) -> None:
        """Stops reading a partition. After `resume` it continues at `next_offset`, the first offset not committed.

        A partition that is assigned again is not paused any more.
        """

    def resume(self, partition: int) -> None:
        """Reads a paused partition again. Does nothing if it is not paused."""

    def lag(self) -> dict[int, int]:
        """Records between the position and the end, by assigned partition."""

    def close(self) -> None:
        """Aborts an open batch. A worker without a fixed identity leaves its group."""
