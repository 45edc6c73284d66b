"""A small worker over a stream, in a thread of its own."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from service.log.protocol import CommitRefused, Output
from tests.stream.steps import iter_records, make_batch_result

if TYPE_CHECKING:
    from service.log.protocol import WorkerSession
    from service.log.topics import Topics


class CountingWorker(threading.Thread):
    """A worker that counts the records of each partition in its state, and writes each to the review topic."""

    def __init__(self, stream: WorkerSession, topics: Topics) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.topics = topics
        self.owned: set[int] = set()
        self.counts: dict[int, int] = {}
        self.lost: list[int] = []
        self.stop = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.step()
        except BaseException as error:  # noqa: BLE001 - it is shown by the test
            self.error = error
        finally:
            self.stream.close()

    def step(self) -> None:
        changes = self.stream.poll_rebalance()
        self.lost += changes.revoked
        self.owned -= set(changes.revoked)
        for gained in changes.assigned:
            self.owned.add(gained.partition)
            self.counts[gained.partition] = int(gained.state.get(b"count", b"0"))
            assert self.counts[gained.partition] == gained.next_offset
        polled = self.stream.poll(max_records=10, timeout=0.2)
        if not len(polled):
            return
        counts = {partition: self.counts[partition] + len(some) for partition, some in polled.records.items()}
        outputs = [Output(self.topics.review, record.value, record.value) for record in iter_records(polled)]
        done = replace(
            make_batch_result(polled, outputs),
            state={partition: {b"count": b"%d" % n} for partition, n in counts.items()},
        )
        try:
            self.stream.commit(done)
        except CommitRefused:
            return
        self.counts |= counts

    def shut_down(self) -> None:
        self.stop.set()
        self.join(120)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


def has_partitions(runner: CountingWorker, partitions: set[int]) -> bool:
    time.sleep(0.1)
    assert runner.error is None
    return runner.owned == partitions
