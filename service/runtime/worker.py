"""The worker as a thread: restarts it when the log fails, and reports its readiness, lag and progress."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, TypeVar

from service.errors import MissingModelError, StreamError
from service.judging.misfit import describe_misfits
from service.labels.unknown_labels import build_settings_advice
from service.log.protocol import FencedError
from service.runtime.datasets.settings import build_datasets
from service.runtime.lifecycle.probes import start_probes
from service.runtime.lifecycle.process import (
    limit_stop_time,
    open_tracing,
    restrict_new_files,
    set_up_logging,
    stop_on_signals,
)
from service.runtime.lifecycle.process_limits import MAX_STOP_S
from service.runtime.lifecycle.supervisor import Supervisor
from service.runtime.load_model import build_model_pool
from service.runtime.open_log import build_topics, hold_state_lock, open_worker_session, warn_of_missing_log
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import POLL_TIMEOUT_S, Worker
from service.stream.worker.status import WorkerCounts, WorkerStatus
from service.telemetry import Telemetry
from service.telemetry.readiness import merge_conditions
from service.text import pluralize

if TYPE_CHECKING:
    import threading

    from service.datasets.registry import DatasetRegistry
    from service.inference.model.pool import ModelPool
    from service.log.protocol import WorkerSession
    from service.log.topics import Topics
    from service.settings import Settings
    from service.telemetry import Reporter
    from service.telemetry.tracing import Tracing

logger = logging.getLogger(__name__)

MIN_RETRY_INTERVAL_S = 0.5
MAX_RETRY_INTERVAL_S = 30.0
PROGRESS_INTERVAL_S = 30.0
RUN_TO_END_POLL_TIMEOUT_S = 0.1

WorkerT = TypeVar("WorkerT", bound=Worker)


def run_worker(settings: Settings, *, once: bool) -> str:
    """Runs a worker until SIGTERM or Ctrl-C, or with `once` until everything is read. Returns a summary."""
    set_up_logging(settings)
    restrict_new_files()
    warn_of_missing_log(settings)
    topics = build_topics(settings)
    with open_tracing(settings) as tracing, hold_state_lock(settings, topics):
        port = settings.worker.metrics_port
        telemetry = None if port is None else Telemetry(annotators=settings.metrics.annotators)
        runner = WorkerRunner(settings, topics, once=once, telemetry=telemetry, tracing=tracing)
        supervisor = Supervisor()
        with stop_on_signals(supervisor.stop), limit_stop_time(supervisor.stop, MAX_STOP_S):
            if telemetry is not None:
                _start_probes(settings, supervisor, runner, telemetry)
            supervisor.start("worker", runner.run)
            supervisor.wait(lambda: runner.log_progress(supervisor.stop))
    return runner.summarize()


def _start_probes(settings: Settings, supervisor: Supervisor, runner: WorkerRunner, telemetry: Telemetry) -> None:
    """Serves metrics and health on the worker's own port, since its process has no API."""

    def conditions() -> dict[str, str]:
        return merge_conditions(runner.get_conditions(), supervisor.conditions)

    def degraded() -> dict[str, str]:
        return {**runner.get_degraded(), "model_fit": describe_misfits(telemetry.list_misfits())}

    telemetry.watch_readiness(conditions, degraded)
    start_probes(
        supervisor,
        telemetry,
        host=settings.worker.metrics_host,
        port=settings.worker.metrics_port or 0,
        setting="LABELWATCH_WORKER_METRICS_PORT",
        conditions=conditions,
        degraded=degraded,
    )


class RunToEndWorker(Worker):
    """Stops when everything is read. A missing model is an error: what it would wait for may never come."""

    _stop: threading.Event
    _idle_steps = 0

    def run(self, stop: threading.Event) -> None:
        self._stop = stop
        super().run(stop)

    def step(self) -> int:
        refused = self.counts.refused_batches
        processed = super().step()
        # During a rebalance the end offset may be outdated for a moment. Two idle steps in a row are the end.
        idle = not processed and refused == self.counts.refused_batches and self.is_at_end
        self._idle_steps = self._idle_steps + 1 if idle else 0
        if self._idle_steps > 1:
            if self.paused:
                raise MissingModelError(self._paused.describe())
            self._stop.set()
        return processed


def build_worker(
    worker_class: type[WorkerT],
    settings: Settings,
    models: ModelPool,
    *,
    datasets: DatasetRegistry,
    session: WorkerSession,
    topics: Topics,
    reporter: Reporter | None = None,
    tracing: Tracing | None = None,
) -> WorkerT:
    limits = settings.worker
    processor = BatchProcessor(
        models,
        datasets,
        topics,
        max_words=limits.max_words,
        publish_scores=limits.publish_scores,
        max_annotators=limits.max_annotators,
    )
    timeout = RUN_TO_END_POLL_TIMEOUT_S if issubclass(worker_class, RunToEndWorker) else POLL_TIMEOUT_S
    return worker_class(
        session,
        processor,
        datasets,
        topics,
        batch_records=limits.batch_records,
        poll_timeout=timeout,
        reporter=reporter,
        tracing=tracing,
    )


