"""What `labelwatch api` and `labelwatch up` share: the API with its threads, under one supervisor.

    api       ─ the HTTP server; on SIGTERM it accepts nothing new, finishes the open requests and ends first
    model     ─ runs the model for all requests          ┐
    mirror    ─ follows settings and statistics          ├ end after the server
    trainings ─ follows the trainings of models          │
    keys      ─ follows the keys of the API              │
    audit     ─ follows the audit trail                  │
    review    ─ builds the queue                         ┘
    webhooks  ─ delivers notifications; without LABELWATCH_WEBHOOKS_KEY it only warns if somebody expects them
    worker    ─ only with `up`; ends after the current batch
    trainer   ─ only with `up`; ends at once, and a running training with it
    scoring-1 ─ only with LABELWATCH_API_PROCESSES; watches a scoring process, which ends after its open requests
    probes    ─ only with LABELWATCH_API_METRICS_PORT; heartbeats for the process that answers probes

The first thread that ends without being stopped makes the service not ready and ends the process. What still runs 45 s
after SIGTERM is ended with the process: everything durable is in a topic, in transactions.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from service.api.app import create_app
from service.api.http.connections.connection import ConnectionLimits, build_protocol
from service.api.routes.health import get_conditions, get_degraded, get_readiness
from service.errors import SettingsError
from service.runtime.api.backend import build_backend
from service.runtime.api.http_server import (
    DispatchingServer,
    SupervisedServer,
    build_server_config,
    get_max_connections,
)
from service.runtime.api.keyless import prepare_keyless_start
from service.runtime.api.process import set_up_api_process, start_scoring_threads, stop_in_time
from service.runtime.lifecycle.probes import start_probes
from service.runtime.lifecycle.process import open_tracing
from service.runtime.lifecycle.supervisor import Supervisor
from service.runtime.load_model import build_model_pool
from service.runtime.open_log import build_topics, hold_state_lock, warn_of_missing_log
from service.runtime.scoring.process import ScoringProcess
from service.runtime.training.run import run_trainer_thread
from service.runtime.webhooks import run_webhooks
from service.runtime.worker import WorkerRunner
from service.settings import find_unknown_variables
from service.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.api.backend import Backend
    from service.runtime.sample_feed import FileFeed
    from service.settings import ApiSettings, Settings

logger = logging.getLogger(__name__)

WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


def serve(
    settings: Settings, *, with_worker: bool, announce: Callable[[str], None], feed: FileFeed | None = None
) -> str:
    """Runs the API, with or without a worker, until SIGTERM or Ctrl-C. Returns a summary.

    `announce` gets one line when the service is ready. `feed` runs beside it.
    """
    set_up_api_process(settings)
    for name in find_unknown_variables(os.environ):
        logger.warning("%s is not a setting: correct its name or remove it", name)
    warn_of_missing_log(settings)
    with ExitStack() as exit_stack:
        tracing = exit_stack.enter_context(open_tracing(settings))
        server_socket = exit_stack.enter_context(closing(_listen(settings.api)))
        topics = build_topics(settings)
        prepare_keyless_start(settings, topics, server_socket.getsockname()[0], announce)
        if with_worker:
            exit_stack.enter_context(hold_state_lock(settings, topics))
        # They load the model while this process does.
        processes = [exit_stack.enter_context(ScoringProcess(number)) for number in range(1, settings.api.processes)]
        telemetry = Telemetry(annotators=settings.metrics.annotators)
        models = build_model_pool(settings, telemetry=telemetry)
        models.get_classifier(models.default)
        supervisor = Supervisor()
        runner = (
            WorkerRunner(settings, topics, once=False, telemetry=telemetry, models=models, tracing=tracing)
            if with_worker
            else None
        )
        backend = build_backend(
            settings,
            models,
            telemetry,
            supervisor,
            exit_stack=exit_stack,
            runner=runner,
            tracing=tracing,
            processes=processes,
        )
        exit_stack.enter_context(stop_in_time(supervisor))
        address = _start_threads(settings, backend, supervisor, server_socket, runner=runner, processes=processes)
        if feed is not None:
            supervisor.start("feed", feed.run)
        notice = ReadyNotice(backend, address, announce)

        def tick() -> None:
            notice.tick()
            if runner is not None:
                runner.log_progress(supervisor.stop)

        supervisor.wait(tick)
    return f"labelwatch has stopped{': ' + runner.summarize() if runner else ''}"


def _start_threads(
    settings: Settings,
    backend: Backend,
    supervisor: Supervisor,
    server_socket: socket.socket,
    *,
    runner: WorkerRunner | None,
    processes: Sequence[ScoringProcess],
) -> str:
    """Starts the threads and returns the address of the API."""
    limits = ConnectionLimits(max_total=get_max_connections(), max_per_address=settings.api.max_connections_per_address)
    config = build_server_config(create_app(backend), build_protocol(limits))
    server_ended = threading.Event()  # the threads that the server needs run until then

    def serve_requests(stop: threading.Event) -> None:
        try:
            server = DispatchingServer(config, stop, processes, limits) if processes else SupervisedServer(config, stop)
            server.run(sockets=[server_socket])
        finally:
            server_ended.set()
            for process in processes:  # nobody reads its messages any more: it must not wait for that
                process.channel.stop_receiving()

    start_scoring_threads(supervisor, backend, server_ended)
    supervisor.start("trainings", lambda _: backend.training_view.run(server_ended))
    supervisor.start("audit", lambda _: backend.audit_view.run(server_ended))
    supervisor.start("review", lambda _: backend.projector.run(server_ended))
    supervisor.start("webhooks", lambda stop: run_webhooks(settings, backend, stop))
    if runner is not None:
        supervisor.start("worker", runner.run)
        supervisor.start(
            "trainer",
            lambda stop: run_trainer_thread(
                settings,
                stop,
                state_view=backend.state_view,
                training_view=backend.training_view,
                telemetry=backend.telemetry,
            ),
        )
    if settings.api.metrics_port is not None:
        start_probes(
            supervisor,
            backend.telemetry,
            host=settings.api.metrics_host,
            port=settings.api.metrics_port,
            setting="LABELWATCH_API_METRICS_PORT",
            conditions=lambda: get_conditions(backend),
            degraded=lambda: get_degraded(backend),
        )
    for process in processes:
        supervisor.start(process.name, process.run)
    supervisor.start("api", serve_requests)
    return _format_address(settings.api, server_socket)


class ReadyNotice:
    """Announces once that the service is ready, with its addresses."""

    def __init__(self, backend: Backend, address: str, announce: Callable[[str], None]) -> None:
        self._backend = backend
        self._address = address
        self._announce = announce
        self._announced = False

    def tick(self) -> None:
        if not self._announced and get_readiness(self._backend).ready:
            self._announced = True
            base = self._address
            self._announce(
                f"labelwatch is ready: {base}/ (API {base}/docs, metrics {base}/metrics, health {base}/readyz); "
                "Ctrl-C stops it"
            )


def _listen(api: ApiSettings) -> socket.socket:
    """Opens the socket before anything else starts, so that a port in use is reported at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            api.host, api.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        server_socket = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"LABELWATCH_API_HOST: can't listen on {api.host}: {error.strerror or error}") from error
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind(address)
        server_socket.listen(2048)
    except OSError as error:
        server_socket.close()
        raise SettingsError(
            f"LABELWATCH_API_PORT: can't listen on {api.host}:{api.port}: {error.strerror or error}; set it to another "
            "port, or 0 for any free one"
        ) from error
    return server_socket


def _format_address(api: ApiSettings, server_socket: socket.socket) -> str:
    host = "127.0.0.1" if api.host in WILDCARD_HOSTS else api.host
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server_socket.getsockname()[1]}"
