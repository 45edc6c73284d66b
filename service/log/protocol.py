"""The one protocol that both logs, Kafka and SQLite, speak. The worker knows nothing else.

    changes() ─ partitions gained (with the state they were left in) and lost
    poll()    ─ records by partition, in offset order, and the lease they were read under
    commit()  ─ outputs, state and next offsets in one transaction, or nothing at all

A batch that can't be committed is gone: `commit` raises `CommitRefused`, `changes` then tells of every partition
again, with what the log holds, and the records come again. So a worker keeps no state of its own across an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Headers = tuple[tuple[str, bytes], ...]
RecordPosition = tuple[int, int]  # partition and offset

# A thousand sentences, or about twenty as long as any may be: what a worker does in seconds, and can hold.
MAX_BATCH_BYTES = 1024 * 1024


class CommitRefused(StreamError):  # noqa: N818 - it reads as what it says
    """The partitions changed hands or the log failed while the batch was worked on; nothing was written."""


class NothingAppended(StreamError):  # noqa: N818 - it reads as what it says
    """The log was not reached: none of the messages can be in it."""


class VersionConflict(StreamError):  # noqa: N818 - it reads as what it says
    """Somebody has written the key meanwhile: nothing was written."""

    def __init__(self, output: Output) -> None:
        super().__init__(f"{(output.key or b'').decode(errors='replace')} of {output.topic} was changed meanwhile")


class FencedError(StreamError):
    """Another process has this worker's identity. Fighting for it would never end: stop."""


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
    """A message to write. Without a partition the log chooses one by the key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """A partition that is ours now: where to go on, and the state its last owner committed."""

    partition: int
    next_offset: int
    state: Mapping[bytes, bytes]
    lost_records: int = 0  # retention was faster than we: so many offsets are gone


@dataclass(frozen=True, slots=True)
class Rebalance:
    assigned: Sequence[PartitionAssignment] = ()
    revoked: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records by source partition. `lease` is the log's own note of the assignment they were read under."""

    records: Mapping[int, Sequence[Record]]
    lease: object = None

    @property
    def next_offsets(self) -> dict[int, int]:
        return {partition: records[-1].offset + 1 for partition, records in self.records.items() if records}

    @property
    def size_bytes(self) -> int:
        """Bytes of the values."""
        return sum(len(record.value or b"") for records in self.records.values() for record in records)

    def __len__(self) -> int:
        return sum(len(records) for records in self.records.values())


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What came of a polled batch: everything that must become visible together.

    `state` holds, per source partition, the full aggregates that were touched (never deltas) by their key.
    """

    batch: RecordBatch
    outputs: Sequence[Output] = ()
    state: Mapping[int, Mapping[bytes, bytes]] = field(default_factory=dict)


class Follower(Protocol):
    """Reads a topic from its beginning and stays behind it; only what is committed is seen."""

    def poll(self) -> Sequence[Record]:
        """What has come since the last call; empty when there is nothing new. Never blocks for long."""

    @property
    def caught_up(self) -> bool:
        """Whether the end that the topic had when following began has been reached."""

    def close(self) -> None: ...


@runtime_checkable
class PingableFollower(Protocol):
    """A follower whose `poll` does not notice that the log is away, and can look."""

    def ping(self) -> None:
        """Asks the log for a sign of life; raises StreamError where none comes. Takes some seconds then."""


class Stream(Protocol):
    """A worker's view of the log. One thread uses it; only `append`, `append_if_unchanged` and `lag` may be called from others."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the log has to wait for or do without at this moment, in sentences; it goes on by itself."""

    @property
    def assignment_complete(self) -> bool:
        """Whether we have our share of the partitions, which may be none where there are more workers than those."""

    def poll_rebalance(self) -> Rebalance:
        """Partitions gained and lost since the last call. Gained ones deliver records only after this told of them."""

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        """What comes next, up to so many records and bytes; at least one record, however large, if there is any."""

    def commit(self, result: BatchResult) -> None:
        """Outputs, state and offsets, atomically.

        Raises `CommitRefused` where nothing was written and the batch must be forgotten, `FencedError` to stop.
        """

    def follow(self, topic: str) -> Follower: ...

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        """Writes messages outside any batch, durable when it returns (used by producers: send, settings, replay)."""

    def append_if_unchanged(self, output: Output, expected: RecordPosition | None, *, timeout: float = 30.0) -> None:
        """Writes one message of a compacted topic, if the last of its key is still the one that was seen at this spot.

        Raises `VersionConflict` where it is not, so that of two who change the same thing at once one hears of it. Where the
        log holds none of the key any more, nobody has written it: compaction removes what was deleted.
        """

    def lag(self) -> dict[int, int]:
        """Records behind the end, by owned partition."""

    def close(self) -> None:
        """Leaves cleanly: an open batch is aborted, a worker without a fixed identity leaves its group."""
