"""Clients that load the REST API: bare sockets that send prepared bytes and look for the length of the answer.

They take a fraction of their core (`client_share`, and `client_cpu_ms` of one request), so that they are not what is
measured.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import uvloop

from tests.bench.pipeline import read_sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class LoadClient(asyncio.Protocol):
    """One connection that sends a request as soon as the one before is answered."""

    def __init__(self, requests: Iterator[bytes], latencies: list[float], done: asyncio.Future[None]) -> None:
        self._requests, self._latencies, self._done = requests, latencies, done
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = cast("asyncio.Transport", transport)  # those of uvloop have no base class in common
        self._send_next()

    def _send_next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._done.set_result(None)
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        place = buffer.find(b"content-length: ") + 16
        length = int(buffer[place : buffer.find(b"\r\n", place)])
        if len(buffer) < head + 4 + length:
            return
        self._latencies.append(time.perf_counter() - self._sent)
        if not buffer.startswith(b"HTTP/1.1 200"):
            self._done.set_exception(RuntimeError(bytes(buffer).decode()))
            self._transport.close()
            return
        buffer.clear()
        self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the service closed the connection"))


async def _run_load(port: int, requests: Sequence[bytes], clients: int) -> dict[str, Any]:
    """All requests, shared by so many clients; each has one under way."""
    loop = asyncio.get_running_loop()
    waiting, latencies = iter(requests), list[float]()
    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(clients)]
    begun, used = time.perf_counter(), time.process_time()
    for end in ends:
        await loop.create_connection(partial(LoadClient, waiting, latencies, end), "127.0.0.1", port)
    await asyncio.gather(*ends)
    seconds = time.perf_counter() - begun
    used = time.process_time() - used
    return {
        "seconds": seconds,
        "latencies": latencies,
        "client_share": used / seconds,
        "client_cpu_ms": 1e3 * used / len(requests),
    }


def run_load(port: int, requests: Sequence[bytes], clients: int) -> dict[str, Any]:
    # With uvloop a request takes the client half the CPU time.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run_load(port, requests, clients))


def build_requests(port: int) -> list[bytes]:
    found = []
    for number, sentence in enumerate(read_sample()):
        body = json.dumps({"tokens": sentence.tokens, "labels": sentence.labels, "id": str(number)}).encode()
        head = (
            f"POST /v1/score HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        found.append(head.encode() + body)
    return found


def summarize_latencies(latencies: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(latencies, n=100)
    return {"p50": 1e3 * cuts[49], "p99": 1e3 * cuts[98]}
