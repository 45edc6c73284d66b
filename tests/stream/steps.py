"""Steps of the tests: wait for an assignment, read, write. Time-outs are generous and never asserted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from service.log.protocol import MAX_BATCH_BYTES, BatchResult, Output, PartitionAssignment, Record, RecordBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from service.log.protocol import Follower, Log, WorkerSession

WAIT_TIMEOUT_S = 300.0
POLL_TIMEOUT_S = 0.2


def wait_until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_TIMEOUT_S
    while not done():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.02)


def wait_for_assignment(session: WorkerSession, *partitions: int) -> dict[int, PartitionAssignment]:
    """Polls until the session has assigned the partitions. It must not return records of any other partition."""
    assignments: dict[int, PartitionAssignment] = {}
    needed = set(partitions or (0,))

    def step() -> bool:
        rebalance = session.poll_rebalance()
        for partition in rebalance.revoked:
            assignments.pop(partition, None)
        assignments.update({assignment.partition: assignment for assignment in rebalance.assigned})
        if not needed <= set(assignments):
            batch = session.poll(max_records=1, timeout=POLL_TIMEOUT_S)
            assert not len(batch), "a record arrived before its partition was assigned"
        return needed <= set(assignments)

    wait_until(step, f"the partitions {needed} are assigned")
    return assignments


def poll_batch(session: WorkerSession, *, max_records: int = 100, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
    """Returns the next batch that isn't empty."""
    batches: list[RecordBatch] = []

    def step() -> bool:
        assert not session.poll_rebalance().revoked
        batch = session.poll(max_records=max_records, timeout=POLL_TIMEOUT_S, max_bytes=max_bytes)
        if len(batch):
            batches.append(batch)
        return bool(batches)

    wait_until(step, "a batch arrives")
    return batches[0]


def poll_all(session: WorkerSession, count: int) -> list[RecordBatch]:
    """Polls until the batches have this many records."""
    batches: list[RecordBatch] = []
    while sum(map(len, batches)) < count:
        batches.append(poll_batch(session))
    return batches


def read_records(follower: Follower, count: int) -> list[Record]:
    records: list[Record] = []

    def step() -> bool:
        records.extend(follower.poll())
        return len(records) >= count

    wait_until(step, f"{count} records are read")
    return records


def read_topic(log: Log, topic: str) -> list[Record]:
    """Returns all records that are committed at this moment."""
    follower = log.follow(topic)
    records: list[Record] = []

    def step() -> bool:
        records.extend(follower.poll())
        return follower.caught_up

    wait_until(step, f"{topic} is read")
    follower.close()
    return records


def make_sentence_outputs(topic: str, values: Sequence[bytes | None], *, partition: int = 0) -> list[Output]:
    return [Output(topic, f"key {value!r}".encode(), value, partition=partition) for value in values]


def list_values(batch: RecordBatch) -> list[bytes | None]:
    return [record.value for record in iter_records(batch)]


def iter_records(batch: RecordBatch) -> Iterator[Record]:
    for records in batch.records.values():
        yield from records


def make_batch_result(
    batch: RecordBatch, outputs: Sequence[Output] = (), state: Mapping[bytes, bytes] | None = None
) -> BatchResult:
    """Writes the same state for every partition of the batch."""
    return BatchResult(batch, outputs, {partition: dict(state or {}) for partition in batch.next_offsets})
