"""A small worker in a thread of its own."""

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
    """Counts the records of each partition in its state and copies each record to the review topic."""

    def __init__(self, session: WorkerSession, topics: Topics) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.topics = topics
        self.assigned: set[int] = set()
        self.counts: dict[int, int] = {}
        self.revoked: list[int] = []
        self.stop = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.step()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error
        finally:
            self.session.close()

    def step(self) -> None:
        rebalance = self.session.poll_rebalance()
        self.revoked += rebalance.revoked
        self.assigned -= set(rebalance.revoked)
        for assignment in rebalance.assigned:
            self.assigned.add(assignment.partition)
            self.counts[assignment.partition] = int(assignment.state.get(b"count", b"0"))
            assert self.counts[assignment.partition] == assignment.next_offset
        batch = self.session.poll(max_records=10, timeout=0.2)
        if not len(batch):
            return
        counts = {partition: self.counts[partition] + len(records) for partition, records in batch.records.items()}
        outputs = [Output(self.topics.review, record.value, record.value) for record in iter_records(batch)]
        result = replace(
            make_batch_result(batch, outputs),
            state={partition: {b"count": b"%d" % count} for partition, count in counts.items()},
        )
        try:
            self.session.commit(result)
        except CommitRefused:
            return
        self.counts |= counts

    def shut_down(self) -> None:
        self.stop.set()
        self.join(120)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


def has_partitions(worker: CountingWorker, partitions: set[int]) -> bool:
    time.sleep(0.1)
    assert worker.error is None
    return worker.assigned == partitions
