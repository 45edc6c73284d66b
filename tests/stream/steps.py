"""What a caller of a stream does, in steps: be given partitions, read, write. Time-outs are generous, never asserted."""

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


def wait_for_assignment(stream: WorkerSession, *wanted: int) -> dict[int, PartitionAssignment]:
    """Until the stream has given us the partitions; no record may come of one that it has not told of."""
    found: dict[int, PartitionAssignment] = {}
    needed = set(wanted or (0,))

    def step() -> bool:
        changes = stream.poll_rebalance()
        for lost in changes.revoked:
            found.pop(lost, None)
        found.update({gained.partition: gained for gained in changes.assigned})
        if not needed <= set(found):
            polled = stream.poll(max_records=1, timeout=POLL_TIMEOUT_S)
            assert not len(polled), "records came before their partition"
        return needed <= set(found)

    wait_until(step, f"the partitions {needed} are gained")
    return found


def poll_batch(stream: WorkerSession, *, max_records: int = 100, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
    """The next batch that isn't empty."""
    got: list[RecordBatch] = []

    def step() -> bool:
        assert not stream.poll_rebalance().revoked
        polled = stream.poll(max_records=max_records, timeout=POLL_TIMEOUT_S, max_bytes=max_bytes)
        if len(polled):
            got.append(polled)
        return bool(got)

    wait_until(step, "a batch comes")
    return got[0]


def read_records(follower: Follower, n: int) -> list[Record]:
    got: list[Record] = []

    def step() -> bool:
        got.extend(follower.poll())
        return len(got) >= n

    wait_until(step, f"{n} records are read")
    return got


def read_topic(stream: Log, topic: str) -> list[Record]:
    """All that is committed at this moment."""
    follower = stream.follow(topic)
    got: list[Record] = []

    def step() -> bool:
        got.extend(follower.poll())
        return follower.caught_up

    wait_until(step, f"{topic} is read")
    follower.close()
    return got


def make_sentence_outputs(topic: str, values: Sequence[bytes | None], *, partition: int = 0) -> list[Output]:
    return [Output(topic, f"key {value!r}".encode(), value, partition=partition) for value in values]


def list_values(polled: RecordBatch) -> list[bytes | None]:
    return [record.value for record in iter_records(polled)]


def iter_records(polled: RecordBatch) -> Iterator[Record]:
    for some in polled.records.values():
        yield from some


def make_batch_result(
    polled: RecordBatch, outputs: Sequence[Output] = (), state: Mapping[bytes, bytes] | None = None
) -> BatchResult:
    """State goes to every partition that was read."""
    return BatchResult(polled, outputs, {partition: dict(state or {}) for partition in polled.next_offsets})
