"""A real Apache Kafka for tests: it runs from its jars in KRaft mode, on free ports, without a container.

    with Cluster(folder, brokers=3) as cluster:
        cluster.bootstrap_servers, cluster.kill(2), cluster.start(2), cluster.pause(1), cluster.resume(1)

`python -m tests.kafka.broker` runs one until it is interrupted and prints its address.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from tests.support.ports import find_free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

POM = Path(__file__).with_name("pom.xml")
PACKAGES = {"java": "default-jre-headless", "mvn": "maven"}
HOST = "127.0.0.1"
START_TIMEOUT_S = 600.0
JAVA = ("java", "-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# The kernel kills the broker when the tests end, however they end. The setting survives exec.
SHIM = """
import ctypes, os, sys
try:
    ctypes.CDLL(None).prctl(1, 9)
except AttributeError:
    pass
os.execvp(sys.argv[1], sys.argv[1:])
"""


class KafkaUnavailableError(RuntimeError):
    """No broker can be started. The message says what to do."""


def require_commands(*commands: str) -> None:
    missing = [PACKAGES[name] for name in commands if shutil.which(name) is None]
    if missing:
        packages = " ".join(missing)
        raise KafkaUnavailableError(
            f"a Kafka broker for tests needs {packages}: install it (for example `sudo apt-get install {packages}`),"
            " or name a running broker in KAFKA_BOOTSTRAP_SERVERS"
        )


def get_cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "labelwatch" / "kafka"


def fetch_jars() -> Path:
    """Returns the folder of the broker's jars. They are downloaded once, to a cache outside the checkout."""
    folder = get_cache_folder() / hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    require_commands("java", "mvn")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _file_lock(folder.parent / "lock"):
        if not folder.is_dir():
            _download_jars(folder)
    return folder


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download_jars(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        shutil.copy(POM, scratch)
        jars = Path(scratch) / "jars"
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        ran = subprocess.run(
            ["mvn", "-q", "-B", "-f", f"{scratch}/pom.xml", *goal], capture_output=True, text=True, check=False
        )
        if ran.returncode or not any(jars.glob("kafka_*.jar")):
            raise KafkaUnavailableError(
                f"Maven could not download Kafka's jars:\n{ran.stdout[-4000:]}{ran.stderr[-2000:]}"
            )
        jars.rename(folder)


def _make_cluster_id() -> str:
    while True:
        cluster_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):  # the storage tool would take it for an option
            return cluster_id


