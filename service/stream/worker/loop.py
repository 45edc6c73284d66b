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

from service.log.codec import read_state_key
from service.log.protocol import BATCH_BYTES, CommitRefused, Gained, Record
from service.statistics.running import RunningStats
from service.stream.state.snapshot import Account, Ledger
from service.stream.worker.reporting import complete, introduce, tell_dead_letters
from service.telemetry.batch_report import BatchReport

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Mapping

    from service.datasets.registry import Datasets
    from service.log.protocol import Follower, Polled, Stream, Work
    from service.log.topics import Topics
    from service.stream.worker.batch_processor import Assessor
    from service.telemetry.batch_report import Reporter

log = logging.getLogger(__name__)

BATCH_RECORDS = 1024
FIRST_BATCH = 128  # nobody knows yet how long a sentence takes: batches grow while they are quick
FIRST_BYTES = 128 * 1024
POLL_TIMEOUT = 0.5
CATCH_UP_PAUSE = 0.05
# A batch must end well within the log's poll interval, or its partitions are given to another worker.
BATCH_SECONDS = 10.0
RETRY_PAUSE = 0.5


@dataclass(slots=True)
class Counts:
    """What the worker has done since it started; read by whoever shows it."""

    records: int = 0
    committed_batches: int = 0
    refused_batches: int = 0
    outputs: dict[str, int] = field(default_factory=dict)
    lost_records: int = 0

    def add(self, work: Work) -> None:
        self.records += len(work.polled)
        self.committed_batches += 1
        for output in work.outputs:
            self.outputs[output.topic] = self.outputs.get(output.topic, 0) + 1


@dataclass(slots=True)
class Status:
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

    def holds(self, name: str) -> None:
        self.conditions[name] = ""

    def fails(self, name: str, why: str) -> None:
        self.conditions[name] = why

    @property
    def ready(self) -> bool:
        return not any(self.conditions.values())


