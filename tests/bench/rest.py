"""REST against the graph alone: the model on one thread, clients on one of two cores.

The service is the real command on a loopback port. Clients are bare sockets that send prepared bytes and look for the
length of the answer: they take a fraction of their core (`client_share`), so that they are not what is measured.
The graph alone runs on the other core, in turn with the service.

Two services are measured: one that may use both cores, as where nobody confines it (the model still has one thread),
and one that is confined to the core without clients, so that reading, judging and answering take time from the model.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.pipeline import read_sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROUNDS = 5
CLIENTS = 32
CLIENT_CORE, MODEL_CORE = 0, 1
SERVICE_CORES = {
    "": {CLIENT_CORE, MODEL_CORE},
    "one_core_": {MODEL_CORE},
}  # of a service, by what its figures' names say
MIN_REQUESTS = 2_000
WAIT_TIMEOUT_S = 60.0


class LoadClient(asyncio.Protocol):
    """One connection that sends a request as soon as the one before is answered."""

    def __init__(self, requests: Iterator[bytes], latencies: list[float], done: asyncio.Future[None]) -> None:
        self._requests, self._latencies, self._done = requests, latencies, done
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport
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
    return {
        "seconds": seconds,
        "latencies": latencies,
        "client_share": (time.process_time() - used) / seconds,
    }


def run_load(port: int, requests: Sequence[bytes], clients: int) -> dict[str, Any]:
    return asyncio.run(_run_load(port, requests, clients))


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


def find_free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def run_service(folder: Path, cores: set[int]) -> Iterator[tuple[int, int]]:
    """`labelwatch api` on its cores; gives its port and process id."""
    port = find_free_port()
    (folder / str(port)).mkdir()
    variables = {
        "LABELWATCH_LOG_PATH": str(folder / str(port) / "log.sqlite"),
        "LABELWATCH_MODEL_THREADS": "1",
        "LABELWATCH_API_PORT": str(port),
        "LABELWATCH_LOGS_LEVEL": "warning",
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LABELWATCH_")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from service.cli.main import main; main()", "api"],
        env={**clean, **variables},
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - no threads here
    )
    try:
        until = time.monotonic() + WAIT_TIMEOUT_S
        while not _is_ready(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the service did not get ready: its message stands above")
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(WAIT_TIMEOUT_S)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def start_raw_graph() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.rest_side", str(MODEL_CORE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(WAIT_TIMEOUT_S)


def measure_raw_graph(raw: subprocess.Popen[str]) -> dict[str, Any]:
    assert raw.stdin is not None
    assert raw.stdout is not None
    raw.stdin.write("\n")
    raw.stdin.flush()
    found: dict[str, Any] = json.loads(raw.stdout.readline())
    return found


def read_cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summarize_latencies(latencies: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(latencies, n=100)
    return {"p50": 1e3 * cuts[49], "p99": 1e3 * cuts[98]}


def run_round(raw: subprocess.Popen[str], port: int, process_id: int) -> dict[str, Any]:
    requests = build_requests(port)
    limit = measure_raw_graph(raw)
    used = read_cpu_seconds(process_id)
    many = run_load(port, requests * -(-MIN_REQUESTS // len(requests)), CLIENTS)
    used = read_cpu_seconds(process_id) - used
    one = run_load(port, requests, 1)
    again = measure_raw_graph(raw)
    fastest = max(limit["sentences_per_s"], again["sentences_per_s"])
    alone = [statistics.mean(pair) for pair in zip(limit["one"], again["one"], strict=True)]
    sent = len(many["latencies"])
    return {
        "ratio_32": sent / many["seconds"] / fastest,
        "ratio_1": statistics.median(took / raw for took, raw in zip(one["latencies"], alone, strict=True)),
        "requests": sent,
        "requests_per_s": sent / many["seconds"],
        "raw_sentences_per_s": fastest,
        "ms_32": summarize_latencies(many["latencies"]),
        "ms_1": summarize_latencies(one["latencies"]),
        "raw_ms_1": summarize_latencies(alone),
        "client_share": many["client_share"],
        "service_cpu_ms": 1e3 * used / sent,  # of one request; beside it one sentence in the graph alone
        "raw_cpu_ms": min(limit["cpu_ms"], again["cpu_ms"]),
    }


def format_round(place: str, each: dict[str, Any]) -> str:
    return (
        f"{place or 'both_cores_'}{CLIENTS} clients: {each['requests_per_s']:.0f}/s of "
        f"{each['raw_sentences_per_s']:.0f} raw, p50 {each['ms_32']['p50']:.1f} p99 {each['ms_32']['p99']:.1f} ms; "
        f"one client: p50 {each['ms_1']['p50']:.2f} p99 {each['ms_1']['p99']:.2f} ms, "
        f"raw p50 {each['raw_ms_1']['p50']:.2f} ms"
    )


def run() -> list[dict[str, Any]]:
    everywhere = os.sched_getaffinity(0)
    if len(everywhere) < 2:
        raise SystemExit("the REST benchmarks need two cores: one for the model, one for the clients")
    os.sched_setaffinity(0, {CLIENT_CORE})
    rounds: dict[str, list[dict[str, Any]]] = {place: [] for place in SERVICE_CORES}
    try:
        with ExitStack() as leaving:
            folder = Path(leaving.enter_context(tempfile.TemporaryDirectory()))
            raw = leaving.enter_context(start_raw_graph())
            services = {
                place: leaving.enter_context(run_service(folder, cores)) for place, cores in SERVICE_CORES.items()
            }
            for port, _ in services.values():
                run_load(port, build_requests(port), CLIENTS)  # warm
            for _ in range(ROUNDS):
                for place, (port, process_id) in services.items():
                    rounds[place].append(run_round(raw, port, process_id))
                    print(format_round(place, rounds[place][-1]), file=sys.stderr)
    finally:
        os.sched_setaffinity(0, everywhere)
    return [figure for place, found in rounds.items() for figure in make_figures(place, found)]


def make_figures(place: str, rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    cores = sorted(SERVICE_CORES[place])
    shared = {"rounds": len(rounds), "clients_core": CLIENT_CORE, "service_cores": cores, "model_threads": 1}
    where = "" if len(cores) > 1 else ", the whole service on one core"
    many = ("ratio_32", "requests", "requests_per_s", "raw_sentences_per_s", "ms_32", "client_share")
    cost = ("service_cpu_ms", "raw_cpu_ms")
    one = ("ratio_1", "ms_1", "raw_ms_1")
    return [
        {
            "name": f"rest_32_clients_{place}vs_raw_ort",
            "ratio": statistics.median(each["ratio_32"] for each in rounds),
            "detail": {
                "what": f"single sentences of 32 clients, one model thread, over the graph alone{where}",
                **shared,
                "ratios": [each["ratio_32"] for each in rounds],
                **{name: [each[name] for each in rounds] for name in (*many, *cost)},
            },
        },
        {
            "name": f"rest_1_client_{place}p50_vs_raw_ort",
            "ratio": statistics.median(each["ratio_1"] for each in rounds),
            "detail": {
                "what": f"time of a sentence over REST to that in the graph alone (lower is better), median{where}",
                **shared,
                "ratios": [each["ratio_1"] for each in rounds],
                **{name: [each[name] for each in rounds] for name in one},
            },
        },
    ]
