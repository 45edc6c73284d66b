"""The faults themselves: what the proxies, clocks and disks of a chaos run do, and which code its workers run."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.chaos.clocks import SEAM, WorkerClocks
from tests.chaos.disks import SmallDisks, can_mount
from tests.chaos.earlier_version import check_out
from tests.chaos.kafka_chaos import find_impossible_faults
from tests.chaos.plan import BROKER_FAULTS, LONG_PROFILES, N_WORKERS, FaultKind, add_upgrades, plan_faults, without
from tests.chaos.proxy import HOST, BrokerProxies, Link
from tests.chaos.standstill import SingleFault, find_standstill, plan_single_faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that sends back what it receives."""
    server = socket.create_server((HOST, 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1024):
                connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield int(server.getsockname()[1])
    server.close()


def _ask(connection: socket.socket, text: bytes) -> bytes:
    """The answer; empty if the connection was closed."""
    try:
        connection.sendall(text)
        return connection.recv(1024)
    except ConnectionError:
        return b""


def test_a_proxy_forwards_stalls_and_refuses(echo_port: int) -> None:
    with BrokerProxies([1, 2]) as proxies:
        proxies.forward_to({1: echo_port, 2: echo_port})
        with socket.create_connection((HOST, proxies.ports[1]), timeout=60) as connection:
            assert _ask(connection, b"one") == b"one"
            proxies.set_link(1, Link.STALLED)
            connection.sendall(b"two")
            connection.settimeout(0.2)
            with pytest.raises(TimeoutError):
                connection.recv(1024)
            with socket.create_connection((HOST, proxies.ports[2]), timeout=60) as other:
                assert _ask(other, b"the other broker is reached") == b"the other broker is reached"
            proxies.set_link(1, Link.OPEN)
            connection.settimeout(60)
            assert connection.recv(1024) == b"two"  # nothing is lost, as with TCP
            proxies.set_link(1, Link.REFUSED)
            assert _ask(connection, b"three") == b""
        with socket.create_connection((HOST, proxies.ports[1]), timeout=60) as connection:
            assert _ask(connection, b"four") == b""
        proxies.set_link(1, Link.OPEN)
        with socket.create_connection((HOST, proxies.ports[1]), timeout=60) as connection:
            assert _ask(connection, b"five") == b"five"


def test_a_clock_jumps_and_monotonic_time_does_not(tmp_path: Path) -> None:
    clocks = WorkerClocks(tmp_path, 2)
    code = "import time; print(time.time(), time.monotonic())"
    clocks.set_offset(1, -7_200)
    seen = []
    for number in range(2):
        environment = {**os.environ, "PYTHONPATH": str(SEAM), **clocks.get_environment(number)}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        seen.append([float(part) for part in ran.stdout.split()])
    assert seen[0][0] - seen[1][0] == pytest.approx(7_200, abs=600)
    assert 0 <= seen[1][1] - seen[0][1] < 600
    assert abs(seen[0][0] - time.time()) < 600


def test_a_full_disk_has_no_space_until_it_is_freed(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        assert FaultKind.FULL in find_impossible_faults(tmp_path)
        return
    with SmallDisks(tmp_path, [1]) as disks:
        file = tmp_path / "broker-1" / "data" / "log"
        file.write_bytes(b"x" * 4096)
        disks.fill(1)
        with pytest.raises(OSError, match="No space left"):
            file.write_bytes(b"x" * 2 * 1024 * 1024)
        disks.free(1)
        file.write_bytes(b"x" * 2 * 1024 * 1024)


def test_workers_can_run_the_code_of_a_commit(tmp_path: Path) -> None:
    folder = check_out("HEAD", tmp_path / "earlier")
    ran = subprocess.run(
        [sys.executable, "-c", "import service; print(service.__file__)"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith(str(folder))
    with pytest.raises(ValueError, match="no-such-commit can't be checked out"):
        check_out("no-such-commit", tmp_path / "other")


def test_a_rolling_upgrade_upgrades_each_worker_once() -> None:
    faults = plan_faults(1, add_upgrades(LONG_PROFILES[3]))
    assert [fault.target for fault in faults if fault.kind is FaultKind.UPGRADE] == list(range(N_WORKERS))


def test_faults_that_are_impossible_here_are_left_out(tmp_path: Path) -> None:
    impossible = find_impossible_faults(tmp_path, external_brokers=True)
    assert impossible.keys() >= BROKER_FAULTS | {FaultKind.CUT, FaultKind.REFUSE}
    planned = {fault.kind for fault in plan_faults(1, without(LONG_PROFILES[3], impossible))}
    assert planned >= {FaultKind.KILL, FaultKind.FREEZE, FaultKind.SETTINGS}
    assert not planned & impossible.keys()


def test_single_faults_are_of_every_kind_and_follow_from_the_seed() -> None:
    planned = plan_single_faults(1, 20)
    assert planned == plan_single_faults(1, 20) != plan_single_faults(2, 20)
    assert set(planned[:8]) == set(planned[8:16]) == set(SingleFault)


def test_a_standstill_is_the_longest_time_without_a_commit_while_messages_wait() -> None:
    history = [(1_000, 10), (2_000, 20), (9_000, 30)]
    arrivals = {10: 500, 20: 3_000, 30: 8_000}
    assert find_standstill(history, arrivals, since_ms=2_500, until_ms=9_500) == 6.0  # 20 arrived at 3 s
    assert find_standstill(history, arrivals, since_ms=2_500, until_ms=20_000) == 11.0  # 30 is not read at the end
    assert find_standstill(history, {10: 500, 20: 3_000}, since_ms=2_500, until_ms=20_000) == 6.0  # nothing waits then
    assert find_standstill(history, arrivals, since_ms=9_200, until_ms=9_400) == 0.4
