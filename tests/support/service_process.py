"""`labelwatch api` as a process of its own on a free port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.support.ports import find_free_port

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

WAIT_TIMEOUT_S = 120.0  # only a hang takes as long
POLL_INTERVAL_S = 0.05
STOP_TIMEOUT_S = 60.0
TCP_TABLE = Path("/proc/net/tcp")


@dataclass
class ServiceProcess:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"{self.url}/readyz").is_success
        except httpx.TransportError:
            return False

    def list_children(self) -> list[int]:
        tasks = Path(f"/proc/{self.process.pid}/task")
        return [int(pid) for path in tasks.glob("*/children") for pid in path.read_text().split()]

    def find_owner(self, client: socket.socket) -> int | None:
        """The process of the service that has the other end of this connection; None while it is on its way."""
        ends = (self.port, client.getsockname()[1])
        rows = [line.split() for line in TCP_TABLE.read_text().splitlines()[1:]]
        inodes = {row[9] for row in rows if tuple(int(end.partition(":")[2], 16) for end in row[1:3]) == ends}
        owners = [
            pid
            for pid in (self.process.pid, *self.list_children())
            if any(_read_inode(path) in inodes for path in Path(f"/proc/{pid}/fd").iterdir())
        ]
        return owners[0] if len(owners) == 1 else None


def _read_inode(descriptor: Path) -> str:
    try:
        found = re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink()))
    except OSError:  # it was closed meanwhile
        return ""
    return found[1] if found else ""


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for what another process does."""
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(POLL_INTERVAL_S)


@contextmanager
def run_service(folder: Path, model: Path, **settings: str) -> Iterator[ServiceProcess]:
    """A service that is ready. `settings`: LABELWATCH_ variables, without the prefix."""
    port, log = find_free_port(), folder / "service.txt"
    variables = {
        "LOG_PATH": str(folder / "log.sqlite"),
        "MODEL_FOLDER": str(model),
        "API_PORT": str(port),
        **settings,
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LABELWATCH_")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", "from service.cli.main import main; main()", "api"],
            env={**clean, **{f"LABELWATCH_{name}": value for name, value in variables.items()}},
            stdout=output,
            stderr=output,
        )
    service = ServiceProcess(process, port, log)
    try:
        wait_until(service.is_ready)
        yield service
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(STOP_TIMEOUT_S)
