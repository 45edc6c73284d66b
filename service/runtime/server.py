"""What `labelwatch api` and `labelwatch up` share: the API with its threads, under one supervisor.

    api     ─ the HTTP server; on SIGTERM it takes nothing new, finishes what is at hand and ends first
    model   ─ runs the model for all requests          ┐
    mirror  ─ follows settings and statistics          ├ end when the server has ended
    review  ─ builds the queue                         ┘
    worker  ─ only with `up`; ends with the batch at hand

The first thread that ends unasked turns readiness red and ends the process.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer
import uvicorn

from service.api.app import create_app
from service.api.backend import Backend
from service.api.batching.batcher import MicroBatcher
from service.api.http.connection import LimitedHttpProtocol
from service.api.ingest.log_appender import LogAppender
from service.api.routes.health import get_conditions, get_degraded, get_readiness
from service.cli.serve.worker import WorkerRunner, register_model
from service.cli.shared.terminal import print_stderr
from service.errors import InvalidInput, SettingsError
from service.inference.classifier import Classifier
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import ReviewQueue
from service.runtime.dataset_settings import build_datasets
from service.runtime.load_model import load_model_folder
from service.runtime.open_log import build_topics, hold_state_lock, open_log
from service.runtime.process import set_up_logging, stop_on_signals
from service.runtime.sample_feed import FileFeed
from service.runtime.supervisor import Supervisor
from service.settings import find_unknown_variables, read_settings
from service.stream.state.view import StateView
from service.telemetry import Telemetry
from service.telemetry.readiness import merge_conditions

if TYPE_CHECKING:
    from service.settings import ApiSettings, Settings

logger = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 20
KEEP_ALIVE_TIMEOUT_S = 75  # longer than load balancers keep an idle connection, so that they close it and not we
WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
QUEUE_FILE_NAME = "queue.sqlite"


class SupervisedServer(uvicorn.Server):
    """Ends when it is asked to by the supervisor: signals are not its business."""

    def __init__(self, config: uvicorn.Config, stop: threading.Event) -> None:
        super().__init__(config)
        self._stop = stop

    async def on_tick(self, counter: int) -> bool:
        self.should_exit = self.should_exit or self._stop.is_set()
        return await super().on_tick(counter)


class WorkerReadiness:
    """The worker inside `up`. Until it has been ready once the service is not; later troubles of the log are told."""

    def __init__(self, runner: WorkerRunner) -> None:
        self._runner = runner
        self._was_ready = False

    def conditions(self) -> dict[str, str]:
        found = {
            f"worker_{name}".replace("worker_worker", "worker"): why for name, why in self._current_conditions.items()
        }
        self._was_ready = self._was_ready or not any(found.values())
        return dict.fromkeys(found, "") if self._was_ready else found

    def degraded(self) -> dict[str, str]:
        found = (
            {"worker": "; ".join(sorted({why for why in self._current_conditions.values() if why}))}
            if self._was_ready
            else {}
        )
        return {**found, **self._runner.degraded()}

    @property
    def _current_conditions(self) -> dict[str, str]:
        return self._runner.conditions()


def serve(*, with_worker: bool, feed: str | None = None, feed_rate: float = 1.0) -> None:
    """Runs the API, with or without a worker, until SIGTERM or Ctrl-C."""
    settings = read_settings()
    if feed is not None and not Path(feed).is_file():
        raise InvalidInput(f"--feed: there is no file {feed}")
    set_up_logging(settings)
    for name in find_unknown_variables(os.environ):
        logger.warning("%s is not a setting: correct its name or remove it", name)
    with ExitStack() as leaving:
        listening = leaving.enter_context(closing(_listen(settings.api)))
        topics = build_topics(settings)
        if with_worker:
            leaving.enter_context(hold_state_lock(settings, topics))
        telemetry = Telemetry(annotators=settings.metrics.annotators)
        classifier = Classifier(load_model_folder(settings), threads=settings.model.threads)
        register_model(telemetry, classifier)
        supervisor = Supervisor()
        running = (
            WorkerRunner(settings, topics, once=False, telemetry=telemetry, classifier=classifier)
            if with_worker
            else None
        )
        backend = _build_backend(settings, classifier, telemetry, supervisor, exit_stack=leaving, runner=running)
        leaving.enter_context(stop_on_signals(supervisor.stop))
        address = _start_threads(settings, backend, supervisor, listening, running)
        if feed is not None:
            supervisor.start("feed", FileFeed(settings, feed, feed_rate).run)
        teller = ReadyNotice(backend, supervisor, address, running)
        supervisor.wait(teller.tick)
    print_stderr(f"labelwatch has stopped{': ' + running.summarize() if running else ''}")


def _build_backend(
    settings: Settings,
    classifier: Classifier,
    telemetry: Telemetry,
    supervisor: Supervisor,
    *,
    exit_stack: ExitStack,
    runner: WorkerRunner | None,
) -> Backend:
    topics, api = build_topics(settings), settings.api
    queue = exit_stack.enter_context(closing(_open_queue(settings)))
    # One for each thread that reads or writes the log, so that none waits for another.
    own, mirrored, projected = (exit_stack.enter_context(closing(open_log(settings))) for _ in range(3))
    batcher = MicroBatcher(
        classifier,
        queue_sentences=api.queue_sentences,
        batch_tokens=api.batch_tokens,
        max_delay=api.max_delay_ms / 1000,
    )
    projector = ReviewProjector(projected, topics, queue)
    part = None if runner is None else WorkerReadiness(runner)

    def conditions() -> dict[str, str]:
        return merge_conditions(
            {"model": batcher.unavailable_reason}, supervisor.conditions, part.conditions() if part else {}
        )

    def degraded() -> dict[str, str]:
        return merge_conditions({"review": projector.error}, part.degraded() if part else {})

    mirror = StateView(mirrored, topics, build_datasets(settings, classifier.folder))
    appender = LogAppender(own, request_timeout_s=api.timeout_s, get_broker_error=lambda: mirror.broker_error)
    exit_stack.callback(appender.close)
    backend = Backend(
        settings=api,
        state_view=mirror,
        batcher=batcher,
        queue=queue,
        projector=projector,
        appender=appender,
        topics=topics,
        classifier=classifier,
        telemetry=telemetry,
        max_words=settings.worker.max_words,
        open_metrics=settings.metrics.open,
        conditions=conditions,
        degraded=degraded,
        draining=supervisor.stop,
    )
    telemetry.watch_readiness(lambda: get_conditions(backend), lambda: get_degraded(backend))
    telemetry.watch_queue(lambda: batcher.waiting)
    telemetry.on_scrape(lambda: _report_review_metrics(telemetry, queue))
    return backend


def _report_review_metrics(telemetry: Telemetry, queue: ReviewQueue) -> None:
    states, verdicts = queue.count_items_by_dataset(), queue.count_verdicts_by_dataset()
    for dataset in sorted({*states, *verdicts}):
        telemetry.set_review_counts(dataset, states=states.get(dataset, {}), verdicts=verdicts.get(dataset, {}))
        found = queue.estimate_recall(dataset)
        telemetry.set_recall(dataset, estimate=found.recall, low=found.low, high=found.high)
    pairs = queue.compute_pair_precision()
    telemetry.set_precision(
        {(one.dataset, one.given, one.suggested, one.method): (one.right, one.decided) for one in pairs}
    )


def _start_threads(
    settings: Settings,
    backend: Backend,
    supervisor: Supervisor,
    server_socket: socket.socket,
    runner: WorkerRunner | None,
) -> str:
    """Starts the threads; gives the address that people can use."""
    app = create_app(backend)
    config = uvicorn.Config(
        app,
        http=LimitedHttpProtocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
        timeout_graceful_shutdown=DRAIN_TIMEOUT_S,
    )
    ended = threading.Event()  # of the server: those who serve it go on until then

    def answer(stop: threading.Event) -> None:
        try:
            SupervisedServer(config, stop).run(sockets=[server_socket])
        finally:
            ended.set()

    supervisor.start("model", lambda _: backend.batcher.run(ended))
    supervisor.start("mirror", lambda _: backend.state_view.run(ended))
    supervisor.start("review", lambda _: backend.projector.run(ended))
    if runner is not None:
        supervisor.start("worker", runner.run)
    supervisor.start("api", answer)
    return _format_address(settings.api, server_socket)


class ReadyNotice:
    """Says once that the service is ready, with the addresses."""

    def __init__(self, backend: Backend, supervisor: Supervisor, address: str, runner: WorkerRunner | None) -> None:
        self._backend = backend
        self._supervisor = supervisor
        self._address = address
        self._runner = runner
        self._announced = False

    def tick(self) -> None:
        if not self._announced and get_readiness(self._backend).ready:
            self._announced = True
            base = self._address
            typer.echo(
                f"labelwatch is ready: {base}/ (API {base}/docs, metrics {base}/metrics, health {base}/readyz); "
                "Ctrl-C stops it"
            )
        if self._runner is not None:
            self._runner.log_progress(self._supervisor.stop)


def _open_queue(settings: Settings) -> ReviewQueue:
    path: Path = settings.api.queue_path or settings.log.path.with_name(QUEUE_FILE_NAME)
    try:
        return ReviewQueue(path)
    except SettingsError as error:
        raise SettingsError(f"LABELWATCH_API_QUEUE_PATH: {error}") from error


def _listen(api: ApiSettings) -> socket.socket:
    """Taken before anything else is begun, so that a port in use is told at once."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            api.host, api.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"LABELWATCH_API_HOST: can't listen on {api.host}: {error.strerror or error}") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(2048)
    except OSError as error:
        made.close()
        raise SettingsError(
            f"LABELWATCH_API_PORT: can't listen on {api.host}:{api.port}: {error.strerror or error}; set it to another "
            "port, or 0 for any free one"
        ) from error
    if not api.known_keys:
        reach = "this machine" if ipaddress.ip_address(place[0]).is_loopback else f"whoever can reach {api.host}"
        logger.warning("no API keys are set: %s may read and write everything (see `labelwatch key new`)", reach)
    return made


def _format_address(api: ApiSettings, server_socket: socket.socket) -> str:
    host = "127.0.0.1" if api.host in WILDCARD_HOSTS else api.host
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server_socket.getsockname()[1]}"