class WorkerRunner:
    """Runs one worker at a time, and starts a new one whenever the log fails. The methods may be called by any thread."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        *,
        once: bool,
        telemetry: Telemetry | None = None,
        models: ModelPool | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`models`: those of the process, if it has other threads that use them. None: the worker loads its own."""
        self._settings = settings
        self._topics = topics
        self._once = once
        self._previous_counts = WorkerCounts()  # sum over the workers before this one
        self._worker: Worker | None = None
        self._session: WorkerSession | None = None
        self._log_error = ""  # why no worker runs
        self._telemetry = telemetry
        self._tracing = tracing
        self._last_logged_at = time.monotonic()
        self._last_logged_records = 0
        self._logged_refusals: dict[str, str] = {}
        self._logged_misfits: set[str] = set()
        self._stop_logged = False
        self._models = models or build_model_pool(settings, telemetry=telemetry)
        self._models.get_classifier(self._models.default)
        self._datasets = build_datasets(settings, self._models)
        if telemetry is not None:
            telemetry.on_scrape(lambda: telemetry.set_lag(self.get_lag()))
            telemetry.on_scrape(lambda: telemetry.set_paused_partitions(self.count_paused_partitions()))
            telemetry.on_scrape(lambda: telemetry.set_waiting(self.get_waiting()))

    def run(self, stop: threading.Event) -> None:
        retry_interval, opened = MIN_RETRY_INTERVAL_S, False
        while not stop.is_set():
            records_before = self.counts.records
            try:
                with contextlib.closing(open_worker_session(self._settings, self._topics)) as session:
                    opened, self._session, self._log_error = True, session, ""
                    self._datasets = build_datasets(self._settings, self._models)
                    self._worker = build_worker(
                        RunToEndWorker if self._once else Worker,
                        self._settings,
                        self._models,
                        datasets=self._datasets,
                        session=session,
                        topics=self._topics,
                        reporter=self._telemetry,
                        tracing=self._tracing,
                    )
                    self._worker.run(stop)
            except FencedError:
                raise
            except StreamError as error:
                # A broker may come back. An embedded log that never opened will not open on a retry either.
                if self._once or not (opened or self._settings.kafka):
                    raise
                progressed = self.counts.records > records_before
                retry_interval = MIN_RETRY_INTERVAL_S if progressed else min(2 * retry_interval, MAX_RETRY_INTERVAL_S)
                self._log_error = str(error)
                logger.warning("%s; trying again in %.1f s", error, retry_interval)
                stop.wait(retry_interval)
            finally:
                self._previous_counts, self._worker, self._session = self.counts, None, None

    @property
    def counts(self) -> WorkerCounts:
        """Counts since the process started."""
        now, before = (self._worker.counts if self._worker else WorkerCounts()), self._previous_counts
        outputs = {
            name: before.outputs.get(name, 0) + now.outputs.get(name, 0) for name in {*before.outputs, *now.outputs}
        }
        return WorkerCounts(
            records=before.records + now.records,
            committed_batches=before.committed_batches + now.committed_batches,
            refused_batches=before.refused_batches + now.refused_batches,
            outputs=outputs,
            lost_records=before.lost_records + now.lost_records,
        )

    def get_conditions(self) -> dict[str, str]:
        """Conditions for readiness: the reason why one is not met, or empty text."""
        worker = self._worker
        status = WorkerStatus() if worker is None else worker.status
        return {"worker": "", "log": self._log_error or status.degraded["stream"], **status.conditions}

    def get_degraded(self) -> dict[str, str]:
        """What the worker waits for, or works without."""
        worker = self._worker
        return {} if worker is None else dict(worker.status.degraded)

    def get_waiting(self) -> dict[str, int]:
        """Sentences that wait for a model, by dataset."""
        worker = self._worker
        return {} if worker is None else {waiting.name: waiting.sentences for waiting in worker.waiting}

    def get_lag(self) -> dict[int, int]:
        """Records behind the end by assigned partition; empty while the log does not answer."""
        session = self._session
        try:
            return {} if session is None else session.lag()
        except StreamError:  # closed meanwhile, or busy
            return {}

    def count_paused_partitions(self) -> int:
        """Partitions that wait for a model."""
        worker = self._worker
        return 0 if worker is None else len(worker.paused)

    def log_progress(self, stop: threading.Event) -> None:
        """Logs what is new: the stop, refused settings, misfits, and every 30 seconds the number of messages."""
        if stop.is_set() and not self._stop_logged and not self._once:
            self._stop_logged = True
            logger.info("stopping after the current batch (a second signal ends the worker at once)")
        for name, reason in dict(self._datasets.refused_settings).items():
            if self._logged_refusals.get(name) != reason:
                self._logged_refusals[name] = reason
                logger.error(
                    "the settings of the dataset %s can't be used, the previous ones stay in force: %s", name, reason
                )
        misfits = {} if self._telemetry is None else self._telemetry.list_misfits()
        for name in misfits.keys() - self._logged_misfits:
            logger.warning("dataset %s: %s", name, misfits[name].explain(build_settings_advice(name)))
        self._logged_misfits = set(misfits)
        due = time.monotonic() - self._last_logged_at >= PROGRESS_INTERVAL_S
        if due and self.counts.records > self._last_logged_records:
            self._last_logged_at, self._last_logged_records = time.monotonic(), self.counts.records
            logger.info("%s", self.summarize())

    def summarize(self) -> str:
        counts = self.counts
        topics = (self._topics.review, self._topics.dead_letters, self._topics.waiting)
        review, dead, stored = (counts.outputs.get(name, 0) for name in topics)
        waiting = f", {stored:,} waiting" if stored else ""
        return f"{pluralize(counts.records, 'message')} read, {review:,} to review, {pluralize(dead, 'dead letter')}{waiting}"
