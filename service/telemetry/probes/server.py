"""/metrics, /healthz and /readyz on a port and in a process of their own, which this one keeps informed."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from service.errors import SettingsError
from service.telemetry.probes import process as probe_process
from service.telemetry.readiness import Readiness

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.telemetry.metrics.recorder import Telemetry
    from service.telemetry.readiness import Conditions

logger = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_S = 0.5
READINESS_INTERVAL_S = 1.0
SEND_TIMEOUT_S = 5.0
MAX_WAITING_CONNECTIONS = 128


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
        self._reporter = _Reporter(telemetry, conditions, degraded, alive)
        try:
            self._listener = socket.create_server((host, port), backlog=MAX_WAITING_CONNECTIONS)
        except OSError as error:
            raise SettingsError(f"{setting}: can't listen on {host}:{port}: {error.strerror or error}") from error
        self.host, self.port = host, int(self._listener.getsockname()[1])

    def run(self, stop: threading.Event) -> None:
        """Sends heartbeats, and starts the process anew if it ends."""
        with self._listener:
            while not stop.is_set():
                responder = _Responder(self._listener, self._reporter)
                try:
                    responder.run(stop)
                finally:
                    responder.close()
                if not stop.wait(HEARTBEAT_INTERVAL_S):
                    logger.warning("the process for probes has ended; it is started anew")


class _Reporter:
    """What this process says about itself."""

    def __init__(
        self, telemetry: Telemetry, conditions: Conditions, degraded: Conditions, alive: Callable[[], bool]
    ) -> None:
        self._telemetry = telemetry
        self._conditions = conditions
        self._degraded = degraded
        self._alive = alive

    def report_health(self) -> dict[str, Any]:
        alive = self._alive()
        return _build_beat("/healthz", alive, {"status": "ok" if alive else "a thread has died"})

    def report_readiness(self) -> dict[str, Any]:
        try:
            readiness = Readiness.evaluate(self._conditions(), self._degraded())
        except Exception as error:  # whatever the error, the next evaluation may succeed
            logger.exception("can't evaluate whether the service is ready")
            reason = f"can't be evaluated: {type(error).__name__}"
            readiness = Readiness.evaluate({"readiness": reason}, {})
        return _build_beat("/readyz", readiness.ready, readiness.model_dump())

    def render_metrics(self, number: int) -> dict[str, Any]:
        try:
            content, media_type = self._telemetry.render_exposition()
        except Exception as error:  # the next scrape may succeed
            logger.exception("can't render the metrics")
            body = f"the metrics can't be rendered ({type(error).__name__}): the log of the service has more\n"
            return {"scrape": number, "status": HTTPStatus.INTERNAL_SERVER_ERROR, "type": "text/plain", "body": body}
        return {"scrape": number, "status": HTTPStatus.OK, "type": media_type, "body": content.decode()}


def _build_beat(path: str, ok: bool, body: object) -> dict[str, Any]:
    status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
    return {
        "path": path,
        "at": time.monotonic(),
        "status": status,
        "body": json.dumps(body, ensure_ascii=False),
    }


class _Responder:
    """The process that answers, with the threads that keep it informed.

    Heartbeats have a thread of their own: readiness and metrics may wait for locks.
    """

    def __init__(self, listener: socket.socket, reporter: _Reporter) -> None:
        self._reporter = reporter
        self._ended = threading.Event()
        self._send_lock = threading.Lock()
        self._channel, other = socket.socketpair()
        self._channel.settimeout(SEND_TIMEOUT_S)
        with other:
            files = (listener.fileno(), other.fileno())
            command = [sys.executable, "-I", "-S", probe_process.__file__, *map(str, files), str(os.getpid())]
            # A session of its own: Ctrl-C in a terminal is for the service, which then ends this process.
            self._process = subprocess.Popen(
                command, pass_fds=files, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
            )

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set or the process ends."""
        self._send(self._reporter.report_health())  # the process answers from its first message on
        for target in (self._send_readiness, self._answer_scrapes):
            threading.Thread(target=target, name="probe-reports", daemon=True).start()
        while not self._ended.is_set() and self._process.poll() is None:
            if stop.wait(HEARTBEAT_INTERVAL_S):
                return
            self._send(self._reporter.report_health())

    def close(self) -> None:
        self._ended.set()
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def _send_readiness(self) -> None:
        while not self._ended.is_set():
            self._send(self._reporter.report_readiness())
            self._ended.wait(READINESS_INTERVAL_S)

    def _answer_scrapes(self) -> None:
        pending = b""
        while not self._ended.is_set():
            try:
                data = self._channel.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                self._ended.set()
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._send(self._reporter.render_metrics(int(line)))

    def _send(self, message: dict[str, Any]) -> None:
        """A process that does not read is ended: what it would answer is outdated."""
        try:
            with self._send_lock:
                self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._ended.set()
