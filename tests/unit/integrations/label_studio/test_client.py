"""The client beside servers that are not Label Studio, or do not mean well."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from service.errors import SettingsError, StreamError
from service.integrations.label_studio import client as client_module
from service.integrations.label_studio.client import LabelStudioClient

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "a-secret-token"


@contextmanager
def serve(status: int, body: bytes, *, length: int | None = None) -> Iterator[str]:
    """A server with this answer. With a `length` above that of the body, the rest is never sent."""
    finished = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = body.replace(b"TOKEN", (self.headers["Authorization"] or "").encode())
            self.send_response(status)
            self.send_header("Content-Length", str(length or len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            if length is not None:
                finished.wait()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class calls it
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        finished.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [403, 500])
def test_a_token_that_the_server_repeats_is_not_shown(status: int) -> None:
    with serve(status, b"no such user: TOKEN") as url, pytest.raises((SettingsError, StreamError)) as caught:
        LabelStudioClient(url, TOKEN).get_project(1)
    assert "****" in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_an_answer_that_is_too_large_is_not_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_RESPONSE_BYTES", 1_000)
    with serve(200, b" " * 100_000) as url, pytest.raises(StreamError, match="more than 1,000 bytes"):
        LabelStudioClient(url, TOKEN).get_project(1)


def test_an_answer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_RESPONSE_S", -1.0)
    with serve(200, b"{", length=2) as url, pytest.raises(StreamError, match="has not sent its answer"):
        LabelStudioClient(url, TOKEN).get_project(1)


@pytest.mark.parametrize("url", ["http://studio.example/\nHost: other", "http://studio.example\r", "http://a b"])
def test_an_address_with_white_space_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"--url: .* has white space in it"):
        LabelStudioClient(url, TOKEN)
