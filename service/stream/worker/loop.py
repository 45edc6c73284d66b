"""The worker's loop: follow other workers' state, apply rebalances, poll, follow settings, process, commit.

The snapshot is replaced only after a commit. A batch that fails before it leaves no trace: the log assigns the
partitions again with their committed state and delivers the records again.

A partition is paused at a record whose dataset needs a model that this worker lacks, and resumed when the model is there
or the dataset has another one.
"""

from __future__ import annotations

import gc
import logging
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from service.contracts.defaults import BATCH_RECORDS
from service.datasets.waiting import WaitingDatasets, explain_waiting
from service.log.protocol import CommitRefused, PartitionAssignment, Record, TransactionalFollower
from service.stream.state.annotators import AnnotatorRecord
from service.stream.state.memories import MemoryRecord
from service.stream.state.reader import apply_state_record, check_memories, read_state_record
from service.stream.state.snapshot import StateSnapshot
from service.stream.worker.batch_size import BatchSize
from service.stream.worker.paused_partitions import PausedPartitions
from service.stream.worker.release import ReleaseReader, find_releasable
from service.stream.worker.reporting import finish_report, log_dead_letters, register_datasets
from service.stream.worker.status import WorkerCounts, WorkerStatus
from service.telemetry.batch_report import BatchReport

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator

    from service.datasets.registry import DatasetRegistry
    from service.datasets.waiting import WaitingDataset
    from service.log.protocol import Follower, Headers, RecordBatch, WorkerSession
    from service.log.topics import Topics
    from service.stream.worker.batch_processor import BatchProcessor
    from service.stream.worker.release import Releasable
    from service.telemetry.batch_report import Reporter
    from service.telemetry.tracing import Tracing

logger = logging.getLogger(__name__)

POLL_TIMEOUT_S = 0.5
ASSIGNED_PARTITIONS_MESSAGE = "assigned partitions: %s"  # the chaos tests look for it
CATCH_UP_INTERVAL_S = 0.05
RETRY_INTERVAL_S = 0.5


