"""A client that is still sending when it is answered reads the answer, and holds the connection no longer than allowed."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import socket
import urllib.error
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import hash_key
from service.api.http.connections import lingering_transport
from service.api.http.connections.connection import MAX_HEAD_BYTES, ConnectionLimits
from tests.support import live_server
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

PATIENCE = 30.0
MEGABYTE = 1_000_000
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v1/sentences HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n"
TRIES = 5  # whether the connection is reset before the answer is read is a race


def post(port: int, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.request("POST", "/v1/sentences", body, {**JSON, **headers})
        response = client.getresponse()
        return response.status, json.loads(response.read())


def is_closed(client: socket.socket, sent: bytes) -> bool:
    """Whether the server does not accept what the client sends any more."""
    try:
        client.sendall(sent)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


@pytest.mark.parametrize("size", [17 * MEGABYTE, 60 * MEGABYTE])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_sends_too_much_reads_why_it_is_refused(harness: ApiHarness, size: int, loop: str) -> None:
    with live_server.serve_app(harness.app, loop=loop) as port:
        for _ in range(TRIES):
            status, problem = post(port, b" " * size)
            assert (status, "LABELWATCH_API_MAX_BODY_BYTES" in problem["detail"]) == (413, True)


def test_a_body_without_a_declared_size_is_refused_too(harness: ApiHarness) -> None:
    with live_server.serve_app(harness.app) as port:
        for _ in range(TRIES):
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
                parts = (b" " * MEGABYTE for _ in range(40))
                client.request("POST", "/v1/sentences", parts, JSON, encode_chunked=True)
                assert client.getresponse().status == 413


def test_a_client_that_closes_after_each_request_reads_why_too(harness: ApiHarness) -> None:
    """As urllib does: it sends `Connection: close`."""
    harness.serve_with_limits(keys=f"anna:admin:{hash_key('k' * 40)}")
    with live_server.serve_app(harness.app) as port:
        for key, expected in ((None, 401), ("k" * 40, 413)):
            headers = JSON if key is None else {**JSON, "Authorization": f"Bearer {key}"}
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/sentences", b" " * (20 * MEGABYTE), headers)
            for _ in range(TRIES):
                with pytest.raises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(request, timeout=PATIENCE)  # noqa: S310 - as above
                with caught.value as answer:
                    assert answer.code == expected


def test_a_head_that_is_too_large_is_refused_by_name(harness: ApiHarness) -> None:
    with live_server.serve_app(harness.app) as port:
        for _ in range(TRIES):
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
                client.request("GET", "/healthz", headers={"X-Long": "x" * (12 * MAX_HEAD_BYTES)})
                assert client.getresponse().status == 431


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_never_stops_sending_is_cut_off(harness: ApiHarness, loop: str) -> None:
    with (
        live_server.serve_app(harness.app, loop=loop) as port,
        closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client,
    ):
        client.sendall(HEAD)
        sent, part = 0, b" " * MEGABYTE
        while sent < 2 * lingering_transport.MAX_LINGER_BYTES and not is_closed(client, part):
            sent += len(part)
    assert sent < 2 * lingering_transport.MAX_LINGER_BYTES


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("limit", "sent"), [("MAX_LINGER_S", b" "), ("MAX_SILENCE_S", b"")], ids=["drips", "sends nothing"]
)
def test_a_client_that_does_not_go_is_closed_in_time(
    harness: ApiHarness, monkeypatch: pytest.MonkeyPatch, limit: str, sent: bytes, loop: str
) -> None:
    """Its connection counts until then."""
    monkeypatch.setattr(lingering_transport, "MAX_LINGER_S", PATIENCE * 10)
    monkeypatch.setattr(lingering_transport, "MAX_SILENCE_S", PATIENCE * 10)
    monkeypatch.setattr(lingering_transport, limit, 0.2)
    limits = ConnectionLimits(max_total=1, max_per_address=1)
    with (
        live_server.serve_app(harness.app, limits=limits, loop=loop) as port,
        closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client,
    ):
        client.sendall(HEAD)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
        assert client.recv(1 << 16) == b""

        def is_free() -> bool:
            is_closed(client, sent)
            if limits.open("192.0.2.1"):
                return False
            limits.close("192.0.2.1")
            return True

        wait_for(is_free)


def test_a_request_that_breaks_off_is_closed_at_once(
    harness: ApiHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The app still reads its body: it must learn that the client is gone, and must not answer a second time."""
    monkeypatch.setattr(lingering_transport, "MAX_LINGER_S", PATIENCE * 10)
    monkeypatch.setattr(lingering_transport, "MAX_SILENCE_S", PATIENCE * 10)
    limits = ConnectionLimits(max_total=1, max_per_address=1)
    with (
        live_server.serve_app(harness.app, limits=limits) as port,
        closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client,
    ):
        client.sendall(HEAD.replace(b"Content-Length: 999999999", b"Transfer-Encoding: chunked") + b"1\r\n[\r\nno size")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
        wait_for(lambda: limits.open("192.0.2.1") == "")
    assert not [record for record in caplog.records if record.exc_info]


def test_a_server_that_stops_does_not_wait_for_a_client_that_sends(
    harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering_transport, "MAX_LINGER_S", PATIENCE * 10)
    monkeypatch.setattr(lingering_transport, "MAX_SILENCE_S", PATIENCE * 10)
    with closing(socket.socket()) as client:
        client.settimeout(PATIENCE)
        with live_server.serve_app(harness.app) as port:
            client.connect(("127.0.0.1", port))
            client.sendall(HEAD)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
        wait_for(lambda: is_closed(client, b" "))


def test_a_connection_whose_request_is_complete_is_closed_at_once(
    harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        lingering_transport.LingeringTransport, "_linger", lambda _: pytest.fail("nothing is left to send")
    )
    with live_server.serve_app(harness.app) as port:
        status, _ = post(port, b"[]", Connection="close")
        assert status == 422


def test_a_connection_that_the_client_has_reset_is_aborted() -> None:
    """The loop of asyncio closes the sending side at once, which fails then. That is no error of the request."""

    class ResetTransport(asyncio.Transport):
        aborted = 0

        def can_write_eof(self) -> bool:
            return True

        def write_eof(self) -> None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

        def is_closing(self) -> bool:
            return False

        def abort(self) -> None:
            self.aborted += 1

    reset = ResetTransport()
    loop = asyncio.new_event_loop()
    with closing(loop):
        transport = lingering_transport.LingeringTransport(reset, loop, None)  # type: ignore[arg-type]
        transport.max_unread_bytes = MEGABYTE
        transport.close()
    assert reset.aborted == 1
