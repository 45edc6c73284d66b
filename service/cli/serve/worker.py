"""`labelwatch worker`: reads sentences from the log, assesses them and writes what came of it, exactly once."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from service.cli.shared.terminal import print_stderr
from service.errors import SettingsError, StreamError
from service.inference.classifier import Classifier
from service.log.protocol import FencedError
from service.runtime.dataset_settings import build_datasets
from service.runtime.load_model import load_model_folder
from service.runtime.open_log import build_topics, hold_state_lock, open_worker_session
from service.runtime.process import set_up_logging, stop_on_signals
from service.runtime.supervisor import Supervisor
from service.settings import Settings, read_settings
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import POLL_TIMEOUT_S, Worker, WorkerCounts, WorkerStatus
from service.telemetry import Telemetry
from service.telemetry.probe_server import ProbeServer
from service.telemetry.readiness import merge_conditions
from service.text import pluralize

if TYPE_CHECKING:
    import threading

    from service.datasets.registry import DatasetRegistry
    from service.log.protocol import WorkerSession
    from service.log.topics import Topics
    from service.telemetry import Reporter

logger = logging.getLogger(__name__)

MIN_RETRY_INTERVAL_S = 0.5
MAX_RETRY_INTERVAL_S = 30.0
PROGRESS_INTERVAL_S = 30.0
RUN_TO_END_POLL_TIMEOUT_S = 0.1

WorkerT = TypeVar("WorkerT", bound=Worker)

OnceOption = Annotated[bool, typer.Option("--once", help="Stop when everything is read, instead of waiting for more.")]

worker_app = typer.Typer(help="Assess sentences as they come.", invoke_without_command=True)


@worker_app.callback()
def worker(context: typer.Context, once: OnceOption = False) -> None:
    """Assess sentences as they come, until SIGTERM or Ctrl-C: then the batch at hand is finished first."""
    if context.invoked_subcommand is not None:
        return
    settings = read_settings()
    set_up_logging(settings)
    topics = build_topics(settings)
    with hold_state_lock(settings, topics):
        port = settings.worker.metrics_port
        telemetry = None if port is None else Telemetry(annotators=settings.metrics.annotators)
        running = WorkerRunner(settings, topics, once=once, telemetry=telemetry)
        supervisor = Supervisor()
        with stop_on_signals(supervisor.stop):
            if telemetry is not None:
                start_probes(settings, supervisor, running, telemetry)
            supervisor.start("worker", running.run)
            supervisor.wait(lambda: running.log_progress(supervisor.stop))
    print_stderr(running.summarize())


@worker_app.command()
def leave(
    worker_id: Annotated[str, typer.Argument(metavar="ID", help="The LABELWATCH_WORKER_ID it ran with.")],
) -> None:
    """Take a worker with a fixed identity out of its group at once, as for scaling down."""
    settings = read_settings()
    if settings.kafka is None:
        raise SettingsError(
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS is not set: the embedded log has no group that a worker could leave"
        )
    from service.log.kafka.admin import remove_group_member as leave_group

    group = settings.worker.group
    if not leave_group(settings.kafka, group=group, worker_id=worker_id):
        raise SettingsError(f"no member of the group {group} (LABELWATCH_WORKER_GROUP) has the id {worker_id!r}")
    typer.echo(f"{worker_id} has left the group {group}: its partitions go to the others")


def start_probes(settings: Settings, supervisor: Supervisor, runner: WorkerRunner, telemetry: Telemetry) -> None:
    """The worker's own port, for a process without the API."""

    def conditions() -> dict[str, str]:
        return merge_conditions(runner.conditions(), supervisor.conditions)

    telemetry.watch_readiness(conditions, runner.degraded)
    probes = ProbeServer(
        telemetry,
        host=settings.worker.metrics_host,
        port=settings.worker.metrics_port or 0,
        conditions=conditions,
        degraded=runner.degraded,
        alive=lambda: supervisor.alive,
    )
    supervisor.start("probes", probes.run)
    logger.info("metrics on http://%s:%d/metrics, also /healthz and /readyz", probes.host, probes.port)


def register_model(telemetry: Telemetry, classifier: Classifier) -> None:
    """The metrics name the model, and hear of each of its runs."""
    classifier.runner.on_run = telemetry.observe_model_run
    telemetry.set_model(classifier.folder.name, classifier.folder.fingerprint)


class RunToEndWorker(Worker):
    """Stops when there is nothing left to read."""

    _stop: threading.Event
    _idle_steps = 0

    def run(self, stop: threading.Event) -> None:
        self._stop = stop
        super().run(stop)

    def step(self) -> int:
        refused = self.counts.refused_batches
        done = super().step()
        behind = self._stream.lag()
        # What the log tells of its end may be a moment old while partitions come and go: ask twice.
        at_end = not done and refused == self.counts.refused_batches and set(behind) == self._assigned
        self._idle_steps = self._idle_steps + 1 if at_end and behind and not any(behind.values()) else 0
        if self._idle_steps > 1:
            self._stop.set()
        return done