class Worker:
    """Processes the records of a session. One thread runs it; other threads may read `status` and `counts`."""

    def __init__(
        self,
        session: WorkerSession,
        processor: BatchProcessor,
        datasets: DatasetRegistry,
        topics: Topics,
        *,
        batch_records: int = BATCH_RECORDS,
        poll_timeout: float = POLL_TIMEOUT_S,
        reporter: Reporter | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._session = session
        self._processor = processor
        self._datasets = datasets
        self._topics = topics
        self._batch_size = BatchSize(batch_records)
        self._poll_timeout = poll_timeout
        self._reporter = reporter
        self._tracing = tracing
        self._assigned: set[int] = set()
        self._settings_follower: Follower | None = None
        self._release_reader = ReleaseReader(session, topics)
        self._paused = PausedPartitions(session, processor.check_model)
        self.snapshot = StateSnapshot()
        self._waiting_datasets = WaitingDatasets(datasets.get_judge)
        self.waiting: tuple[WaitingDataset, ...] = ()
        self.status = WorkerStatus()
        self.counts = WorkerCounts()

    def run(self, stop: threading.Event) -> None:
        """Runs until `stop` is set. Then the current batch is finished and the session closed."""
        with ExitStack() as exit_stack:
            exit_stack.callback(self._session.close)
            exit_stack.callback(self._release_reader.close)
            exit_stack.callback(self.status.mark_unmet, "worker", "the worker has stopped")
            settings = exit_stack.enter_context(closing(self._session.follow(self._topics.datasets)))
            states = exit_stack.enter_context(closing(self._session.follow(self._topics.state)))
            self._catch_up(settings, states, stop)
            self._register_datasets()
            self._settings_follower = settings
            while not stop.is_set():
                self.apply_state_records(states.poll())
                self.apply_rebalance()
                self._paused.resume()
                self.step()
                self._update_status()
                self._update_waiting()

    def _catch_up(self, settings: Follower, states: Follower, stop: threading.Event) -> None:
        """Reads all settings and the statistics of all partitions, before the first sentence is judged.

        It does not wait for a transaction that a dead worker left open: it may be this worker's own, which is aborted when
        it joins its group.
        """
        # The newest value of each key, as after compaction: to apply a record takes 0.3 ms, and until the brokers compact a
        # segment it has one for each commit. A worker that restarts after ten minutes would apply tens of thousands.
        newest: dict[tuple[int, bytes | None], Record] = {}
        while not stop.is_set() and not (settings.caught_up and _is_current(states)):
            settings_records, state_records = settings.poll(), states.poll()
            self._datasets.apply_records(settings_records)
            for record in state_records:
                newest.pop((record.partition, record.key), None)  # so that they stay in the order of their offsets
                newest[record.partition, record.key] = record
            if not settings_records and not state_records:
                stop.wait(CATCH_UP_INTERVAL_S)
        self.apply_state_records(newest.values())
        self.status.mark_met("datasets")
        self.status.mark_met("state")
        # Model, settings and imports live as long as the process, so the garbage collector need not visit them.
        gc.collect()
        gc.freeze()

    def _register_datasets(self) -> None:
        if self._reporter is not None:
            register_datasets(self._reporter, self._datasets, self.snapshot)

    def step(self) -> int:
        """Processes and commits one batch; returns its number of records."""
        batch = self._poll()
        # A poll waits for records. Settings that were written meanwhile apply to them if they are here already. Kafka
        # delivers the topics independently: a sentence may overtake settings that were written shortly before it.
        if self._follow_settings() and batch.released:
            self._release_reader.close()  # the dataset may have to wait again: the next poll finds out
            batch = replace(batch, released={})
        if not len(batch) and not batch.released:
            return 0
        report = BatchReport(records=len(batch))
        if self._tracing is None:
            return self._process(batch, report)
        with self._tracing.trace_batch(self._topics.sentences, _iter_headers(batch), report):
            return self._process(batch, report)

    def _follow_settings(self) -> bool:
        """Applies new settings; returns whether there are any."""
        records = [] if self._settings_follower is None else self._settings_follower.poll()
        if not records:
            return False
        self._datasets.apply_records(records)
        self._register_datasets()
        return True

    def _process(self, batch: RecordBatch, report: BatchReport) -> int:
        started = time.monotonic()
        processed = self._processor.process(batch, self.snapshot, report)
        result = processed.result
        try:
            self._session.commit(result)
        except CommitRefused as refusal:
            # The batch may have taken longer than the log waits. Each refusal halves the next one, until it fits.
            self._batch_size.shrink(batch, 0.5)
            self._release_reader.close()
            self.counts.refused_batches += 1
            report.refused = True
            if self._reporter is not None:
                self._reporter.count_refused_commit()
            logger.warning(
                "the commit of a batch of %d records was refused, they are read again: %s", len(batch), refusal
            )
            time.sleep(RETRY_INTERVAL_S)
            return 0
        report.end_stage("commit")
        self.snapshot = processed.snapshot
        if len(result.batch) or result.batch.released:
            self.counts.add_batch(result)
        if result.batch.released.keys() != batch.released.keys():
            self._release_reader.close()  # some are read again later
        self._paused.pause(processed.stopped)
        log_dead_letters(output for output in result.outputs if output.topic == self._topics.dead_letters)
        if self._reporter is not None:
            finish_report(report, result.batch, self._datasets, self.snapshot)
            self._reporter.observe_batch(report)
        self._batch_size.adapt(batch, time.monotonic() - started)
        return len(result.batch)

    def _poll(self) -> RecordBatch:
        """New records, and stored ones of datasets that fit by now."""
        releasable, size = self._find_releasable(), self._batch_size
        if not releasable:
            self._release_reader.close()
            return self._session.poll(max_records=size.records, timeout=self._poll_timeout, max_bytes=size.bytes)
        # New sentences wait behind stored ones. With fewer of them in each batch the stored ones come to an end.
        batch = self._session.poll(
            max_records=max(1, size.records // 2), timeout=0.0, max_bytes=max(1, size.bytes // 2)
        )
        return self._release_reader.add_released(batch, releasable, max_records=size.records, max_bytes=size.bytes)

    def _find_releasable(self) -> Releasable:
        return find_releasable(self.snapshot, self._list_waiting(), self._assigned)

    def _list_waiting(self) -> tuple[WaitingDataset, ...]:
        return self._waiting_datasets.list_all(self.snapshot.list_arrivals())

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions assigned to this worker now."""
        return frozenset(self._assigned)

    @property
    def paused(self) -> frozenset[int]:
        """The partitions that wait for a model."""
        return self._paused.partitions

    @property
    def datasets(self) -> DatasetRegistry:
        return self._datasets

    def lag(self) -> dict[int, int]:
        """Records behind the end, by assigned partition."""
        return self._session.lag()

    @property
    def is_at_end(self) -> bool:
        """Whether every assigned partition that is not paused is read to the end that the log reports.

        Then no stored sentence is due either. While partitions are still being assigned the answer is no: they are
        restored one by one, and the first one may have nothing to read.
        """
        if not self._session.assignment_complete:
            return False
        lag = self.lag()
        if set(lag) != self._assigned or not lag or any(lag[partition] for partition in lag.keys() - self.paused):
            return False
        return not self._find_releasable()

    def apply_rebalance(self) -> None:
        """Assigned partitions start with their committed state; revoked ones are followed in the state topic."""
        rebalance = self._session.poll_rebalance()
        for partition in rebalance.revoked:
            self._remove_partition(partition)
        for assignment in rebalance.assigned:
            self._add_partition(assignment)
        if self._session.assignment_complete:
            self.status.mark_met("partitions")
        if rebalance.assigned or rebalance.revoked:
            self._release_reader.close()
            logger.info(ASSIGNED_PARTITIONS_MESSAGE, sorted(self._assigned) or "none")

    def _remove_partition(self, partition: int) -> None:
        self._assigned.discard(partition)
        self._paused.forget(partition)
        draft = self.snapshot.start_draft()
        draft.memories.clear_partition(partition)
        self.snapshot = draft.to_snapshot()

    def _update_status(self) -> None:
        """The session logs each warning itself when it appears; this logs when all are gone."""
        self.status.conditions["models"] = self._paused.describe()
        before, now = self.status.degraded["stream"], "; ".join(self._session.warnings)
        if before and not now:
            logger.info("the stream has no warnings any more")
        self.status.degraded["stream"] = now

    def _update_waiting(self) -> None:
        """Logs once that a dataset waits for a model, and once that it does not any more."""
        before = self.waiting
        self.waiting = self._list_waiting()
        if before == self.waiting:
            return
        self.status.degraded["waiting"] = "; ".join(map(explain_waiting, self.waiting))
        known = {each.name: each.fits for each in before}
        for each in self.waiting:
            if known.pop(each.name, None) is not each.fits:
                logger.log(logging.INFO if each.fits else logging.WARNING, "%s", explain_waiting(each))
        for name in known:
            logger.info("no sentences of %s wait for a model any more", name)

    def _add_partition(self, assignment: PartitionAssignment) -> None:
        self._assigned.add(assignment.partition)
        self._paused.forget(assignment.partition)
        draft = self.snapshot.start_draft()
        draft.clear_partition(assignment.partition)
        for key, value in assignment.state.items():
            state_record = read_state_record(self._topics.state, key, value)
            if state_record is not None and state_record.partition == assignment.partition:
                apply_state_record(draft, self._topics.state, state_record)
                self._datasets.register_existing([state_record.dataset])
        check_memories(draft, self._topics.state, assignment.partition)
        self.snapshot = draft.to_snapshot()
        if assignment.lost_records:
            self.counts.lost_records += assignment.lost_records
            if self._reporter is not None:
                self._reporter.count_lost_records(assignment.lost_records)
            logger.error(
                "partition %d: %d records were deleted before they were read: retention is faster than the worker",
                assignment.partition,
                assignment.lost_records,
            )

    def apply_state_records(self, records: Iterable[Record]) -> None:
        """Statistics of other workers' partitions. Records of assigned partitions repeat what this worker committed."""
        draft = self.snapshot.start_draft()
        for record in records:
            state_record = read_state_record(self._topics.state, record.key, record.value, skip=self._assigned)
            # Memories and sums of annotators are needed for the worker's own partitions alone.
            if state_record is not None and not isinstance(state_record, MemoryRecord | AnnotatorRecord):
                apply_state_record(draft, self._topics.state, state_record)
                if not state_record.is_tombstone:
                    self._datasets.register_existing([state_record.dataset])
        self.snapshot = draft.to_snapshot()


def _is_current(states: Follower) -> bool:
    return states.caught_up or (isinstance(states, TransactionalFollower) and states.waits_for_transaction)


def _iter_headers(batch: RecordBatch) -> Iterator[Headers]:
    for release in batch.released.values():
        yield from (stored.record.headers for stored in release.records)
    for records in batch.records.values():
        yield from (record.headers for record in records)
