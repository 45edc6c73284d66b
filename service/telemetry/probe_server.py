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

logger = logging.getLogger(__name__)

READ_TIMEOUT_S = 10.0  # a client that says nothing holds a thread no longer than this
STOP_CHECK_INTERVAL_S = 0.2


class ProbeServer:
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

        class Handler(_ProbeHandler):
            answers = _ProbeResponder(telemetry, conditions, degraded, alive)

        try:
            self._server = _ProbeHttpServer((host, port), Handler)
        except OSError as error:
            raise SettingsError(
                f"LABELWATCH_WORKER_METRICS_PORT: can't listen on {host}:{port}: {error.strerror or error}"
            ) from error
        self.host, self.port = host, int(self._server.server_address[1])

    def run(self, stop: threading.Event) -> None:
        with self._server:
            while not stop.is_set():
                self._server.handle_request()  # waits for one as long as the server's `timeout`


class _ProbeResponder:
    def __init__(
        self, telemetry: Telemetry, conditions: Conditions, degraded: Conditions, alive: Callable[[], bool]
    ) -> None:
        self._telemetry = telemetry
        self._conditions = conditions
        self._degraded = degraded
        self._alive = alive

    def respond(self, path: str) -> tuple[HTTPStatus, bytes, str]:
        if path == "/metrics":
            return HTTPStatus.OK, *self._telemetry.render_exposition()
        if path == "/healthz":
            alive = self._alive()
            return _to_status(alive), *_to_json({"status": "ok" if alive else "a thread has died"})
        if path == "/readyz":
            conditions = self._conditions()
            ready = not any(conditions.values())
            degraded = {name: why for name, why in self._degraded().items() if why}
            return _to_status(ready), *_to_json({"ready": ready, "conditions": dict(conditions), "degraded": degraded})
        return HTTPStatus.NOT_FOUND, *_to_json({"status": "no such path: use /metrics, /healthz or /readyz"})


def _to_status(ok: bool) -> HTTPStatus:
    return HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE


def _to_json(value: object) -> tuple[bytes, str]:
    return json.dumps(value, ensure_ascii=False).encode(), "application/json"


class _ProbeHandler(BaseHTTPRequestHandler):
    answers: _ProbeResponder
    server_version = "labelwatch"
    sys_version = ""
    timeout = READ_TIMEOUT_S

    def do_GET(self) -> None:
        status, body, kind = self.answers.respond(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - as the base class calls it

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class calls it
        logger.debug(format, *args)


class _ProbeHttpServer(ThreadingHTTPServer):
    timeout = STOP_CHECK_INTERVAL_S
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - as it is called
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # who asked has gone
            logger.error("a probe could not be answered", exc_info=error)
