"""Runs real workers on a real Kafka and injects faults into both.

A report without problems means: exact to the bit, every message once, none missing.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import time
import uuid
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.kafka.admin import create_topics
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.chaos.brokers import Brokers, stamp_on_arrival
from tests.chaos.checks import Stall, TopicChecker, TopicDumps, find_longest_stall
from tests.chaos.clocks import SEAM, WorkerClocks
from tests.chaos.disks import SmallDisks, can_mount
from tests.chaos.earlier_version import check_out
from tests.chaos.messages import (
    CHANGED_DATASETS,
    DATASETS,
    MAX_WORDS,
    SECOND_MODEL,
    generate_messages,
    make_second_model,
)
from tests.chaos.plan import (
    BROKER_FAULTS,
    BROKER_SESSION_MS,
    N_WORKERS,
    NETWORK_FAULTS,
    PROXIED_WORKER,
    Fault,
    FaultKind,
    RunProfile,
    plan_faults,
)
from tests.chaos.processes import EARLIER_PATH, WorkerProcesses
from tests.chaos.proxy import BrokerProxies, Link
from tests.chaos.reading import read_topic
from tests.chaos.traffic import LoadGenerator, ProgressMonitor, send_settings
from tests.kafka.broker import Cluster
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PARTITIONS = 4
BATCH_RECORDS = 16
MIN_WORDS = 1
PRIOR_WORDS = 0
TICK_S = 0.05
RETRY_INTERVAL_S = 2.0  # between health checks of the brokers
MAX_RECOVERY_WAIT_S = 60.0  # the longest time that a fault waits for the recovery from the one before
STALL_TIMEOUT_S = 300.0  # a run without any progress for so long has failed


class StalledError(Exception):
    """The workers make no progress."""


@dataclass(frozen=True, slots=True)
class ChaosReport:
    seed: int
    brokers: int
    messages: int
    faults: Mapping[FaultKind, int]  # that were injected
    worker_exits: Mapping[str, int]  # workers that exited by themselves, by reason
    uncommitted: int  # messages that were written and never committed: faults that hit in the middle of a transaction
    seconds: float
    longest_stall: Stall
    problems: tuple[str, ...]


def find_impossible_faults(folder: Path, *, external_brokers: bool = False) -> dict[FaultKind, str]:
    """The kinds of faults that can't be injected here, and why."""
    impossible: dict[FaultKind, str] = {}
    if not can_mount(folder):
        impossible[FaultKind.FULL] = "this process may not mount a tmpfs"
    if external_brokers:
        impossible |= dict.fromkeys((*BROKER_FAULTS, *NETWORK_FAULTS), "the brokers are not those of the run")
    return impossible


