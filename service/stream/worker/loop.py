"""The loop: follow settings and others' state, take what partitions came and went, poll, assess, commit.

The ledger is replaced only after a commit. Whatever fails before it leaves no trace: the log tells of the partitions
again, with the state they really have, and the records come again.
"""

from __future__ import annotations

import gc
import json
import logging
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.contracts.defaults import BATCH_RECORDS
from service.log.codec import parse_state_key
from service.log.protocol import MAX_BATCH_BYTES, CommitRefused, PartitionAssignment, Record
from service.statistics.running import RunningStats
from service.stream.state.snapshot import StateSnapshot, StatsKey
from service.stream.worker.reporting import finish_report, log_dead_letters, register_datasets
from service.telemetry.batch_report import BatchReport

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Mapping

    from service.datasets.registry import DatasetRegistry
    from service.log.protocol import BatchResult, Follower, RecordBatch, WorkerSession
    from service.log.topics import Topics
    from service.stream.worker.batch_processor import BatchProcessor
    from service.telemetry.batch_report import Reporter

logger = logging.getLogger(__name__)

INITIAL_BATCH_RECORDS = 128  # nobody knows yet how long a sentence takes: batches grow while they are quick
INITIAL_BATCH_BYTES = 128 * 1024
POLL_TIMEOUT_S = 0.5
CATCH_UP_INTERVAL_S = 0.05
# A batch must end well within the log's poll interval, or its partitions are given to another worker.
TARGET_BATCH_S = 10.0
RETRY_INTERVAL_S = 0.5


@dataclass(slots=True)
class WorkerCounts:
    """What the worker has done since it started; read by whoever shows it."""

    records: int = 0
    committed_batches: int = 0
    refused_batches: int = 0
    outputs: dict[str, int] = field(default_factory=dict)
    lost_records: int = 0

    def add_batch(self, result: BatchResult) -> None:
        self.records += len(result.batch)
        self.committed_batches += 1
        for output in result.outputs:
            self.outputs[output.topic] = self.outputs.get(output.topic, 0) + 1


@dataclass(slots=True)
class WorkerStatus:
    """Why the worker is ready, or why not: each condition by name, empty where it holds.

    `degraded` says likewise what it has to wait for or do without, ready or not.
    """

    conditions: dict[str, str] = field(
        default_factory=lambda: {
            "datasets": "the dataset settings are not read yet",
            "state": "the state is not read yet",
            "partitions": "no partition is assigned yet",
        }
    )

    degraded: dict[str, str] = field(default_factory=lambda: {"stream": ""})

    def mark_met(self, name: str) -> None:
        self.conditions[name] = ""

    def mark_unmet(self, name: str, reason: str) -> None:
        self.conditions[name] = reason

    @property
    def ready(self) -> bool:
        return not any(self.conditions.values())