class Cluster:
    """One or three brokers, numbered from 1, with their data in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 1,
        settings: dict[str, str] | None = None,
        advertised_ports: Mapping[int, int] | None = None,
    ) -> None:
        """`advertised_ports`: by broker, the port of a proxy; the broker advertises it on a listener of its own."""
        self._folder = folder
        self._nodes = range(1, brokers + 1)
        ports = find_free_ports(3 * brokers)
        self._ports = dict(zip(self._nodes, ports[:brokers], strict=True))
        self._controllers = dict(zip(self._nodes, ports[brokers : 2 * brokers], strict=True))
        # Of the listener behind the proxies.
        self.proxied_ports = dict(zip(self._nodes, ports[2 * brokers :], strict=True))
        self._advertised_ports = advertised_ports
        self._settings = settings or {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(self._nodes)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def __enter__(self) -> Self:
        atexit.register(self.close)
        try:
            self._format_and_start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _format_and_start(self) -> None:
        require_commands("java")
        fetch_jars()
        cluster_id = _make_cluster_id()
        for node in self._nodes:
            config = self._write_config(node)
            command = [
                *JAVA,
                "-cp",
                f"{fetch_jars()}/*",
                "kafka.tools.StorageTool",
                "format",
                "-t",
                cluster_id,
                "-c",
                str(config),
            ]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise KafkaUnavailableError(f"Kafka's storage could not be formatted:\n{ran.stdout}{ran.stderr}")
        for node in self._nodes:
            self.start(node)
        self.wait_until_ready()

    def _write_config(self, node: int) -> Path:
        data = self._folder / f"broker-{node}"
        data.mkdir(parents=True, exist_ok=True)
        replicas = 3 if len(self._nodes) >= 3 else 1
        min_isr = 2 if replicas == 3 else 1
        voters = ",".join(f"{other}@{HOST}:{port}" for other, port in self._controllers.items())
        own = f"PLAINTEXT://{HOST}:{self._ports[node]}"
        listeners, advertised, protocols = [own], [own], "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        if self._advertised_ports is not None:
            listeners.append(f"PROXIED://{HOST}:{self.proxied_ports[node]}")
            advertised.append(f"PROXIED://{HOST}:{self._advertised_ports[node]}")
            protocols += ",PROXIED:PLAINTEXT"
        config = {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join((*listeners, f"CONTROLLER://{HOST}:{self._controllers[node]}")),
            "advertised.listeners": ",".join(advertised),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": protocols,
            "log.dirs": data / "data",
            "num.network.threads": 2,
            "num.io.threads": 2,
            "background.threads": 2,
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            "offsets.topic.num.partitions": 4,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min_isr,
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": min_isr,
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
            "log.cleaner.backoff.ms": 1000,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            **self._settings,
        }
        path = data / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        return path

    # -- lifecycle -------------------------------------------------------------------------------

    def start(self, node: int) -> None:
        """Starts a broker, with its data if it has run before. Does not wait until it is ready."""
        data = self._folder / f"broker-{node}"
        command = [*JAVA, "-cp", f"{fetch_jars()}/*", "kafka.Kafka", str(data / "server.properties")]
        with (data / "output.log").open("ab") as log:
            self._processes[node] = subprocess.Popen(
                [sys.executable, "-c", SHIM, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the tests only, which then stop their brokers
            )

    def kill(self, node: int) -> None:
        self._send_signal(node, signal.SIGKILL)
        self._processes.pop(node).wait()

    def stop(self, node: int) -> None:
        """Shuts a broker down in order: leadership moves first."""
        self._send_signal(node, signal.SIGTERM)
        process = self._processes.pop(node)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def pause(self, node: int) -> None:
        self._send_signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        self._send_signal(node, signal.SIGCONT)

    def _send_signal(self, node: int, number: signal.Signals) -> None:
        self._processes[node].send_signal(number)

    def wait_until_ready(self, timeout: float = START_TIMEOUT_S) -> None:
        """Waits until an admin call lists every started broker. An open port is not enough."""
        deadline = time.monotonic() + timeout
        state: object = "no answer"
        while time.monotonic() < deadline:
            for node, process in self._processes.items():
                if process.poll() is not None:
                    raise KafkaUnavailableError(f"broker {node} has ended:\n{self._read_output(node)}")
            try:
                up = self._count_brokers()
            except (KafkaError, OSError) as error:
                state = error
            else:
                if up >= len(self._processes):
                    return
                state = f"{up} of {len(self._processes)} brokers are up"
            time.sleep(0.3)
        raise KafkaUnavailableError(
            f"Kafka was not ready after {timeout:.0f} s: {state}\n{self._read_output(self.nodes[0])}"
        )

    def _count_brokers(self) -> int:
        for node in self._processes:
            socket.create_connection((HOST, self._ports[node]), timeout=5).close()
        servers = [f"{HOST}:{self._ports[node]}" for node in self._processes]
        with KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=10_000) as admin:
            return len(admin.describe_cluster()["brokers"])

    def _read_output(self, node: int) -> str:
        return (self._folder / f"broker-{node}" / "output.log").read_text(errors="replace")[-4000:]

    def close(self) -> None:
        atexit.unregister(self.close)
        for process in self._processes.values():
            process.kill()  # its data is deleted with the folder, and SIGKILL also ends a paused one
        for process in self._processes.values():
            process.wait()
        self._processes.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs Apache Kafka for trials, until it is interrupted.")
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    brokers = parser.parse_args().brokers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), brokers=brokers) as cluster:
        print(cluster.bootstrap_servers, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
