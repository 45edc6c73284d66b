"""A worker's session on the embedded log: one transaction per batch, one worker per file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.file_lock import FileLock
from service.log.codec import parse_position, to_position_key, to_position_value
from service.log.protocol import (
    MAX_BATCH_BYTES,
    BatchResult,
    CommitRefused,
    Output,
    PartitionAssignment,
    Rebalance,
    RecordBatch,
)
from service.log.sqlite.database import PARTITION
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.retention import Retention, prune

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.sqlite.follower import SqliteFollower
    from service.log.topics import Topics

POLL_INTERVAL_S = 0.02
PRUNE_INTERVAL_S = 60.0


class SqliteWorkerSession(SqliteLog):
    """A `WorkerSession` over one file.

    `exclusive` takes the lock of the file's worker. A replay does without: it writes to topics of its own.
    """

    assignment_complete: bool = True

    def __init__(
        self,
        path: Path,
        topics: Topics,
        *,
        retention: Retention | None = None,
        exclusive: bool = True,
        reserve_bytes: int = 0,
    ) -> None:
        self._lock = _acquire_worker_lock(path) if exclusive else None
        try:
            super().__init__(path, topics, reserve_bytes=reserve_bytes)
        except BaseException:
            self._release_lock()
            raise
        self._retention = retention or Retention()
        self._pruned_at = time.monotonic()
        self._next_offset: int | None = None  # none: the partition must be assigned (again)
        self._paused = False

    @property
    def warnings(self) -> tuple[str, ...]:
        reason = self._database.guard.reason
        return (reason,) if reason else ()

    def poll_rebalance(self) -> Rebalance:
        if self._next_offset is not None:
            return Rebalance()
        with self._database.read_transaction():
            state = self._database.fetch_values(self._topics.state)
            first_offset = self._database.fetch_first_offset(self._topics.sentences)
        position = state.pop(to_position_key(PARTITION), None)
        committed_offset = first_offset if position is None else parse_position(position)
        next_offset = self._next_offset = max(committed_offset, first_offset)
        self._paused = False
        assignment = PartitionAssignment(PARTITION, next_offset, state, lost_records=next_offset - committed_offset)
        return Rebalance(assigned=(assignment,))

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        if self._next_offset is None:
            return RecordBatch({})
        deadline = time.monotonic() + timeout
        while True:
            # What can't be committed need not be judged.
            is_paused = self._paused or bool(self._database.guard.reason)
            records = [] if is_paused else self.read(self._topics.sentences, self._next_offset, max_records, max_bytes)
            if records:
                self._next_offset = records[-1].offset + 1
                return RecordBatch({PARTITION: records}, records[0].offset, frozenset({PARTITION}))
            if time.monotonic() >= deadline:
                if self._database.guard.full_reason:
                    self._prune_if_due(self._next_offset)
                return RecordBatch({}, self._next_offset, frozenset({PARTITION}))
            time.sleep(POLL_INTERVAL_S)

    def follow_partition(self, topic: str, partition: int) -> SqliteFollower:
        if partition != PARTITION:
            raise StreamError(f"the embedded log has one partition, not a partition {partition}")
        return self.follow(topic)

    def commit(self, result: BatchResult) -> None:
        next_offset = result.batch.next_offsets.get(PARTITION)
        try:
            with self._database.write_transaction():
                for output in result.outputs:
                    self._database.insert(output)
                for key, value in result.state.get(PARTITION, {}).items():
                    self._database.insert(Output(self._topics.state, key, value))
                if next_offset is not None:
                    position = Output(self._topics.state, to_position_key(PARTITION), to_position_value(next_offset))
                    self._database.insert(position)
        except StreamError as error:
            self._next_offset = None
            raise CommitRefused(str(error)) from error
        if next_offset is not None:
            self._prune_if_due(next_offset)

    def _prune_if_due(self, consumed_offset: int) -> None:
        if time.monotonic() - self._pruned_at >= PRUNE_INTERVAL_S:
            self._pruned_at = time.monotonic()
            self.prune(consumed_offset)

    def pause(self, partition: int, next_offset: int) -> None:
        if partition == PARTITION and self._next_offset is not None:
            self._next_offset, self._paused = next_offset, True

    def resume(self, partition: int) -> None:
        if partition == PARTITION:
            self._paused = False

    def prune(self, consumed_offset: int) -> None:
        """Applies the retention to the topics that are not compacted."""
        prune(self._database, self._topics, self._retention, consumed_offset=consumed_offset)

    def lag(self) -> dict[int, int]:
        with self._database.read_transaction():
            end_offset = self._database.fetch_next_offset(self._topics.sentences)
        return {PARTITION: max(0, end_offset - (self._next_offset or 0))}

    def close(self) -> None:
        super().close()
        self._release_lock()

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()


def get_worker_lock_path(path: Path) -> Path:
    """The file whose lock the worker of a log holds."""
    return path.with_name(f"{path.name}.lock")


def _acquire_worker_lock(path: Path) -> FileLock:
    try:
        return FileLock(get_worker_lock_path(path))
    except BlockingIOError as error:
        raise StreamError(f"another worker is running on {path}: stop it, or use Kafka for several workers") from error