class Worker:
    """Runs a stream's records through an assessor. One thread runs it; `status` and `counts` may be read by others."""

    def __init__(
        self,
        stream: Stream,
        assessor: Assessor,
        datasets: Datasets,
        topics: Topics,
        *,
        batch_records: int = BATCH_RECORDS,
        poll_timeout: float = POLL_TIMEOUT,
        reporter: Reporter | None = None,
    ) -> None:
        self._stream = stream
        self._assessor = assessor
        self._datasets = datasets
        self._topics = topics
        self._most = batch_records
        self._records = min(batch_records, FIRST_BATCH)
        self._bytes = FIRST_BYTES
        self._poll_timeout = poll_timeout
        self._reporter = reporter
        self._owned: set[int] = set()
        self.ledger = Ledger()
        self.status = Status()
        self.counts = Counts()

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set: then the batch at hand is finished and the stream left in order."""
        with ExitStack() as leaving:
            leaving.callback(self._stream.close)
            leaving.callback(self.status.fails, "worker", "the worker has stopped")
            settings = leaving.enter_context(closing(self._stream.follow(self._topics.datasets)))
            states = leaving.enter_context(closing(self._stream.follow(self._topics.state)))
            self._catch_up(settings, states, stop)
            self._introduce()
            while not stop.is_set():
                news = settings.poll()
                if news:
                    self._datasets.read(news)
                    self._introduce()
                self._take_foreign(states.poll())
                self.take_changes()
                self.step()
                self._take_troubles()

    def _catch_up(self, settings: Follower, states: Follower, stop: threading.Event) -> None:
        """No sentence is judged before the settings and everybody's statistics are read."""
        while not stop.is_set() and not (settings.caught_up and states.caught_up):
            news = settings.poll()
            statistics = states.poll()
            self._datasets.read(news)
            self._take_foreign(statistics)
            if not news and not statistics:
                stop.wait(CATCH_UP_PAUSE)
        self.status.holds("datasets")
        self.status.holds("state")
        # Model, settings and imports stay until the end: searching them for garbage again and again costs a tenth.
        gc.collect()
        gc.freeze()

    def _introduce(self) -> None:
        if self._reporter is not None:
            introduce(self._reporter, self._datasets, self.ledger)

    def step(self) -> int:
        """One batch; gives the number of records it held."""
        polled = self._stream.poll(max_records=self._records, timeout=self._poll_timeout, max_bytes=self._bytes)
        if not len(polled):
            return 0
        started = time.monotonic()
        report = BatchReport(records=len(polled))
        work, ledger = self._assessor.assess(polled, self.ledger, report)
        try:
            self._stream.commit(work)
        except CommitRefused as refusal:
            # Perhaps the batch took longer than the log waits: smaller ones always get through in the end.
            self._shrink(polled, 0.5)
            self.counts.refused_batches += 1
            if self._reporter is not None:
                self._reporter.refused()
            log.warning("a batch of %d records was refused and will be read again: %s", len(polled), refusal)
            time.sleep(RETRY_PAUSE)
            return 0
        self.ledger = ledger
        self.counts.add(work)
        tell_dead_letters(output for output in work.outputs if output.topic == self._topics.dead_letters)
        if self._reporter is not None:
            complete(report, polled, self._datasets, self.ledger)
            self._reporter.committed(report)
        self._adapt(polled, time.monotonic() - started)
        return len(polled)

    def _adapt(self, polled: Polled, seconds: float) -> None:
        if seconds > BATCH_SECONDS:
            self._shrink(polled, BATCH_SECONDS / seconds)
        elif seconds < BATCH_SECONDS / 4:
            self._records = min(self._most, self._records * 2)
            self._bytes = min(BATCH_BYTES, self._bytes * 2)

    def _shrink(self, polled: Polled, share: float) -> None:
        """From what the batch really held: which of the limits made it end does not matter."""
        self._records = max(1, int(len(polled) * share))
        self._bytes = max(1, int(polled.size * share))

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that are ours at this moment."""
        return frozenset(self._owned)

    def take_changes(self) -> None:
        """Partitions that came bring the state they were left in; those that went are followed from now on."""
        changes = self._stream.changes()
        for partition in changes.lost:
            self._owned.discard(partition)
        for gained in changes.gained:
            self._take_gained(gained)
        if self._stream.settled:
            self.status.holds("partitions")
        if changes.gained or changes.lost:
            log.info("partitions now: %s", sorted(self._owned) or "none")

    def _take_troubles(self) -> None:
        """The log tells of each in its own words as it comes; here it is told when they are over."""
        before, now = self.status.degraded["stream"], "; ".join(self._stream.troubles)
        if before and not now:
            log.info("the stream is well again")
        self.status.degraded["stream"] = now

    def _take_gained(self, gained: Gained) -> None:
        self._owned.add(gained.partition)
        sheet = dict(_read_statistics(gained.state))
        self._datasets.know(account.dataset for account in sheet)
        self.ledger = self.ledger.with_sheet(gained.partition, sheet)
        if gained.lost_records:
            self.counts.lost_records += gained.lost_records
            if self._reporter is not None:
                self._reporter.lost(gained.lost_records)
            log.error(
                "partition %d: %d records were deleted before they were read: retention is faster than the worker",
                gained.partition,
                gained.lost_records,
            )

    def _take_foreign(self, records: Iterable[Record]) -> None:
        """Others' statistics. Of our own partitions we know better: the log only repeats what we committed."""
        for record in records:
            place = read_state_key(record.key or b"")
            if place is None or record.value is None or place[0] in self._owned:
                continue
            partition, dataset, stats_key = place
            self._datasets.know([dataset])
            stats = RunningStats.restore(json.loads(record.value))
            self.ledger = self.ledger.with_account(partition, Account(dataset, stats_key), stats)


def _read_statistics(state: Mapping[bytes, bytes]) -> Iterable[tuple[Account, RunningStats]]:
    for key, value in state.items():
        place = read_state_key(key)
        if place is not None:
            yield Account(place[1], place[2]), RunningStats.restore(json.loads(value))
