"""Tracing is off by default and then imports nothing; when on, spans go to the endpoint of the OTEL_* variables."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.errors import SettingsError
from service.runtime.lifecycle.process import open_tracing
from service.settings import read_settings

IMPORT_ALL = """
import sys
import service.api.app, service.runtime.api.server, service.runtime.worker
from service.runtime.lifecycle.process import open_tracing
from service.settings import read_settings
with open_tracing(read_settings()) as tracing:
    assert (tracing is None) == (sys.argv[1] == "off"), tracing
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))))
"""


def list_imported(expected: str) -> str:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL, expected], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list_imported("off") == "[]"
    monkeypatch.setenv("LABELWATCH_TRACING_ENABLED", "true")
    assert "opentelemetry.sdk.trace" in list_imported("on")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELWATCH_TRACING_ENABLED", "true")
    monkeypatch.delitem(sys.modules, "service.telemetry.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with (
        pytest.raises(SettingsError, match=r"LABELWATCH_TRACING_ENABLED: .*labelwatch\[otel\]"),
        open_tracing(read_settings()),
    ):
        pass


def test_spans_reach_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("LABELWATCH_TRACING_ENABLED", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        try:
            with open_tracing(read_settings()) as tracing:
                assert tracing is not None
                tracing.start_request([], "GET", "r-1").end(route="/v1/me", status=200)
        finally:
            server.shutdown()
            thread.join()
    ((path, body),) = received
    (resource_spans,) = ExportTraceServiceRequest.FromString(body).resource_spans
    attributes = {pair.key: pair.value.string_value for pair in resource_spans.resource.attributes}
    assert (path, resource_spans.scope_spans[0].spans[0].name) == ("/v1/traces", "GET /v1/me")
    assert (attributes["service.name"], attributes["deployment.environment.name"]) == ("labelwatch", "test")
