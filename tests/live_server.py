"""An app behind a real server on a free port, for what only bare sockets can show."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from tests.api_desk import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

PATIENCE = 30.0


@contextmanager
def served(app: FastAPI) -> Iterator[int]:
    """The port it listens on."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