class Worker:
    """Runs a stream's records through an assessor. One thread runs it; `status` and `counts` may be read by others."""

    def __init__(
        self,
        stream: WorkerSession,
        processor: BatchProcessor,
        datasets: DatasetRegistry,
        topics: Topics,
        *,
        batch_records: int = BATCH_RECORDS,
        poll_timeout: float = POLL_TIMEOUT_S,
        reporter: Reporter | None = None,
    ) -> None:
        self._stream = stream
        self._processor = processor
        self._datasets = datasets
        self._topics = topics
        self._max_batch_records = batch_records
        self._batch_records = min(batch_records, INITIAL_BATCH_RECORDS)
        self._batch_bytes = INITIAL_BATCH_BYTES
        self._poll_timeout = poll_timeout
        self._reporter = reporter
        self._assigned: set[int] = set()
        self.snapshot = StateSnapshot()
        self.status = WorkerStatus()
        self.counts = WorkerCounts()

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set: then the batch at hand is finished and the stream left in order."""
        with ExitStack() as leaving:
            leaving.callback(self._stream.close)
            leaving.callback(self.status.mark_unmet, "worker", "the worker has stopped")
            settings = leaving.enter_context(closing(self._stream.follow(self._topics.datasets)))
            states = leaving.enter_context(closing(self._stream.follow(self._topics.state)))
            self._catch_up(settings, states, stop)
            self._register_datasets()
            while not stop.is_set():
                news = settings.poll()
                if news:
                    self._datasets.apply_records(news)
                    self._register_datasets()
                self._apply_foreign_state(states.poll())
                self.apply_rebalance()
                self.step()
                self._update_warnings()

    def _catch_up(self, settings: Follower, states: Follower, stop: threading.Event) -> None:
        """No sentence is judged before the settings and everybody's statistics are read."""
        while not stop.is_set() and not (settings.caught_up and states.caught_up):
            news = settings.poll()
            statistics = states.poll()
            self._datasets.apply_records(news)
            self._apply_foreign_state(statistics)
            if not news and not statistics:
                stop.wait(CATCH_UP_INTERVAL_S)
        self.status.mark_met("datasets")
        self.status.mark_met("state")
        # Model, settings and imports stay until the end: searching them for garbage again and again costs a tenth.
        gc.collect()
        gc.freeze()

    def _register_datasets(self) -> None:
        if self._reporter is not None:
            register_datasets(self._reporter, self._datasets, self.snapshot)

    def step(self) -> int:
        """One batch; gives the number of records it held."""
        polled = self._stream.poll(
            max_records=self._batch_records, timeout=self._poll_timeout, max_bytes=self._batch_bytes
        )
        if not len(polled):
            return 0
        started = time.monotonic()
        report = BatchReport(records=len(polled))
        work, ledger = self._processor.process(polled, self.snapshot, report)
        try:
            self._stream.commit(work)
        except CommitRefused as refusal:
            # Perhaps the batch took longer than the log waits: smaller ones always get through in the end.
            self._shrink_batch_size(polled, 0.5)
            self.counts.refused_batches += 1
            if self._reporter is not None:
                self._reporter.count_refused_commit()
            logger.warning("a batch of %d records was refused and will be read again: %s", len(polled), refusal)
            time.sleep(RETRY_INTERVAL_S)
            return 0
        self.snapshot = ledger
        self.counts.add_batch(work)
        log_dead_letters(output for output in work.outputs if output.topic == self._topics.dead_letters)
        if self._reporter is not None:
            finish_report(report, polled, self._datasets, self.snapshot)
            self._reporter.observe_batch(report)
        self._adapt_batch_size(polled, time.monotonic() - started)
        return len(polled)

    def _adapt_batch_size(self, batch: RecordBatch, seconds: float) -> None:
        if seconds > TARGET_BATCH_S:
            self._shrink_batch_size(batch, TARGET_BATCH_S / seconds)
        elif seconds < TARGET_BATCH_S / 4:
            self._batch_records = min(self._max_batch_records, self._batch_records * 2)
            self._batch_bytes = min(MAX_BATCH_BYTES, self._batch_bytes * 2)

    def _shrink_batch_size(self, batch: RecordBatch, share: float) -> None:
        """From what the batch really held: which of the limits made it end does not matter."""
        self._batch_records = max(1, int(len(batch) * share))
        self._batch_bytes = max(1, int(batch.size_bytes * share))

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions that are ours at this moment."""
        return frozenset(self._assigned)

    def apply_rebalance(self) -> None:
        """Partitions that came bring the state they were left in; those that went are followed from now on."""
        changes = self._stream.poll_rebalance()
        for partition in changes.revoked:
            self._assigned.discard(partition)
        for gained in changes.assigned:
            self._add_partition(gained)
        if self._stream.assignment_complete:
            self.status.mark_met("partitions")
        if changes.assigned or changes.revoked:
            logger.info("partitions now: %s", sorted(self._assigned) or "none")

    def _update_warnings(self) -> None:
        """The log tells of each in its own words as it comes; here it is told when they are over."""
        before, now = self.status.degraded["stream"], "; ".join(self._stream.warnings)
        if before and not now:
            logger.info("the stream is well again")
        self.status.degraded["stream"] = now

    def _add_partition(self, assignment: PartitionAssignment) -> None:
        self._assigned.add(assignment.partition)
        sheet = dict(_parse_state(assignment.state))
        self._datasets.register_existing(account.dataset for account in sheet)
        self.snapshot = self.snapshot.with_partition(assignment.partition, sheet)
        if assignment.lost_records:
            self.counts.lost_records += assignment.lost_records
            if self._reporter is not None:
                self._reporter.count_lost_records(assignment.lost_records)
            logger.error(
                "partition %d: %d records were deleted before they were read: retention is faster than the worker",
                assignment.partition,
                assignment.lost_records,
            )

    def _apply_foreign_state(self, records: Iterable[Record]) -> None:
        """Others' statistics. Of our own partitions we know better: the log only repeats what we committed."""
        for record in records:
            place = parse_state_key(record.key or b"")
            if place is None or record.value is None or place[0] in self._assigned:
                continue
            partition, dataset, stats_key = place
            self._datasets.register_existing([dataset])
            stats = RunningStats.restore(json.loads(record.value))
            self.snapshot = self.snapshot.with_stats(partition, StatsKey(dataset, stats_key), stats)


def _parse_state(state: Mapping[bytes, bytes]) -> Iterable[tuple[StatsKey, RunningStats]]:
    for key, value in state.items():
        place = parse_state_key(key)
        if place is not None:
            yield StatsKey(place[1], place[2]), RunningStats.restore(json.loads(value))
