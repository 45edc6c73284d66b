"""An app behind a real server on a free port, for what only bare sockets can show."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from service.api.http.connections.connection import ConnectionLimits, LimitedHttpProtocol, build_protocol
from service.api.routes.score import get_score_route
from service.api.scoring.direct import DirectScoring
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

STOP_TIMEOUT_S = 30.0


@contextmanager
def serve_app(app: FastAPI, *, limits: ConnectionLimits | None = None, **options: Any) -> Iterator[int]:
    """The port it listens on. `options` are the server's."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        DirectScoring(app, get_score_route()),
        http=LimitedHttpProtocol if limits is None else build_protocol(limits),
        lifespan="off",
        log_config=None,
        access_log=False,
        **options,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(STOP_TIMEOUT_S)
        listening.close()
