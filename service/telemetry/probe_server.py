"""/metrics, /healthz and /readyz on a port and in threads of their own."""

from __future__ import annotations

import json
import logging
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from service.errors import SettingsError
from service.telemetry.readiness import Readiness

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from service.telemetry.readiness import Conditions
    from service.telemetry.recorder import Telemetry

logger = logging.getLogger(__name__)

READ_TIMEOUT_S = 10.0  # how long a silent client may hold a thread
STOP_CHECK_INTERVAL_S = 0.2


class ProbeServer:
    """Listens as soon as it is created; `run` answers until `stop` is set."""

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        host: str,
        port: int,
        setting: str = "LABELWATCH_WORKER_METRICS_PORT",
        conditions: Conditions,
        degraded: Conditions = dict,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """`setting`: the one of the port, for errors. `conditions`: by name why the process is not ready (empty: the condition holds); `degraded`: what does not work."""

        class Handler(_ProbeHandler):
            responder = _ProbeResponder(telemetry, conditions, degraded, alive)

        try:
            self._server = _ProbeHttpServer((host, port), Handler)
        except OSError as error:
            raise SettingsError(f"{setting}: can't listen on {host}:{port}: {error.strerror or error}") from error
        self.host, self.port = host, int(self._server.server_address[1])

    def run(self, stop: threading.Event) -> None:
        with self._server:
            while not stop.is_set():
                self._server.handle_request()  # waits for a request as long as the server's `timeout`


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
            readiness = Readiness.evaluate(self._conditions(), self._degraded())
            return _to_status(readiness.ready), *_to_json(readiness.model_dump())
        return HTTPStatus.NOT_FOUND, *_to_json({"status": "no such path: use /metrics, /healthz or /readyz"})


def _to_status(ok: bool) -> HTTPStatus:
    return HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE


def _to_json(value: object) -> tuple[bytes, str]:
    return json.dumps(value, ensure_ascii=False).encode(), "application/json"


class _ProbeHandler(BaseHTTPRequestHandler):
    responder: _ProbeResponder
    server_version = "labelwatch"
    sys_version = ""
    timeout = READ_TIMEOUT_S

    def do_GET(self) -> None:
        status, body, media_type = self.responder.respond(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", media_type)
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

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class passes them
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # the client has disconnected
            logger.error("can't answer a probe", exc_info=error)
