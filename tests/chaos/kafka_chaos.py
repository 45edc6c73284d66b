"""Real workers on real Kafka, and things that happen to both. `run` gives a report.

A report without problems says: exact to the bit, everything once, nothing missing.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import time
import uuid
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.kafka.admin import create_topics
from service.log.kafka.settings import KafkaSettings
from service.log.topics import Topics
from tests.chaos.brokers import Brokers
from tests.chaos.checks import Checker, Logs, Standstill, longest_standstill
from tests.chaos.messages import MAX_WORDS, made_messages
from tests.chaos.plan import BROKER_SESSION_MS, OF_BROKERS, WORKERS, Fault, Kind, Shape, plan
from tests.chaos.processes import Workers
from tests.chaos.reading import read_topic
from tests.chaos.traffic import Feeder, Onlooker, send_settings
from tests.kafka.broker import Cluster
from tests.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PARTITIONS = 4
BATCH_RECORDS = 16
MIN_WORDS = 1
PRIOR_WORDS = 0
TICK = 0.05
ASK_AGAIN = 2.0  # seconds between questions to the brokers, each of which takes its time
GET_OVER = 60.0  # seconds for which a fault waits at most until the one before is got over
STALLED = 300.0  # seconds without any progress, after which a run is given up


class StalledError(Exception):
    """Nothing moves any more."""


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    brokers: int
    messages: int
    faults: Mapping[Kind, int]  # that hit
    ended: Mapping[str, int]  # workers that ended by themselves and were started again, by why
    undone: int  # messages that workers wrote and never committed: the traces of faults that hit in mid-transaction
    seconds: float
    standstill: Standstill
    problems: tuple[str, ...]


def run(folder: Path, *, seed: int, shape: Shape, servers: str | None = None) -> Report:
    """One run, on the brokers named or on ones of its own; logs of workers and brokers stay in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = None
        if servers is None:
            quick = {"broker.session.timeout.ms": str(BROKER_SESSION_MS), "broker.heartbeat.interval.ms": "1000"}
            cluster = stack.enter_context(Cluster(folder / "kafka", brokers=shape.brokers, settings=quick))
            servers = cluster.bootstrap_servers
        chaos = Chaos(folder, seed, shape, servers, Brokers(servers, cluster))
        return chaos.run(stack)