def run_chaos(
    folder: Path, *, seed: int, profile: RunProfile, servers: str | None = None, earlier_commit: str | None = None
) -> ChaosReport:
    """Runs once, on the named brokers or on new ones. The logs of workers and brokers stay in the folder.

    `earlier_commit`: the workers start with its code, and are upgraded by `FaultKind.UPGRADE`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = None if earlier_commit is None else check_out(earlier_commit, folder / "earlier")
    with ExitStack() as stack:
        if servers is not None:
            return ChaosRun(folder, seed, profile, servers, Brokers(servers, None), proxies=None, earlier=earlier).run(
                stack
            )
        nodes = range(1, profile.brokers + 1)
        disks = None
        if FaultKind.FULL in profile.faults:
            disks = stack.enter_context(SmallDisks(folder / "kafka", nodes))
        proxies = stack.enter_context(BrokerProxies(nodes))
        settings = {"broker.session.timeout.ms": str(BROKER_SESSION_MS), "broker.heartbeat.interval.ms": "1000"}
        cluster = stack.enter_context(
            Cluster(folder / "kafka", brokers=profile.brokers, settings=settings, advertised_ports=proxies.ports)
        )
        proxies.forward_to(cluster.proxied_ports)
        servers = cluster.bootstrap_servers
        chaos = ChaosRun(
            folder, seed, profile, servers, Brokers(servers, cluster, disks), proxies=proxies, earlier=earlier
        )
        return chaos.run(stack)


class ChaosRun:
    def __init__(
        self,
        folder: Path,
        seed: int,
        profile: RunProfile,
        servers: str,
        brokers: Brokers,
        *,
        proxies: BrokerProxies | None,
        earlier: Path | None,
    ) -> None:
        self._seed, self._profile, self._servers, self._brokers = seed, profile, servers, brokers
        self._proxies = proxies
        self._upgrades = earlier is not None
        self._clocks = WorkerClocks(folder, N_WORKERS) if FaultKind.CLOCK in profile.faults else None
        self._topics = Topics(f"chaos-{uuid.uuid4().hex[:8]}.")
        self._model = make_model(folder / "model", "wordpiece", poison="fails", manifest={"invariant": "exact"})
        self._classifier = Classifier(ModelFolder.load(self._model))
        self._registry = folder / "registry"
        second = make_second_model(self._registry)
        self._named = {SECOND_MODEL: Classifier(ModelFolder.load(second))}
        # Two static members and one dynamic member: both kinds of membership are tested together.
        identities = (*(f"chaos-{number}" for number in range(N_WORKERS - 1)), None)
        overrides = {number: self._make_override(number, earlier) for number in range(N_WORKERS)}
        self._workers = WorkerProcesses(folder, self._make_environment(), identities, overrides)
        self._progress = ProgressMonitor(servers, self._topics, partitions=PARTITIONS)
        self._load = LoadGenerator(
            servers,
            self._topics.sentences,
            generate_messages(seed, self._classifier),
            rate=profile.rate,
            count_processed=lambda: sum(self._progress.positions.values()),
        )
        self._scheduled: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._fault_counts: Counter[FaultKind] = Counter()
        self._last_fault_at = 0.0

    def _make_environment(self) -> dict[str, str]:
        return {
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": self._servers,
            **self._profile.timeouts.environment,
            "LABELWATCH_TOPICS_PREFIX": self._topics.prefix,
            "LABELWATCH_WORKER_GROUP": self._topics.prefix,
            "LABELWATCH_WORKER_BATCH_RECORDS": str(BATCH_RECORDS),
            "LABELWATCH_WORKER_MAX_WORDS": str(MAX_WORDS),
            "LABELWATCH_WORKER_MIN_WORDS": str(MIN_WORDS),
            "LABELWATCH_WORKER_PRIOR_WORDS": str(PRIOR_WORDS),
            "LABELWATCH_WORKER_PUBLISH_SCORES": "true",
            "LABELWATCH_MODEL_FOLDER": str(self._model),
            "LABELWATCH_MODELS_PATH": str(self._registry),
        }

    def _make_override(self, number: int, earlier: Path | None) -> dict[str, str]:
        """The environment of one worker."""
        paths = [str(SEAM), os.environ.get("PYTHONPATH", "")]
        override = {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        if self._clocks is not None:
            override |= self._clocks.get_environment(number)
        if earlier is not None:
            override[EARLIER_PATH] = str(earlier)
        if self._proxies is not None and number == PROXIED_WORKER:
            override["LABELWATCH_KAFKA_BOOTSTRAP_SERVERS"] = self._proxies.bootstrap_servers
        return override

    def run(self, stack: ExitStack) -> ChaosReport:
        replicas = 3 if self._profile.brokers >= 3 else 1
        create_topics(
            KafkaSettings(bootstrap_servers=self._servers),
            self._topics,
            partitions=PARTITIONS,
            replication=replicas,
            min_isr=min(2, replicas),
        )
        stamp_on_arrival(self._servers, self._topics.state, self._topics.sentences)
        send_settings(self._servers, self._topics, DATASETS)
        for manager in (self._progress, self._workers, self._load):
            stack.enter_context(manager)
        started_at = time.monotonic()
        try:
            self._run_until(lambda: len(self._progress.positions) == PARTITIONS, "every partition is read")
            started_at = time.monotonic()
            self._schedule_faults(plan_faults(self._seed, self._profile))
            self._run_until(lambda: not self._scheduled, "the faults are over")
            self._run_until(lambda: len(self._load.sent) >= self._profile.messages, "enough messages are sent")
            self._run_until(self._brokers.is_healthy, "the brokers have recovered")
            acknowledged = self._load.finish()
            ends = read_topic(self._servers, self._topics.sentences).end_offsets
            expected = {partition: end for partition, end in ends.items() if end}
            self._run_until(lambda: self._progress.positions == expected, f"all messages are read, up to {expected}")
        except StalledError as error:
            return self._report_stall(str(error), time.monotonic() - started_at)
        seconds = time.monotonic() - started_at
        self._workers.drain()
        dumps = self._read_topics()
        checker = TopicChecker(
            self._classifier,
            self._named,
            min_words=MIN_WORDS,
            prior_words=PRIOR_WORDS,
            annotators=not self._upgrades,
        )
        written = read_topic(self._servers, self._topics.state, committed=False)
        return self._make_report(
            seconds,
            [*self._workers.problems, *checker.check(dumps, self._load.sent, acknowledged)],
            messages=len(dumps.sentences.messages),
            uncommitted=len(written.messages) - len(dumps.state.messages),
            longest_stall=find_longest_stall(dumps.sentences, self._progress.history, self._brokers.outages),
        )

    def _read_topics(self) -> TopicDumps:
        names = self._topics
        dumps = (
            read_topic(self._servers, topic)
            for topic in (names.sentences, names.review, names.scores, names.dead_letters, names.state)
        )
        return TopicDumps(*dumps)

    def _report_stall(self, reason: str, seconds: float) -> ChaosReport:
        names = self._topics
        hanging = self._brokers.find_hanging_transactions(
            (names.review, names.scores, names.dead_letters, names.state), PARTITIONS
        )
        lost = [f"the brokers have lost the end of a transaction in {', '.join(hanging)}"] if hanging else []
        sentences = read_topic(self._servers, names.sentences)
        return self._make_report(
            seconds,
            [reason, *lost, *self._workers.problems],
            messages=len(sentences.messages),
            uncommitted=0,
            longest_stall=find_longest_stall(sentences, self._progress.history, self._brokers.outages),
        )

    def _make_report(
        self, seconds: float, problems: list[str], *, messages: int, uncommitted: int, longest_stall: Stall
    ) -> ChaosReport:
        return ChaosReport(
            seed=self._seed,
            brokers=self._profile.brokers,
            messages=messages,
            faults=dict(self._fault_counts),
            worker_exits=dict(self._workers.exits),
            uncommitted=uncommitted,
            seconds=seconds,
            longest_stall=longest_stall,
            problems=tuple(problems),
        )

    # -- time --------------------------------------------------------------------------------------------------------

    def _run_until(self, is_done: Callable[[], bool], goal: str) -> None:
        """Runs scheduled actions until a condition holds. Gives up after a long time without progress."""
        waiting_since = time.monotonic()
        while not is_done():
            while self._scheduled and self._scheduled[0][0] <= time.monotonic():
                heapq.heappop(self._scheduled)[2]()
            self._workers.supervise()
            idle_s = time.monotonic() - max(self._progress.last_progress_at, waiting_since)
            if idle_s > STALL_TIMEOUT_S:
                positions = self._progress.positions
                raise StalledError(
                    f"no progress for {idle_s:.0f} s, waiting until {goal}; the positions are {positions}"
                )
            time.sleep(TICK_S)

    def _call_later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._scheduled, (time.monotonic() + seconds, next(self._order), action))

    def _schedule_faults(self, faults: list[Fault]) -> None:
        deadline = time.monotonic() + MAX_RECOVERY_WAIT_S
        for fault in faults:
            self._call_later(fault.at, functools.partial(self._apply_fault, fault, deadline + fault.at))

    # -- faults ------------------------------------------------------------------------------------------------------

    def _apply_fault(self, fault: Fault, deadline: float) -> None:
        if fault.kind in BROKER_FAULTS:
            injected = self._inject_broker_fault(fault)
        elif fault.kind in NETWORK_FAULTS:
            injected = self._inject_network_fault(fault)
        elif fault.kind is FaultKind.SETTINGS:
            injected = self._change_settings()
        else:
            injected = self._inject_worker_fault(fault, deadline)
        if injected:
            self._fault_counts[fault.kind] += 1
            self._last_fault_at = time.monotonic()
        else:
            waits_for_brokers = fault.kind in BROKER_FAULTS or fault.kind is FaultKind.SETTINGS
            self._call_later(
                RETRY_INTERVAL_S if waits_for_brokers else TICK_S, lambda: self._apply_fault(fault, deadline)
            )

    def _inject_network_fault(self, fault: Fault) -> bool:
        proxies = self._proxies
        assert proxies is not None, "the network to external brokers can't be broken"
        proxies.set_link(fault.target, Link.STALLED if fault.kind is FaultKind.CUT else Link.REFUSED)
        self._call_later(fault.seconds, lambda: proxies.set_link(fault.target, Link.OPEN))
        return True

    def _change_settings(self) -> bool:
        """Waits for the brokers: what repairs them is scheduled in this thread."""
        if not self._brokers.is_healthy():
            return False
        send_settings(self._servers, self._topics, CHANGED_DATASETS)
        return True

    def _inject_worker_fault(self, fault: Fault, deadline: float) -> bool:
        """Hits the target, or another worker if the target is down."""
        if fault.kind is FaultKind.UPGRADE:
            return self._workers.upgrade(fault.target, pause=fault.seconds)
        numbers = [(fault.target + step) % N_WORKERS for step in range(N_WORKERS)]
        if not fault.sudden and time.monotonic() < deadline:
            # A fault during the recovery from the last one tests little.
            if self._progress.last_progress_at < self._last_fault_at:
                return False
            numbers = [number for number in numbers if self._workers.has_partitions(number)]
        return any(self._hit_worker(fault, number) for number in numbers)

    def _hit_worker(self, fault: Fault, number: int) -> bool:
        if fault.kind is FaultKind.KILL:
            return self._workers.kill(number, pause=fault.seconds)
        if fault.kind is FaultKind.DRAIN:
            return self._workers.terminate(number, pause=fault.seconds)
        if fault.kind is FaultKind.CLOCK:
            clocks = self._clocks
            assert clocks is not None
            clocks.set_offset(number, fault.jump)
            self._call_later(fault.seconds, lambda: clocks.set_offset(number, 0))
            return True
        frozen = self._workers.freeze(number)
        if frozen:
            self._call_later(fault.seconds, lambda: self._workers.thaw(number))
        return frozen

    def _inject_broker_fault(self, fault: Fault) -> bool:
        if not self._brokers.is_healthy():
            return False
        if self._brokers.single and fault.kind is FaultKind.RESTART:
            # A single broker that shuts down can report a transaction as committed and not write its commit marker (Kafka
            # 4.3). Readers then wait forever, and no client can repair it. So the restart waits until none is open.
            self._load.pause()
            if self._progress.positions != self._load.end_offsets or not self._brokers.is_idle():
                return False
        self._brokers.inject_fault(fault.kind, fault.target)
        self._call_later(fault.seconds, lambda: self._repair_broker(fault))
        return True

    def _repair_broker(self, fault: Fault) -> None:
        self._brokers.repair(fault.kind, fault.target)
        self._load.resume()