def build_worker(
    worker_class: type[WorkerT],
    settings: Settings,
    classifier: Classifier,
    *,
    datasets: DatasetRegistry,
    stream: WorkerSession,
    topics: Topics,
    reporter: Reporter | None = None,
) -> WorkerT:
    limits = settings.worker
    assessor = BatchProcessor(
        classifier, datasets, topics, max_words=limits.max_words, publish_scores=limits.publish_scores
    )
    timeout = RUN_TO_END_POLL_TIMEOUT_S if issubclass(worker_class, RunToEndWorker) else POLL_TIMEOUT_S
    return worker_class(
        stream,
        assessor,
        datasets,
        topics,
        batch_records=limits.batch_records,
        poll_timeout=timeout,
        reporter=reporter,
    )


class WorkerRunner:
    """The worker's thread: one worker at a time, and a new one whenever the log has failed."""

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        *,
        once: bool,
        telemetry: Telemetry | None = None,
        classifier: Classifier | None = None,
    ) -> None:
        """`classifier`: one that others use too, and have told of; none: the worker's own."""
        self._settings = settings
        self._topics = topics
        self._once = once
        self._previous_counts = WorkerCounts()  # of the workers before this one
        self._worker: Worker | None = None
        self._stream: WorkerSession | None = None
        self._stream_error = ""  # why there is no worker at this moment
        self._telemetry = telemetry
        self._last_logged_at = time.monotonic()
        self._last_logged_records = 0
        self._logged_refusals: dict[str, str] = {}
        self._stop_logged = False
        self._classifier = classifier or Classifier(load_model_folder(settings), threads=settings.model.threads)
        folder = self._classifier.folder
        self._datasets = build_datasets(settings, folder)
        if telemetry is not None:
            if classifier is None:
                register_model(telemetry, self._classifier)
            telemetry.on_scrape(lambda: telemetry.set_lag(self.lag()))
        logger.info("model %s: %d classes, fingerprint %.12s", folder.name, len(folder.labels), folder.fingerprint)

    def run(self, stop: threading.Event) -> None:
        pause, opened = MIN_RETRY_INTERVAL_S, False
        while not stop.is_set():
            before = self.counts.records
            try:
                with contextlib.closing(open_worker_session(self._settings, self._topics)) as stream:
                    opened, self._stream, self._stream_error = True, stream, ""
                    self._datasets = build_datasets(self._settings, self._classifier.folder)
                    kind = RunToEndWorker if self._once else Worker
                    self._worker = build_worker(
                        kind,
                        self._settings,
                        self._classifier,
                        datasets=self._datasets,
                        stream=stream,
                        topics=self._topics,
                        reporter=self._telemetry,
                    )
                    self._worker.run(stop)
            except FencedError:
                raise
            except StreamError as error:
                # A broker may be away for a while. A file of our own that can't be opened won't mend itself.
                if self._once or not (opened or self._settings.kafka):
                    raise
                pause = MIN_RETRY_INTERVAL_S if self.counts.records > before else min(2 * pause, MAX_RETRY_INTERVAL_S)
                self._stream_error = str(error)
                logger.warning("%s; trying again in %.1f s", error, pause)
                stop.wait(pause)
            finally:
                self._previous_counts, self._worker, self._stream = self.counts, None, None

    @property
    def counts(self) -> WorkerCounts:
        """Since the process started."""
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

    def conditions(self) -> dict[str, str]:
        """Why the worker is not ready, by name; empty where a condition holds. May be asked from any thread."""
        worker = self._worker
        status = WorkerStatus() if worker is None else worker.status
        return {"worker": "", "log": self._stream_error or status.degraded["stream"], **status.conditions}

    def degraded(self) -> dict[str, str]:
        """What the worker has to wait for or do without at this moment."""
        worker = self._worker
        return {} if worker is None else dict(worker.status.degraded)

    def lag(self) -> dict[int, int]:
        """Records behind the end, by owned partition; nothing while the log can't be asked."""
        stream = self._stream
        try:
            return {} if stream is None else stream.lag()
        except StreamError:  # it was closed meanwhile, or is busy
            return {}

    def log_progress(self, stop: threading.Event) -> None:
        """What people who watch the log should know, once."""
        if stop.is_set() and not self._stop_logged and not self._once:
            self._stop_logged = True
            logger.info("stopping: the batch at hand is finished first (a second signal ends the worker at once)")
        for name, why in dict(self._datasets.refused_settings).items():
            if self._logged_refusals.get(name) != why:
                self._logged_refusals[name] = why
                logger.error("the settings of the dataset %s can't be used, the ones before them stay: %s", name, why)
        if (
            time.monotonic() - self._last_logged_at >= PROGRESS_INTERVAL_S
            and self.counts.records > self._last_logged_records
        ):
            self._last_logged_at, self._last_logged_records = time.monotonic(), self.counts.records
            logger.info("%s", self.summarize())

    def summarize(self) -> str:
        counts = self.counts
        review, dead = (counts.outputs.get(name, 0) for name in (self._topics.review, self._topics.dead_letters))
        return f"{pluralize(counts.records, 'message')} read, {review:,} to review, {pluralize(dead, 'dead letter')}"
