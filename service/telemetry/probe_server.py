"""A worker's own port: /metrics, /healthz and /readyz, for processes that have no API beside them."""

from __future__ import annotations

import json
import logging
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from service.errors import SettingsError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from service.telemetry.recorder import Telemetry

    Conditions = Callable[[], Mapping[str, str]]

log = logging.getLogger(__name__)

READ_TIMEOUT = 10.0  # a client that says nothing holds a thread no longer than this
TICK = 0.2


class Probes:
    """Listens from the moment it is made; `run` answers until it is asked to stop."""

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        host: str,
        port: int,
        conditions: Conditions,
        degraded: Conditions = dict,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """`conditions`: why the process is not ready, by name (empty: it holds); `degraded`: what it does without."""

        class Handler(_Handler):
            answers = _Answers(telemetry, conditions, degraded, alive)

        try:
            self._server = _Server((host, port), Handler)
        except OSError as error:
            raise SettingsError(
                f"LABELWATCH_WORKER_METRICS_PORT: can't listen on {host}:{port}: {error.strerror or error}"
            ) from error
        self.host, self.port = host, int(self._server.server_address[1])

    def run(self, stop: threading.Event) -> None:
        with self._server:
            while not stop.is_set():
                self._server.handle_request()  # waits for one as long as the server's `timeout`


class _Answers:
    def __init__(
        self, telemetry: Telemetry, conditions: Conditions, degraded: Conditions, alive: Callable[[], bool]
    ) -> None:
        self._telemetry = telemetry
        self._conditions = conditions
        self._degraded = degraded
        self._alive = alive

    def to(self, path: str) -> tuple[HTTPStatus, bytes, str]:
        if path == "/metrics":
            return HTTPStatus.OK, *self._telemetry.exposition()
        if path == "/healthz":
            alive = self._alive()
            return _status(alive), *_json({"status": "ok" if alive else "a thread has died"})
        if path == "/readyz":
            conditions = self._conditions()
            ready = not any(conditions.values())
            degraded = {name: why for name, why in self._degraded().items() if why}
            return _status(ready), *_json({"ready": ready, "conditions": dict(conditions), "degraded": degraded})
        return HTTPStatus.NOT_FOUND, *_json({"status": "no such path: use /metrics, /healthz or /readyz"})


def _status(good: bool) -> HTTPStatus:
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE


def _json(value: object) -> tuple[bytes, str]:
    return json.dumps(value, ensure_ascii=False).encode(), "application/json"


class _Handler(BaseHTTPRequestHandler):
    answers: _Answers
    server_version = "labelwatch"
    sys_version = ""
    timeout = READ_TIMEOUT

    def do_GET(self) -> None:
        status, body, kind = self.answers.to(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - as the base class calls it

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class calls it
        log.debug(format, *args)


class _Server(ThreadingHTTPServer):
    timeout = TICK
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - as it is called
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # who asked has gone
            log.error("a probe could not be answered", exc_info=error)
