"""A scoring process: `python -m service.runtime.scoring.child`. The first process of the API starts it.

It reads the settings from the environment, as its parent did, and follows dataset settings, statistics and keys as any
instance of the API does. It finishes its requests and ends when its channel ends: that happens when the parent stops or
ends, however it ends.

    api    ─ serves the connections that come over the channel  ┐
    model  ─ runs the model for all requests                     │ end after the server
    mirror ─ follows settings and statistics                     │
    keys   ─ follows the keys of the API                         ┘
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import threading
import time
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Final

from service.access.key_view import KeyView
from service.api.app import create_scoring_app
from service.api.backend import ScoringBackend
from service.api.http.connections.scoring_connection import ScoringHttpProtocol
from service.api.routes.health import get_scoring_conditions
from service.errors import LabelwatchError
from service.runtime.api.backend import build_batcher, divide_limits
from service.runtime.api.http_server import SupervisedServer, build_server_config, get_max_connections
from service.runtime.api.process import set_up_api_process, start_scoring_threads, stop_in_time
from service.runtime.datasets.settings import build_datasets
from service.runtime.lifecycle.process import open_tracing
from service.runtime.lifecycle.supervisor import Supervisor
from service.runtime.load_model import build_model_pool
from service.runtime.open_log import build_topics, open_log
from service.runtime.scoring.channel import Channel, ChannelClosedError, Kind
from service.runtime.scoring.dispatcher import serve_connection
from service.runtime.scoring.heartbeat import BEAT_INTERVAL_S
from service.settings import read_settings
from service.stream.state.view import StateView
from service.telemetry import Telemetry
from service.telemetry.readiness import merge_conditions

if TYPE_CHECKING:
    import uvicorn

    from service.runtime.scoring.channel import ChannelMessage
    from service.settings import Settings

MAX_STANDSTILL_S: Final = 10.0


class LoopWatch:
    """Notices that the event loop stands still. The loop beats, any thread may ask."""

    def __init__(self) -> None:
        self._beat_at: float | None = None  # none: it has not started yet

    def beat(self) -> None:
        self._beat_at = time.monotonic()

    @property
    def standstill(self) -> str:
        """Why it can't answer; empty if it can."""
        seconds = 0.0 if self._beat_at is None else time.monotonic() - self._beat_at
        return f"the event loop has not run for more than {MAX_STANDSTILL_S:g} s" if seconds > MAX_STANDSTILL_S else ""


class ScoringServer(SupervisedServer):
    """Serves the connections that come over the channel."""

    def __init__(
        self, config: uvicorn.Config, stop: threading.Event, channel: Channel, telemetry: Telemetry, watch: LoopWatch
    ) -> None:
        super().__init__(config, stop)
        self._channel = channel
        self._telemetry = telemetry
        self._watch = watch
        self._beat_at = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - there are none
        self.servers = []
        asyncio.get_running_loop().add_reader(self._channel, self._receive)
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        self._watch.beat()
        now = time.monotonic()
        if now - self._beat_at >= BEAT_INTERVAL_S:  # not by the number of ticks: under load each takes long
            self._beat_at = now
            with suppress(BlockingIOError, ChannelClosedError):  # the parent does not receive: it can't miss a beat
                self._channel.send(Kind.ALIVE, wait=False)
        return await super().on_tick(counter)

    def _receive(self) -> None:
        try:
            for message in self._channel.receive():
                self._handle(message)
        except ChannelClosedError:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._stop.set()

    def _handle(self, message: ChannelMessage) -> None:
        if message.kind is Kind.METRICS:
            with suppress(ChannelClosedError):
                self._channel.send(Kind.METRICS, data=self._telemetry.dump_metrics())
        elif message.descriptor is not None:
            task = asyncio.get_running_loop().create_task(self._serve_client(message.number, message.descriptor))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve_client(self, number: int, descriptor: int) -> None:
        def create_protocol() -> ScoringHttpProtocol:
            protocol = self.create_protocol()
            if not isinstance(protocol, ScoringHttpProtocol):
                raise TypeError(f"{type(protocol).__name__} can't hand connections over")
            protocol.on_end = lambda: self._send(Kind.CLOSED, number)
            protocol.hand_over = lambda handed, received: self._send(Kind.HANDOVER, number, received, handed)
            return protocol

        if not await serve_connection(socket.socket(fileno=descriptor), create_protocol):
            self._send(Kind.CLOSED, number)

    def _send(self, kind: Kind, number: int, data: bytes = b"", descriptor: int | None = None) -> None:
        with suppress(ChannelClosedError):  # the parent has ended: so does this process
            self._channel.send(kind, number, data, descriptor=descriptor)


class StatusReport:
    """Tells the parent why the process is not ready, whenever that changes."""

    def __init__(self, channel: Channel, backend: ScoringBackend, supervisor: Supervisor, watch: LoopWatch) -> None:
        self._channel = channel
        self._backend = backend
        self._supervisor = supervisor
        self._watch = watch
        self._sent: str | None = None

    def tick(self) -> None:
        conditions = merge_conditions(
            get_scoring_conditions(self._backend),
            {"model": self._backend.batcher.unavailable_reason, "api": self._watch.standstill},
            self._supervisor.conditions,
        )
        status = "; ".join(f"{name}: {reason}" for name, reason in conditions.items() if reason)
        if status != self._sent:
            with suppress(ChannelClosedError):
                self._channel.send(Kind.STATUS, data=status.encode())
            self._sent = status


def run(settings: Settings, channel: Channel) -> None:
    """Serves until the channel ends, or until SIGTERM."""
    with ExitStack() as exit_stack:
        tracing = exit_stack.enter_context(open_tracing(settings))
        telemetry, supervisor = Telemetry(annotators=settings.metrics.annotators), Supervisor()
        models = build_model_pool(settings, telemetry=telemetry)
        topics, api = build_topics(settings), divide_limits(settings.api)
        state_log, key_log = (exit_stack.enter_context(closing(open_log(settings))) for _ in range(2))
        backend = ScoringBackend(
            settings=api,
            state_view=StateView(state_log, topics, build_datasets(settings, models)),
            key_view=KeyView(key_log, topics.keys),
            batcher=build_batcher(api, models),
            models=models,
            telemetry=telemetry,
            tracing=tracing,
            max_words=settings.worker.max_words,
            open_metrics=settings.metrics.open,
            draining=supervisor.stop,
        )
        telemetry.watch_queue(lambda: backend.batcher.waiting)
        exit_stack.enter_context(stop_in_time(supervisor))
        get_max_connections()  # raises the limit of file descriptors
        config = build_server_config(create_scoring_app(backend), ScoringHttpProtocol)
        server_ended, watch = threading.Event(), LoopWatch()

        def serve_requests(stop: threading.Event) -> None:
            try:
                ScoringServer(config, stop, channel, telemetry, watch).run()
            finally:
                server_ended.set()

        start_scoring_threads(supervisor, backend, server_ended)
        supervisor.start("api", serve_requests)
        supervisor.wait(StatusReport(channel, backend, supervisor, watch).tick)


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer POST /v1/score beside the first process of the API.")
    parser.add_argument("channel", type=int, help="file descriptor of the channel")
    channel = Channel(socket.socket(fileno=parser.parse_args().channel))
    settings = read_settings()
    set_up_api_process(settings)
    try:
        run(settings, channel)
    except LabelwatchError as error:
        sys.exit(f"labelwatch: the scoring process {os.getpid()} has failed: {error}")


if __name__ == "__main__":
    main()
