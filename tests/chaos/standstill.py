"""Measures how long a partition stands still after a single fault: three brokers, three workers, one fault at a time.

    python -m tests.chaos standstill --faults 20 [--seed 1] [--only kill] [--results FILE]

The workers have the default time-outs. Each fault waits until everything has recovered from the one before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient

from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.kafka.admin import create_topics
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.chaos.brokers import Brokers, stamp_on_arrival
from tests.chaos.messages import DATASETS, MAX_WORDS, generate_messages, make_second_model
from tests.chaos.plan import BROKER_SESSION_MS, N_WORKERS, PROXIED_WORKER, FaultKind
from tests.chaos.processes import WorkerProcesses
from tests.chaos.proxy import BrokerProxies, Link
from tests.chaos.reading import TRANSIENT_ERRORS
from tests.chaos.traffic import LoadGenerator, ProgressMonitor, send_settings
from tests.kafka.broker import Cluster
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PARTITIONS = 6
BROKER_REQUEST_MS = 5_000
RATE = 60.0  # messages per second
TICK_S = 0.05
SETTLE_S = 2.0  # of progress in every partition, before the next fault
RECOVERY_TIMEOUT_S = 300.0


class SingleFault(StrEnum):
    KILL = "kill"  # a worker, by SIGKILL; it is started again at once
    LOSS = "loss"  # a worker, by SIGKILL; it is started again only after the others have taken over
    FREEZE = "freeze"  # a worker, by SIGSTOP
    CRASH = "crash"  # a broker, by SIGKILL
    COORDINATOR = "coordinator"  # the broker that coordinates the group, by SIGKILL
    HANG = "hang"  # a broker, by SIGSTOP
    CUT = "cut"  # the packets between a worker and a broker are dropped
    REFUSE = "refuse"  # the connections between a worker and a broker are reset


HOLD_S = {SingleFault.KILL: 0.0}  # how long a fault lasts
DEFAULT_HOLD_S = 20.0


@dataclass(frozen=True, slots=True)
class Measurement:
    seed: int
    number: int
    fault: SingleFault
    target: int  # worker from 0, or broker from 1
    seconds: float  # that the partition which waited longest stood still
    partition: int
    since: float  # the fault, in seconds since 1970


def plan_single_faults(seed: int, count: int) -> list[SingleFault]:
    """Every kind in turn, each round in another order."""
    rng = random.Random(f"single faults of {seed}")
    planned: list[SingleFault] = []
    while len(planned) < count:
        planned += rng.sample(list(SingleFault), len(SingleFault))
    return planned[:count]


def find_standstill(
    history: Sequence[tuple[int, int]], arrivals: Mapping[int, int], *, since_ms: int, until_ms: int
) -> float:
    """The longest time, in seconds, in which a partition had messages to read and no commit.

    `history` is (milliseconds, next offset), in order; `arrivals` has the time of each message by its offset.
    """
    longest = 0
    for (before, offset), (now, _) in pairwise([*history, (until_ms, -1)]):
        arrived = arrivals.get(offset)
        if now > since_ms and arrived is not None:
            longest = max(longest, min(now, until_ms) - max(before, arrived))
    return longest / 1000


class StandstillRun:
    def __init__(self, folder: Path, seed: int, stack: ExitStack, broker_session_ms: int) -> None:
        self._seed = seed
        self._rng = random.Random(f"targets of {seed}")
        self._proxies = stack.enter_context(BrokerProxies((1, 2, 3)))
        settings = {
            "broker.session.timeout.ms": str(broker_session_ms),
            "broker.heartbeat.interval.ms": "1000",
            # The end of a transaction that is sent to a broker which hangs is sent again after this time.
            "request.timeout.ms": str(BROKER_REQUEST_MS),
        }
        self._cluster = stack.enter_context(
            Cluster(folder / "kafka", brokers=3, settings=settings, advertised_ports=self._proxies.ports)
        )
        self._proxies.forward_to(self._cluster.proxied_ports)
        self._servers = self._cluster.bootstrap_servers
        self._brokers = Brokers(self._servers, self._cluster)
        self._topics = Topics(f"standstill-{uuid.uuid4().hex[:8]}.")
        model = make_model(folder / "model", "wordpiece", poison="fails", manifest={"invariant": "exact"})
        create_topics(
            KafkaSettings(bootstrap_servers=self._servers),
            self._topics,
            partitions=PARTITIONS,
            replication=3,
            min_isr=2,
        )
        stamp_on_arrival(self._servers, self._topics.state, self._topics.sentences)
        send_settings(self._servers, self._topics, DATASETS)
        environment = {
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": self._servers,
            "LABELWATCH_TOPICS_PREFIX": self._topics.prefix,
            "LABELWATCH_WORKER_GROUP": self._topics.prefix,
            "LABELWATCH_WORKER_MAX_WORDS": str(MAX_WORDS),
            "LABELWATCH_MODEL_FOLDER": str(model),
            "LABELWATCH_MODELS_PATH": str(make_second_model(folder / "registry").parent),
        }
        through_proxies = {"LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": self._proxies.bootstrap_servers}
        self._workers = WorkerProcesses(
            folder,
            environment,
            tuple(f"standstill-{number}" for number in range(N_WORKERS)),
            {PROXIED_WORKER: through_proxies},
        )
        self._progress = ProgressMonitor(self._servers, self._topics, partitions=PARTITIONS)
        self._load = LoadGenerator(
            self._servers,
            self._topics.sentences,
            generate_messages(seed, Classifier(ModelFolder.load(model))),
            rate=RATE,
            count_processed=lambda: sum(self._progress.positions.values()),
        )
        for manager in (self._progress, self._workers, self._load):
            stack.enter_context(manager)

    @property
    def problems(self) -> list[str]:
        return self._workers.problems

    def wait_until_settled(self) -> None:
        """Until every broker is in sync, every worker has partitions, and every partition moves on."""
        self._wait(self._brokers.is_healthy, "the brokers are in sync")
        self._wait(
            lambda: all(self._workers.has_partitions(number) for number in range(N_WORKERS)), "workers have partitions"
        )
        settled_at = time.monotonic() + SETTLE_S
        self._wait(lambda: time.monotonic() > settled_at, "things settle")
        self._wait_for_commits(time.time())

    def _wait_for_commits(self, since: float) -> None:
        self._wait(
            lambda: all(
                steps and steps[-1][0] > since * 1000
                for steps in (list(each) for each in self._progress.history.values())
            ),
            "every partition has a commit",
        )

    def _wait(self, is_done: Callable[[], bool], goal: str) -> None:
        deadline = time.monotonic() + RECOVERY_TIMEOUT_S
        while not is_done():
            self._workers.supervise()
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {RECOVERY_TIMEOUT_S:.0f} s still waiting until {goal}")
            time.sleep(TICK_S)

    def measure(self, number: int, fault: SingleFault) -> Measurement:
        self._wait(self._brokers.is_healthy, "the brokers are in sync")
        # Otherwise a broker that was down before leads nothing, and the next fault of it has no effect.
        self._wait(self._brokers.elect_preferred_leaders, "every broker leads its share of the partitions")
        self.wait_until_settled()
        began = time.time()
        target, repair = self._inject(fault)
        hold_until = time.monotonic() + HOLD_S.get(fault, DEFAULT_HOLD_S)
        self._wait(lambda: time.monotonic() > hold_until, "the fault is over")
        repair()
        self.wait_until_settled()
        seconds, partition = self._find_longest(began, time.time())
        return Measurement(self._seed, number, fault, target, seconds, partition, began)

    def _inject(self, fault: SingleFault) -> tuple[int, Callable[[], None]]:
        worker, node = self._rng.randrange(N_WORKERS), self._rng.choice(self._cluster.nodes)
        match fault:
            case SingleFault.KILL | SingleFault.LOSS:
                self._workers.kill(worker, pause=HOLD_S.get(fault, DEFAULT_HOLD_S))
                return worker, lambda: None
            case SingleFault.FREEZE:
                self._workers.freeze(worker)
                return worker, lambda: self._workers.thaw(worker)
            case SingleFault.CUT | SingleFault.REFUSE:
                self._proxies.set_link(node, Link.STALLED if fault is SingleFault.CUT else Link.REFUSED)
                return node, lambda: self._proxies.set_link(node, Link.OPEN)
        if fault is SingleFault.COORDINATOR:
            node = self._find_coordinator()
        kind = FaultKind.HANG if fault is SingleFault.HANG else FaultKind.CRASH
        self._brokers.inject_fault(kind, node)
        return node, lambda: self._brokers.repair(kind, node)

    def _find_coordinator(self) -> int:
        while True:
            try:
                with KafkaAdminClient(bootstrap_servers=self._servers.split(",")) as admin:
                    partitions = admin.describe_topics(["__consumer_offsets"])[0]["partitions"]
            except TRANSIENT_ERRORS:
                time.sleep(TICK_S)
                continue
            number = _hash_like_java(self._topics.prefix) % len(partitions)
            return next(int(each["leader_id"]) for each in partitions if each["partition_index"] == number)

    def _find_longest(self, since: float, until: float) -> tuple[float, int]:
        arrivals: dict[int, dict[int, int]] = defaultdict(dict)
        for (partition, offset), timestamp_ms in self._load.list_arrivals().items():
            arrivals[partition][offset] = timestamp_ms
        return max(
            (
                find_standstill(
                    list(steps),
                    arrivals[partition],
                    since_ms=int(since * 1000),
                    until_ms=int(until * 1000),
                ),
                partition,
            )
            for partition, steps in self._progress.history.items()
        )


def _hash_like_java(text: str) -> int:
    """`String.hashCode`, by which Kafka finds the coordinator of a group."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def describe_distribution(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    return (
        f"{len(ordered)} faults: median {statistics.median(ordered):.1f} s, longest {ordered[-1]:.1f} s;"
        f" in order {', '.join(f'{each:.1f}' for each in ordered)}"
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos standstill", description=__doc__)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument(
        "--first", type=int, default=0, help="leave out the faults before this one, to measure in parts"
    )
    parser.add_argument("--last", type=int, help="leave out the faults after this one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=SingleFault, choices=list(SingleFault), help="one kind of fault")
    parser.add_argument("--broker-session-ms", type=int, default=BROKER_SESSION_MS)
    parser.add_argument("--results", type=Path, help="append to this file, and report all of it")
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    options = parser.parse_args(arguments)
    planned = [options.only] * options.faults if options.only else plan_single_faults(options.seed, options.faults)
    last = len(planned) - 1 if options.last is None else options.last
    results: list[Measurement] = []
    folder = Path(tempfile.mkdtemp(prefix="labelwatch-standstill-"))
    with ExitStack() as stack:
        run = StandstillRun(folder, options.seed * 1000 + options.first, stack, options.broker_session_ms)
        for number in range(options.first, last + 1):
            result = run.measure(number, planned[number])
            results.append(result)
            print(
                f"{number:>3}  {result.fault:<12} target {result.target}  {result.seconds:6.1f} s  partition"
                f" {result.partition}  {time.strftime('%H:%M:%S', time.gmtime(result.since))}",
                flush=True,
            )
            if options.results:
                with options.results.open("a") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
        problems = list(run.problems)
    print("\n".join(problems))
    if options.keep or problems:
        print(f"logs are in {folder}")
    else:
        shutil.rmtree(folder)
    seconds = [result.seconds for result in results]
    if options.results:
        seconds = [json.loads(line)["seconds"] for line in options.results.read_text().splitlines()]
    print(describe_distribution(seconds), f"(load of the machine: {os.getloadavg()[0]:.1f})")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
