"""Follows health and memory of a service in a process of its own, until standard input ends.

python -m tests.attack.watch PROBE_PORT PID

The load runs in other processes: a thread beside it would measure how long it waits for its own turn.
"""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import sys
import threading
import time
from pathlib import Path

from tests.attack.send import HOST

PROBE_INTERVAL_S = 0.05
PROBE_TIMEOUT_S = 30.0


def probe(port: int, path: str) -> tuple[float, int]:
    """Seconds until the answer is complete, and its status; 0 if there is none."""
    begun = time.perf_counter()
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), PROBE_TIMEOUT_S) as client:
        client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        while data := client.recv(65_536):
            answer += data
    seconds = time.perf_counter() - begun
    return seconds, int(answer.split()[1]) if answer.startswith(b"HTTP/") else 0


def read_memory(pid: int) -> int:
    """Bytes of a process and its children."""
    total = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            total = int(line.split()[1]) * 1024
    children = {
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    }
    return total + sum(read_memory(child) for child in children)


def follow(port: int, pid: int, stop: threading.Event) -> dict[str, float]:
    times, statuses, memory = [], list[int](), 0
    while not stop.wait(PROBE_INTERVAL_S):
        with contextlib.suppress(OSError):
            memory = max(memory, read_memory(pid))
        seconds, status = probe(port, "/healthz")
        times.append(seconds)
        statuses.append(status)
    return {
        "probes": len(times),
        "unhealthy": sum(status != 200 for status in statuses),
        "p99": statistics.quantiles(times, n=100)[-1] if len(times) > 1 else float("inf"),
        "worst": max(times, default=float("inf")),
        "memory": memory,
    }


def main() -> None:
    port, pid = map(int, sys.argv[1:])
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    print(json.dumps(follow(port, pid, stop)))


if __name__ == "__main__":
    main()
