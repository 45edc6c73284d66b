"""The HTTP server under a supervisor: how uvicorn is set up, started and stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import uvicorn

from service.api.routes.score import get_score_route
from service.api.scoring.direct import DirectScoring
from service.runtime.lifecycle.process import raise_file_limit
from service.runtime.scoring.dispatcher import ConnectionDispatcher

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Sequence

    from fastapi import FastAPI

    from service.api.http.connections.connection import ConnectionLimits, LimitedHttpProtocol
    from service.runtime.scoring.process import ScoringProcess

DRAIN_TIMEOUT_S: Final = 20
RESERVED_FILES: Final = 256  # file descriptors for everything but connections
MIN_CONNECTIONS: Final = 64
KEEP_ALIVE_TIMEOUT_S: Final = (
    75  # longer than load balancers keep an idle connection, so that they are the ones to close it
)


def get_max_connections() -> int:
    """As many connections as the process has file descriptors for."""
    return max(MIN_CONNECTIONS, raise_file_limit() - RESERVED_FILES)


def build_server_config(app: FastAPI, protocol: type[LimitedHttpProtocol]) -> uvicorn.Config:
    return uvicorn.Config(
        DirectScoring(app, get_score_route()),
        http=protocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
        timeout_graceful_shutdown=DRAIN_TIMEOUT_S,
    )


class SupervisedServer(uvicorn.Server):
    """Ends when the supervisor stops it. It handles no signals."""

    def __init__(self, config: uvicorn.Config, stop: threading.Event) -> None:
        super().__init__(config)
        self._stop = stop

    async def on_tick(self, counter: int) -> bool:
        self.should_exit = self.should_exit or self._stop.is_set()
        return await super().on_tick(counter)

    def create_protocol(self) -> LimitedHttpProtocol:
        """The protocol of a connection that the server has not accepted itself."""
        protocol: LimitedHttpProtocol = self.config.http_protocol_class(  # type: ignore[call-arg, assignment]  # as uvicorn calls it
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


class DispatchingServer(SupervisedServer):
    """Shares the connections with scoring processes."""

    def __init__(
        self,
        config: uvicorn.Config,
        stop: threading.Event,
        processes: Sequence[ScoringProcess],
        limits: ConnectionLimits,
    ) -> None:
        super().__init__(config, stop)
        self._processes = processes
        self._limits = limits
        self._dispatchers: list[ConnectionDispatcher] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = []
        self._dispatchers = [
            ConnectionDispatcher(
                listening,
                self._processes,
                self._limits,
                self.create_protocol,
                count_own=lambda: len(self.server_state.connections),
            )
            for listening in sockets or ()
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for dispatcher in self._dispatchers:
            dispatcher.close()
        await super().shutdown(sockets)
