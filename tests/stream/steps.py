"""What a caller of a stream does, in steps: be given partitions, read, write. Time-outs are generous, never asserted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from service.log.protocol import BATCH_BYTES, Gained, Output, Polled, Record, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from service.log.protocol import Follower, Stream

PATIENCE = 300.0
POLL = 0.2


def until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.02)


def gain(stream: Stream, *wanted: int) -> dict[int, Gained]:
    """Until the stream has given us the partitions; no record may come of one that it has not told of."""
    found: dict[int, Gained] = {}
    needed = set(wanted or (0,))

    def step() -> bool:
        changes = stream.changes()
        for lost in changes.lost:
            found.pop(lost, None)
        found.update({gained.partition: gained for gained in changes.gained})
        if not needed <= set(found):
            polled = stream.poll(max_records=1, timeout=POLL)
            assert not len(polled), "records came before their partition"
        return needed <= set(found)

    until(step, f"the partitions {needed} are gained")
    return found


def batch(stream: Stream, *, max_records: int = 100, max_bytes: int = BATCH_BYTES) -> Polled:
    """The next batch that isn't empty."""
    got: list[Polled] = []

    def step() -> bool:
        assert not stream.changes().lost
        polled = stream.poll(max_records=max_records, timeout=POLL, max_bytes=max_bytes)
        if len(polled):
            got.append(polled)
        return bool(got)

    until(step, "a batch comes")
    return got[0]


def read(follower: Follower, n: int) -> list[Record]:
    got: list[Record] = []

    def step() -> bool:
        got.extend(follower.poll())
        return len(got) >= n

    until(step, f"{n} records are read")
    return got


def everything(stream: Stream, topic: str) -> list[Record]:
    """All that is committed at this moment."""
    follower = stream.follow(topic)
    got: list[Record] = []

    def step() -> bool:
        got.extend(follower.poll())
        return follower.caught_up

    until(step, f"{topic} is read")
    follower.close()
    return got


def sentences(topic: str, values: Sequence[bytes | None], *, partition: int = 0) -> list[Output]:
    return [Output(topic, f"key {value!r}".encode(), value, partition=partition) for value in values]


def values(polled: Polled) -> list[bytes | None]:
    return [record.value for record in records(polled)]


def records(polled: Polled) -> Iterator[Record]:
    for some in polled.records.values():
        yield from some


def work(polled: Polled, outputs: Sequence[Output] = (), state: Mapping[bytes, bytes] | None = None) -> Work:
    """State goes to every partition that was read."""
    return Work(polled, outputs, {partition: dict(state or {}) for partition in polled.next_offsets})
