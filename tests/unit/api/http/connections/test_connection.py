"""The head of a request is bounded in size and time, with or without a key."""

from __future__ import annotations

import contextlib
import socket
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from service.api.http.connections.connection import MAX_HEAD_BYTES, ConnectionLimits
from tests.support import live_server
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api_harness import ApiHarness

PATIENCE = 30.0
ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
BODY = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def connected(harness: ApiHarness, **options: Any) -> Iterator[socket.socket]:
    with (
        live_server.serve_app(harness.app, **options) as port,
        closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as connection,
    ):
        yield connection


def until_closed(client: socket.socket) -> bytes:
    received = b""
    try:
        while data := client.recv(65536):
            received += data
    except ConnectionResetError:  # with bytes of ours that it has not read
        pass
    return received


def answer(client: socket.socket) -> bytes:
    received = b""
    while b'{"status":"ok"}' not in received:
        data = client.recv(65536)
        assert data, received
        received += data
    return received


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (ASK, b"X-Many: x\r\n"),
        (ASK + b"X-Long: ", b"x" * 10),
        (b"GET /", b"x" * 10),
        (BODY + b"0\r\n", b"X-Many: x\r\n"),
    ],
    ids=["headers", "header", "address", "trailers"],
)
def test_a_head_without_end_is_refused(harness: ApiHarness, begin: bytes, more: bytes) -> None:
    with connected(harness) as client:
        client.sendall(begin)
        sent, closed = 0, False
        while sent < 100 * MAX_HEAD_BYTES and not closed:
            try:
                client.sendall(more * 1_000)
            except (BrokenPipeError, ConnectionResetError):
                closed = True
            sent += 1_000 * len(more)
        until_closed(client)
    assert closed


def test_too_many_headers_get_431(harness: ApiHarness) -> None:
    with connected(harness) as client:
        client.sendall((ASK + b"X-Long: ").ljust(MAX_HEAD_BYTES + 1, b"x"))  # all of it is read: nothing resets
        response = until_closed(client)
    assert response.startswith(b"HTTP/1.1 431 ")
    assert b"send long values in the body" in response


def test_large_heads_below_the_limit_and_bodies_go_through(harness: ApiHarness) -> None:
    body = b"x" * (10 * MAX_HEAD_BYTES)
    with connected(harness) as client:
        for _ in range(5):
            client.sendall(ASK + b"X-Long: " + b"x" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n")
            assert answer(client).startswith(b"HTTP/1.1 200 ")
        client.sendall(ASK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert answer(client).startswith(b"HTTP/1.1 200 ")
        client.sendall(ASK + b"\r\n")
        assert answer(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("said", [b"", b"GET /heal", ASK], ids=["nothing", "address", "headers"])
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_a_connection_without_a_request_is_closed(
    harness: ApiHarness, said: bytes, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.http.connections.connection.HEAD_TIMEOUT_S", 0.3)
    with connected(harness, timeout_keep_alive=0.3) as client:
        for _ in range(before):
            client.sendall(ASK + b"\r\n")
            answer(client)
        client.sendall(said)
        assert until_closed(client) == b""


def test_half_of_a_head_does_not_wait_as_long_as_an_idle_connection(
    harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.http.connections.connection.HEAD_TIMEOUT_S", 0.1)
    with connected(harness, timeout_keep_alive=600) as idle:
        idle.sendall(ASK + b"\r\n")
        answer(idle)
        for said in (b"", ASK):
            with closing(socket.create_connection(idle.getpeername(), timeout=PATIENCE)) as half_open:
                half_open.sendall(said)
                assert until_closed(half_open) == b""
        idle.sendall(ASK + b"\r\n")
        assert answer(idle).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("size", [MAX_HEAD_BYTES + 2, 70_000, 120_000])
def test_a_complete_head_that_is_too_large_gets_431(harness: ApiHarness, size: int) -> None:
    with connected(harness) as client:
        with contextlib.suppress(OSError):
            client.sendall(make_head(size))
        assert b'{"status":"ok"}' not in until_closed(client)


def test_a_head_may_be_as_large_as_the_limit(harness: ApiHarness) -> None:
    with connected(harness) as client:
        for _ in range(2):
            client.sendall(make_head(MAX_HEAD_BYTES))
            assert answer(client).startswith(b"HTTP/1.1 200 ")


def make_head(size: int) -> bytes:
    return (ASK + b"X-Long: ").ljust(size - 4, b"x") + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (ConnectionLimits(max_total=2, max_per_address=10), b"2 connections are open"),
    ],
    ids=["total"],
)
def test_further_connections_get_503_until_one_is_closed(
    harness: ApiHarness, limits: ConnectionLimits, says: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with live_server.serve_app(harness.app, limits=limits) as port:
        clients = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(2)]
        for client in clients:
            client.sendall(ASK + b"\r\n")
            answer(client)
        with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as third:
            refused = until_closed(third)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert says in refused
        assert "connections are refused" in caplog.text
        clients.pop().close()

        def is_served() -> bool:
            with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client:
                client.sendall(ASK + b"Connection: close\r\n\r\n")
                return until_closed(client).startswith(b"HTTP/1.1 200 ")

        wait_for(is_served)
        clients.pop().close()


def test_an_address_has_so_many_connections_and_others_do_not_wait_for_it() -> None:
    limits = ConnectionLimits(max_total=10, max_per_address=2)
    assert [bool(limits.open("192.0.2.1")) for _ in range(3)] == [False, False, True]
    assert "192.0.2.1 has 2 connections open" in limits.open("192.0.2.1")
    assert limits.open("192.0.2.2") == ""
    assert [limits.open("127.0.0.1") for _ in range(3)] == ["", "", ""]  # a proxy on this machine
    limits.close("192.0.2.1")
    assert limits.open("192.0.2.1") == ""
