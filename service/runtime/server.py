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
from service.api.backend import Backend, GuardedLog
from service.api.batching.batcher import Batcher
from service.api.http.connection import Connection
from service.api.routes.health import conditions_of, degraded_of, readiness_of
from service.cli.serve.worker import Running, know_model
from service.cli.shared.terminal import say
from service.errors import InvalidInput, SettingsError
from service.inference.classifier import Classifier
from service.review.projection.projector import Projector
from service.review.queue.queue import Queue
from service.runtime.open_log import (
    claimed,
    draining,
    model_folder,
    new_datasets,
    open_stream,
    set_up_logging,
    topics_of,
)
from service.runtime.sample_feed import Feed
from service.runtime.supervisor import Supervisor
from service.settings import read_settings, unknown_variables
from service.stream.state.view import Mirror
from service.telemetry import Telemetry
from service.telemetry.conditions import joined

if TYPE_CHECKING:
    from service.settings import ApiSettings, Settings

log = logging.getLogger(__name__)

DRAIN_SECONDS = 20
KEEP_ALIVE_SECONDS = 75  # longer than load balancers keep an idle connection, so that they close it and not we
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
QUEUE_NAME = "queue.sqlite"


class Server(uvicorn.Server):
    """Ends when it is asked to by the supervisor: signals are not its business."""

    def __init__(self, config: uvicorn.Config, stop: threading.Event) -> None:
        super().__init__(config)
        self._stop = stop

    async def on_tick(self, counter: int) -> bool:
        self.should_exit = self.should_exit or self._stop.is_set()
        return await super().on_tick(counter)