class Chaos:
    def __init__(self, folder: Path, seed: int, shape: Shape, servers: str, brokers: Brokers) -> None:
        self._seed, self._shape, self._servers, self._brokers = seed, shape, servers, brokers
        self._topics = Topics(f"chaos-{uuid.uuid4().hex[:8]}.")
        self._model = make_model(folder / "model", "wordpiece", poison="fails", manifest={"invariant": "exact"})
        self._classifier = Classifier(ModelFolder.load(self._model))
        # Two with a fixed identity, one without: both ways of being a member go on at once.
        identities = (*(f"chaos-{number}" for number in range(WORKERS - 1)), None)
        self._workers = Workers(folder, self._environment(), identities)
        self._onlooker = Onlooker(servers, self._topics, partitions=PARTITIONS)
        self._feeder = Feeder(
            servers,
            self._topics.sentences,
            made_messages(seed, self._classifier),
            rate=shape.rate,
            done=lambda: sum(self._onlooker.positions.values()),
        )
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._hits: Counter[Kind] = Counter()
        self._hit_at = 0.0

    def _environment(self) -> dict[str, str]:
        return {
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": self._servers,
            **self._shape.intervals.environment,
            "LABELWATCH_TOPICS_PREFIX": self._topics.prefix,
            "LABELWATCH_WORKER_GROUP": self._topics.prefix,
            "LABELWATCH_WORKER_BATCH_RECORDS": str(BATCH_RECORDS),
            "LABELWATCH_WORKER_MAX_WORDS": str(MAX_WORDS),
            "LABELWATCH_WORKER_MIN_WORDS": str(MIN_WORDS),
            "LABELWATCH_WORKER_PRIOR_WORDS": str(PRIOR_WORDS),
            "LABELWATCH_WORKER_PUBLISH_SCORES": "true",
            "LABELWATCH_MODEL_FOLDER": str(self._model),
        }

    def run(self, stack: ExitStack) -> Report:
        copies = 3 if self._shape.brokers >= 3 else 1
        create_topics(
            KafkaSettings(bootstrap_servers=self._servers),
            self._topics,
            partitions=PARTITIONS,
            replication=copies,
            min_isr=min(2, copies),
        )
        send_settings(self._servers, self._topics)
        for part in (self._onlooker, self._workers, self._feeder):
            stack.enter_context(part)
        began = time.monotonic()
        try:
            self._go_on(lambda: len(self._onlooker.positions) == PARTITIONS, "every partition is read")
            began = time.monotonic()
            self._schedule(plan(self._seed, self._shape))
            self._go_on(lambda: not self._actions, "the faults are over")
            self._go_on(lambda: len(self._feeder.made) >= self._shape.messages, "enough is sent")
            self._go_on(self._brokers.whole, "the brokers are whole again")
            acknowledged = self._feeder.finish()
            ends = read_topic(self._servers, self._topics.sentences).ends
            wanted = {partition: end for partition, end in ends.items() if end}
            self._go_on(lambda: self._onlooker.positions == wanted, f"all is read, up to {wanted}")
        except StalledError as error:
            return self._given_up(str(error), time.monotonic() - began)
        seconds = time.monotonic() - began
        self._workers.drain()
        logs = self._read()
        checker = Checker(self._classifier, min_words=MIN_WORDS, prior_words=PRIOR_WORDS)
        written = read_topic(self._servers, self._topics.state, committed=False)
        return self._report(
            seconds,
            [*self._workers.problems, *checker.check(logs, self._feeder.made, acknowledged)],
            messages=len(logs.sentences.messages),
            undone=len(written.messages) - len(logs.state.messages),
            standstill=longest_standstill(logs.sentences, self._onlooker.steps, self._brokers.away),
        )

    def _read(self) -> Logs:
        names = self._topics
        read = (
            read_topic(self._servers, topic)
            for topic in (names.sentences, names.review, names.scores, names.dead_letters, names.state)
        )
        return Logs(*read)

    def _given_up(self, why: str, seconds: float) -> Report:
        names = self._topics
        hanging = self._brokers.hanging((names.review, names.scores, names.dead_letters, names.state), PARTITIONS)
        lost = [f"the brokers have lost the end of a transaction in {', '.join(hanging)}"] if hanging else []
        sentences = read_topic(self._servers, names.sentences)
        return self._report(
            seconds,
            [why, *lost, *self._workers.problems],
            messages=len(sentences.messages),
            undone=0,
            standstill=longest_standstill(sentences, self._onlooker.steps, self._brokers.away),
        )

    def _report(
        self, seconds: float, problems: list[str], *, messages: int, undone: int, standstill: Standstill
    ) -> Report:
        return Report(
            seed=self._seed,
            brokers=self._shape.brokers,
            messages=messages,
            faults=dict(self._hits),
            ended=dict(self._workers.ended),
            undone=undone,
            seconds=seconds,
            standstill=standstill,
            problems=tuple(problems),
        )

    # -- time --------------------------------------------------------------------------------------------------------

    def _go_on(self, done: Callable[[], bool], what: str) -> None:
        """Does what is due until a condition holds; gives up only where nothing has moved for very long."""
        waiting_since = time.monotonic()
        while not done():
            while self._actions and self._actions[0][0] <= time.monotonic():
                heapq.heappop(self._actions)[2]()
            self._workers.tend()
            quiet = time.monotonic() - max(self._onlooker.moved_at, waiting_since)
            if quiet > STALLED:
                at = self._onlooker.positions
                raise StalledError(f"nothing moved for {quiet:.0f} s, waiting until {what}; the positions are {at}")
            time.sleep(TICK)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._actions, (time.monotonic() + seconds, next(self._order), action))

    def _schedule(self, faults: list[Fault]) -> None:
        until = time.monotonic() + GET_OVER
        for fault in faults:
            self._after(fault.at, functools.partial(self._happen, fault, until + fault.at))

    # -- faults ------------------------------------------------------------------------------------------------------

    def _happen(self, fault: Fault, until: float) -> None:
        hit = self._hit_a_broker(fault) if fault.kind in OF_BROKERS else self._hit_a_worker(fault, until)
        if hit:
            self._hits[fault.kind] += 1
            self._hit_at = time.monotonic()
        else:
            self._after(ASK_AGAIN if fault.kind in OF_BROKERS else TICK, lambda: self._happen(fault, until))

    def _hit_a_worker(self, fault: Fault, until: float) -> bool:
        """The one that is meant, or another where that one is down already."""
        numbers = [(fault.target + step) % WORKERS for step in range(WORKERS)]
        if not fault.sudden and time.monotonic() < until:
            # A fault that hits while its victim is still getting over the last one is worth little.
            if self._onlooker.moved_at < self._hit_at:
                return False
            numbers = [number for number in numbers if self._workers.works(number)]
        return any(self._hit_worker(fault, number) for number in numbers)

    def _hit_worker(self, fault: Fault, number: int) -> bool:
        if fault.kind is Kind.KILL:
            return self._workers.kill(number, pause=fault.seconds)
        if fault.kind is Kind.DRAIN:
            return self._workers.terminate(number, pause=fault.seconds)
        hit = self._workers.freeze(number)
        if hit:
            self._after(fault.seconds, lambda: self._workers.thaw(number))
        return hit

    def _hit_a_broker(self, fault: Fault) -> bool:
        if not self._brokers.whole():
            return False
        if self._brokers.single and fault.kind is Kind.RESTART:
            # A single broker that ends takes transactions for committed whose end it can't write any more (Kafka
            # 4.3): readers are then stuck, and no client can help it. So its restart waits for a moment without any.
            self._feeder.hold()
            if self._onlooker.positions != self._feeder.ends or not self._brokers.idle():
                return False
        self._brokers.hit(fault.kind, fault.target)
        self._after(fault.seconds, lambda: self._mend(fault))
        return True

    def _mend(self, fault: Fault) -> None:
        self._brokers.mend(fault.kind, fault.target)
        self._feeder.release()
