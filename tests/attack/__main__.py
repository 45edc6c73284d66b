"""Measures normal clients beside costly requests: python -m tests.attack [ATTACK …] [--seconds 20]

64 clients score sentences of the sample on `labelwatch up`, first alone, then beside each attack. The table has the 95th
percentile of their times without and with it, the share of them that got no answer, the slowest answer of /healthz on the
port for probes, memory above that of the idle service, and whether the service lives and starts again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.attack.send import ATTACKS, HOST
from tests.bench.rest import LoadClient, build_requests, find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = 64
BASE_SECONDS = 8.0
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
PROBE_INTERVAL_S = 0.1


class Service:
    """`labelwatch up` as a process, with a port for probes."""

    def __init__(self, folder: Path) -> None:
        self.port, self.probe_port = find_free_port(), find_free_port()
        self._variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LABELWATCH_")},
            "LABELWATCH_LOG_PATH": str(folder / "log.sqlite"),
            "LABELWATCH_API_PORT": str(self.port),
            "LABELWATCH_API_METRICS_PORT": str(self.probe_port),
            "LABELWATCH_LOGS_LEVEL": "error",
        }
        self.start()

    def start(self) -> None:
        command = [str(Path(sys.executable).with_name("labelwatch")), "up"]
        self.process = subprocess.Popen(command, env=self._variables, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.probe("/readyz") is None:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("the service does not start")
            time.sleep(0.1)

    def probe(self, path: str) -> float | None:
        """Seconds until the answer; None if there is none."""
        begun = time.perf_counter()
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.probe_port}{path}", timeout=30) as answer:
                answer.read()
        except OSError:
            return None
        return time.perf_counter() - begun

    def read_memory(self) -> int:
        """Bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self) -> bool:
        """Whether SIGTERM ends it in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        return True


class Watch:
    """Follows memory and health until it is stopped."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.memory, self.slowest, self.missed = 0, 0.0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(PROBE_INTERVAL_S) and self._service.process.poll() is None:
            with contextlib.suppress(OSError):
                self.memory = max(self.memory, self._service.read_memory())
            seconds = self._service.probe("/healthz")
            if seconds is None:
                self.missed += 1
            else:
                self.slowest = max(self.slowest, seconds)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


async def run_clients(port: int, seconds: float) -> tuple[list[float], int]:
    """The times of answered requests, and how many connections ended otherwise, within so many seconds."""
    deadline = time.monotonic() + seconds
    requests: Iterator[bytes] = itertools.takewhile(
        lambda _: time.monotonic() < deadline, itertools.cycle(build_requests(port))
    )
    latencies: list[float] = []
    failures = 0

    async def run_client() -> None:
        nonlocal failures
        loop = asyncio.get_running_loop()
        while time.monotonic() < deadline:
            end: asyncio.Future[None] = loop.create_future()
            try:
                async with asyncio.timeout(max(1.0, deadline + 30 - time.monotonic())):
                    await loop.create_connection(partial(LoadClient, requests, latencies, end), HOST, port)
                    await end
            except (OSError, RuntimeError, TimeoutError):
                failures += 1
                await asyncio.sleep(0.05)

    await asyncio.gather(*(run_client() for _ in range(CLIENTS)))
    return latencies, failures


def compute_p95(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=20)[-1] * 1e3 if len(latencies) > 1 else float("inf")


def measure(name: str, seconds: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        try:
            alone, _ = asyncio.run(run_clients(service.port, BASE_SECONDS))
            idle = service.read_memory()
            attacker = subprocess.Popen([sys.executable, "-m", "tests.attack.send", name, str(service.port)])
            watch = Watch(service)
            try:
                time.sleep(1.0)
                beside, failures = asyncio.run(run_clients(service.port, seconds))
            finally:
                attacker.kill()
                attacker.wait()
                watch.stop()
            alive = service.process.poll() is None
            stopped = service.stop()
            service.start()
        finally:
            service.process.kill()
            service.process.wait()
    before, after = compute_p95(alone), compute_p95(beside)
    answers = len(beside) + failures
    return (
        f"{name:<15} {before:9.0f} {after:9.0f} {after / before:6.1f} {failures / max(1, answers):8.2%} "
        f"{watch.slowest * 1e3:9.0f} {(watch.memory - idle) / 1e6:9.0f} {'yes' if alive else 'NO':>6} "
        f"{'yes' if stopped else 'NO':>8}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {', '.join(ATTACKS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    if unknown := set(arguments.attacks) - set(ATTACKS):
        parser.error(f"there is no attack {', '.join(sorted(unknown))}: use {', '.join(ATTACKS)}")
    print("attack          p95 alone    beside  ratio   failed  healthz ms  memory MB  alive  restarts", flush=True)
    for name in arguments.attacks or ATTACKS:
        print(measure(name, arguments.seconds), flush=True)


if __name__ == "__main__":
    main()