class WorkerPart:
    """The worker inside `up`. Until it has been ready once the service is not; later troubles of the log are told."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._was_ready = False

    def conditions(self) -> dict[str, str]:
        found = {f"worker_{name}".replace("worker_worker", "worker"): why for name, why in self._found.items()}
        self._was_ready = self._was_ready or not any(found.values())
        return dict.fromkeys(found, "") if self._was_ready else found

    def degraded(self) -> dict[str, str]:
        found = {"worker": "; ".join(sorted({why for why in self._found.values() if why}))} if self._was_ready else {}
        return {**found, **self._running.degraded()}

    @property
    def _found(self) -> dict[str, str]:
        return self._running.conditions()


def serve(*, with_worker: bool, feed: str | None = None, feed_rate: float = 1.0) -> None:
    """Runs the API, with or without a worker, until SIGTERM or Ctrl-C."""
    settings = read_settings()
    if feed is not None and not Path(feed).is_file():
        raise InvalidInput(f"--feed: there is no file {feed}")
    set_up_logging(settings)
    for name in unknown_variables(os.environ):
        log.warning("%s is not a setting: correct its name or remove it", name)
    with ExitStack() as leaving:
        listening = leaving.enter_context(closing(_listen(settings.api)))
        topics = topics_of(settings)
        if with_worker:
            leaving.enter_context(claimed(settings, topics))
        telemetry = Telemetry(annotators=settings.metrics.annotators)
        classifier = Classifier(model_folder(settings), threads=settings.model.threads)
        know_model(telemetry, classifier)
        supervisor = Supervisor()
        running = (
            Running(settings, topics, once=False, telemetry=telemetry, classifier=classifier) if with_worker else None
        )
        backend = _backend(settings, classifier, telemetry, supervisor, leaving=leaving, running=running)
        leaving.enter_context(draining(supervisor.stop))
        address = _start(settings, backend, supervisor, listening, running)
        if feed is not None:
            supervisor.start("feed", Feed(settings, feed, feed_rate).run)
        teller = Teller(backend, supervisor, address, running)
        supervisor.wait(teller.tick)
    say(f"labelwatch has stopped{': ' + running.summary() if running else ''}")


def _backend(
    settings: Settings,
    classifier: Classifier,
    telemetry: Telemetry,
    supervisor: Supervisor,
    *,
    leaving: ExitStack,
    running: Running | None,
) -> Backend:
    topics, api = topics_of(settings), settings.api
    queue = leaving.enter_context(closing(_queue(settings)))
    # One for each thread that reads or writes the log, so that none waits for another.
    own, mirrored, projected = (leaving.enter_context(closing(open_stream(settings, topics=topics))) for _ in range(3))
    batcher = Batcher(
        classifier,
        queue_sentences=api.queue_sentences,
        batch_tokens=api.batch_tokens,
        max_delay=api.max_delay_ms / 1000,
    )
    projector = Projector(projected, topics, queue)
    part = None if running is None else WorkerPart(running)

    def conditions() -> dict[str, str]:
        return joined({"model": batcher.trouble}, supervisor.conditions, part.conditions() if part else {})

    def degraded() -> dict[str, str]:
        return joined({"review": projector.trouble}, part.degraded() if part else {})

    mirror = Mirror(mirrored, topics, new_datasets(settings, classifier.folder))
    backend = Backend(
        settings=api,
        mirror=mirror,
        batcher=batcher,
        queue=queue,
        projector=projector,
        stream=GuardedLog(own, mirror),
        topics=topics,
        classifier=classifier,
        telemetry=telemetry,
        max_words=settings.worker.max_words,
        open_metrics=settings.metrics.open,
        conditions=conditions,
        degraded=degraded,
        draining=supervisor.stop,
    )
    leaving.callback(backend.writers.close)
    telemetry.watch(lambda: conditions_of(backend), lambda: degraded_of(backend))
    telemetry.watch_queue(lambda: batcher.waiting)
    telemetry.on_scrape(lambda: _tell_of_review(telemetry, queue))
    return backend


def _tell_of_review(telemetry: Telemetry, queue: Queue) -> None:
    states, verdicts = queue.counts_by_dataset(), queue.verdicts_by_dataset()
    for dataset in sorted({*states, *verdicts}):
        telemetry.review(dataset, states=states.get(dataset, {}), verdicts=verdicts.get(dataset, {}))
        found = queue.recall_estimate(dataset)
        telemetry.recall(dataset, estimate=found.recall, low=found.low, high=found.high)
    pairs = queue.precision()
    telemetry.precision(
        {(one.dataset, one.given, one.suggested, one.method): (one.right, one.decided) for one in pairs}
    )


def _start(
    settings: Settings, backend: Backend, supervisor: Supervisor, listening: socket.socket, running: Running | None
) -> str:
    """Starts the threads; gives the address that people can use."""
    app = create_app(backend)
    config = uvicorn.Config(
        app,
        http=Connection,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    ended = threading.Event()  # of the server: those who serve it go on until then

    def answer(stop: threading.Event) -> None:
        try:
            Server(config, stop).run(sockets=[listening])
        finally:
            ended.set()

    supervisor.start("model", lambda _: backend.batcher.run(ended))
    supervisor.start("mirror", lambda _: backend.mirror.run(ended))
    supervisor.start("review", lambda _: backend.projector.run(ended))
    if running is not None:
        supervisor.start("worker", running.run)
    supervisor.start("api", answer)
    return _address(settings.api, listening)


class Teller:
    """Says once that the service is ready, with the addresses."""

    def __init__(self, backend: Backend, supervisor: Supervisor, address: str, running: Running | None) -> None:
        self._backend = backend
        self._supervisor = supervisor
        self._address = address
        self._running = running
        self._told = False

    def tick(self) -> None:
        if not self._told and readiness_of(self._backend).ready:
            self._told = True
            base = self._address
            typer.echo(
                f"labelwatch is ready: {base}/ (API {base}/docs, metrics {base}/metrics, health {base}/readyz); "
                "Ctrl-C stops it"
            )
        if self._running is not None:
            self._running.tell(self._supervisor.stop)


def _queue(settings: Settings) -> Queue:
    path: Path = settings.api.queue_path or settings.log.path.with_name(QUEUE_NAME)
    try:
        return Queue(path)
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
        log.warning("no API keys are set: %s may read and write everything (see `labelwatch key new`)", reach)
    return made


def _address(api: ApiSettings, listening: socket.socket) -> str:
    host = "127.0.0.1" if api.host in EVERYWHERE else api.host
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"
