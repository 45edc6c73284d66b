"""Measures normal clients beside costly requests: python -m tests.attack [ATTACK …] [--seconds 20]

64 clients score sentences of the sample on `labelwatch up`, first alone, then beside each attack. The table has the 95th
percentile of their times without and with it, the share of them that got no answer, the 99th percentile and the slowest of
/healthz on the port for probes, memory above that of the idle service, whether the service lives and starts again, and how
often the attack got each status. A status that the service must not answer makes the exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.attack.send import ATTACKS, HOST
from tests.attack.watch import probe, read_memory
from tests.bench.rest_load import LoadClient, build_requests
from tests.support.ports import find_free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = 64
BASE_SECONDS = 8.0
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
SETTLE_S = 1.0  # until the attack is under way


class Service:
    """`labelwatch up` as a process, with a port for probes."""

    def __init__(self, folder: Path) -> None:
        self.port, self.probe_port = find_free_ports(2)
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
        while probe(self.probe_port, "/readyz")[1] != 200:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("the service does not start")
            time.sleep(0.1)

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


class Helper:
    """A module of this package in a process of its own. It prints a JSON object when its standard input ends."""

    def __init__(self, module: str, *arguments: str | int) -> None:
        command = [sys.executable, "-m", f"tests.attack.{module}", *map(str, arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def finish(self) -> dict[str, Any]:
        output, _ = self._process.communicate()
        found: dict[str, Any] = json.loads(output)
        return found


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


def measure(name: str, seconds: float) -> tuple[str, bool]:
    """A row of the table, and whether the attack got only statuses that it may get."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        try:
            alone, _ = asyncio.run(run_clients(service.port, BASE_SECONDS))
            idle = read_memory(service.process.pid)
            attacker = Helper("send", name, service.port)
            watch = Helper("watch", service.probe_port, service.process.pid)
            time.sleep(SETTLE_S)
            beside, failures = asyncio.run(run_clients(service.port, seconds))
            health = watch.finish()
            statuses = {int(status): count for status, count in attacker.finish().items()}
            alive = service.process.poll() is None
            stopped = service.stop()
            service.start()
        finally:
            service.process.kill()
            service.process.wait()
    before, after = compute_p95(alone), compute_p95(beside)
    answers = len(beside) + failures
    counts = " ".join(f"{status or 'closed'}:{count}" for status, count in sorted(statuses.items()))
    is_expected = bool(statuses) and set(statuses) <= ATTACKS[name].expected
    row = (
        f"{name:<15} {before:9.0f} {after:9.0f} {after / before:6.1f} {failures / max(1, answers):8.2%} "
        f"{health['p99'] * 1e3:7.0f} {health['worst'] * 1e3:7.0f} {health['unhealthy']:9} "
        f"{(health['memory'] - idle) / 1e6:9.0f} {'yes' if alive else 'NO':>6} {'yes' if stopped else 'NO':>8}  "
        f"{counts or 'none'}{'' if is_expected else '  UNEXPECTED'}"
    )
    return row, is_expected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {', '.join(ATTACKS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    if unknown := set(arguments.attacks) - set(ATTACKS):
        parser.error(f"there is no attack {', '.join(sorted(unknown))}: use {', '.join(ATTACKS)}")
    print(
        "attack          p95 alone    beside  ratio   failed  healthz p99, worst, not 200  memory MB  alive  restarts  statuses",
        flush=True,
    )
    all_expected = True
    for name in arguments.attacks or ATTACKS:
        row, is_expected = measure(name, arguments.seconds)
        all_expected &= is_expected
        print(row, flush=True)
    sys.exit(0 if all_expected else 1)


if __name__ == "__main__":
    main()
