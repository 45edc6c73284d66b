"""Hostile messages by the thousand: `python -m tests.chaos.hostile --messages 20000`.

A real worker on a real Kafka must make a dead letter of each, or assess it, and need no more memory at the end than
after a tenth of them. Ends non-zero where it does not.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.contracts import DatasetSettings
from service.log.kafka.admin import create_topics
from service.log.kafka.log import KafkaLog
from service.log.protocol import Output
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.chaos.hostile_messages import ASSESSED, generate_hostile_messages
from tests.chaos.processes import WorkerProcesses
from tests.chaos.reading import open_consumer
from tests.chaos.traffic import ProgressMonitor
from tests.kafka.broker import Cluster
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka.consumer.fetcher import ConsumerRecord

    from service.log.protocol import Headers
    from tests.chaos.hostile_messages import HostileMessage

PARTITIONS = 2
CHUNK_SIZE = 200
MAX_BACKLOG = 600
STALL_TIMEOUT_S = 600.0
MAX_DATASETS = 30
MAX_GROWTH = 1.25
ERROR_HEADER_PREFIX = "__connect.errors."
N_ADDED_HEADERS = 6  # headers of a dead letter
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SentMessage:
    """What is remembered of a message: enough to know its dead letter again."""

    kind: str
    fates: frozenset[str]
    digest: bytes


@dataclass(slots=True)
class HostileOutcome:
    fates: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # bytes resident, after a tenth and after all
    peak: int = 0
    seconds: float = 0.0

    @property
    def growth(self) -> float:
        return self.memory[1] / self.memory[0]


def _hash_message(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """Of every byte that a dead letter must keep."""
    said = hashlib.sha256()
    for part in (key, value, *itertools.chain.from_iterable((name.encode(), text) for name, text in headers)):
        said.update(b"none" if part is None else b"%d:" % len(part) + part)
    return said.digest()


class HostileRun:
    def __init__(self, folder: Path, *, messages: int, seed: int, model: Path | None) -> None:
        self._folder, self._messages, self._seed = folder, messages, seed
        self._model = model or make_model(folder / "model", "wordpiece")
        self._topics = Topics("hostile.")
        self._sent: dict[tuple[int, int], SentMessage] = {}
        self._counts = [0] * PARTITIONS
        self.outcome = HostileOutcome()

    def run(self) -> HostileOutcome:
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(self._folder / "kafka"))
            settings = KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)
            create_topics(settings, self._topics, partitions=PARTITIONS, replication=1, min_isr=1)
            stream = KafkaLog(settings)
            stack.callback(stream.close)
            forgets = DatasetSettings(name="forgets", version=1, forget_after_days=1)
            stream.append([Output(self._topics.datasets, b"forgets", forgets.model_dump_json().encode())])
            onlooker = stack.enter_context(
                ProgressMonitor(cluster.bootstrap_servers, self._topics, partitions=PARTITIONS)
            )
            workers = stack.enter_context(WorkerProcesses(self._folder, self._make_environment(settings), ("hostile",)))
            began = time.monotonic()
            self._feed(stream, onlooker, workers)
            self.outcome.seconds = time.monotonic() - began
            workers.drain()
            self.outcome.problems += workers.problems
            if workers.starts > 1:
                self.outcome.problems.append(f"the worker was started {workers.starts} times")
            self._check(cluster.bootstrap_servers)
        return self.outcome

    def _make_environment(self, settings: KafkaSettings) -> dict[str, str]:
        return {
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "LABELWATCH_TOPICS_PREFIX": self._topics.prefix,
            "LABELWATCH_MODEL_FOLDER": str(self._model),
            "LABELWATCH_WORKER_MAX_DATASETS": str(MAX_DATASETS),
            "LABELWATCH_WORKER_PUBLISH_SCORES": "true",
        }

    def _feed(self, stream: KafkaLog, onlooker: ProgressMonitor, workers: WorkerProcesses) -> None:
        messages = itertools.islice(generate_hostile_messages(self._seed), self._messages)
        while portion := list(itertools.islice(messages, CHUNK_SIZE)):
            stream.append([self._record_sent(one) for one in portion], timeout=STALL_TIMEOUT_S)
            self._wait_until_processed(onlooker, workers, len(self._sent) - MAX_BACKLOG)
            if not self.outcome.memory and sum(onlooker.positions.values()) >= self._messages // 10:
                self.outcome.memory.append(_read_memory(workers, "VmRSS"))
        self._wait_until_processed(onlooker, workers, len(self._sent))
        self.outcome.memory.append(_read_memory(workers, "VmRSS"))
        self.outcome.peak = _read_memory(workers, "VmHWM")

    def _record_sent(self, one: HostileMessage) -> Output:
        partition = len(self._sent) % PARTITIONS
        self._sent[partition, self._counts[partition]] = SentMessage(
            one.kind, one.fates, _hash_message(one.key, one.value, one.headers)
        )
        self._counts[partition] += 1
        return Output(self._topics.sentences, one.key, one.value, one.headers, partition)

    @staticmethod
    def _wait_until_processed(onlooker: ProgressMonitor, workers: WorkerProcesses, done: int) -> None:
        """Until so many are worked on. A worker that ends is started again, and told of in the end."""
        reached, since = -1, time.monotonic()
        while (now := sum(onlooker.positions.values())) < done:
            workers.supervise()
            if now > reached:
                reached, since = now, time.monotonic()
            if time.monotonic() - since > STALL_TIMEOUT_S:
                raise TimeoutError(
                    f"nothing moved for {STALL_TIMEOUT_S:.0f} s after {now} messages: see the worker's log"
                )
            time.sleep(0.1)

    def _check(self, servers: str) -> None:
        found: Counter[tuple[int, int]] = Counter()
        for letter in _iter_committed(servers, self._topics.dead_letters):
            added = dict(letter.headers[-N_ADDED_HEADERS:])
            place = int(added[f"{ERROR_HEADER_PREFIX}partition"]), int(added[f"{ERROR_HEADER_PREFIX}offset"])
            found[place] += 1
            sent = self._sent[place]
            stage = added[f"{ERROR_HEADER_PREFIX}stage"].decode()
            self.outcome.fates[stage] += 1
            if stage not in sent.fates:
                self.outcome.problems.append(f"{place} ({sent.kind}) ended as {stage}")
            if _hash_message(letter.key, letter.value, tuple(letter.headers[:-N_ADDED_HEADERS])) != sent.digest:
                self.outcome.problems.append(
                    f"the dead letter of {place} ({sent.kind}) is not its message byte for byte"
                )
        for record in _iter_committed(servers, self._topics.scores):
            identity = dict(record.headers)["ce_id"].decode()
            partition, offset = identity.rsplit("-", 2)[-2:]
            place = int(partition), int(offset)
            found[place] += 1
            self.outcome.fates[ASSESSED] += 1
            if ASSESSED not in self._sent[place].fates:
                self.outcome.problems.append(f"{place} ({self._sent[place].kind}) was assessed")
        often = [place for place, times in found.items() if times > 1]
        lost = [place for place in self._sent if place not in found]
        self.outcome.problems += [f"{len(often)} came out more than once"] if often else []
        self.outcome.problems += [f"{len(lost)} are lost, such as {lost[:5]}"] if lost else []


def _read_memory(workers: WorkerProcesses, which: str) -> int:
    """Bytes, as the system counts them."""
    lines = Path(f"/proc/{workers.get_pid(0)}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{which}:")) * 1024


def _iter_committed(servers: str, topic: str) -> Iterator[ConsumerRecord]:
    """One by one: all of them together would be gigabytes."""
    with open_consumer(servers) as reader:
        places = [TopicPartition(topic, number) for number in reader.partitions_for_topic(topic) or ()]
        ends = reader.end_offsets(places)
        reader.assign(places)
        reader.seek_to_beginning(*places)
        while any(reader.position(place) < ends[place] for place in places):
            for records in reader.poll(timeout_ms=500).values():
                yield from records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, help="a model folder; without: a tiny one")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="labelwatch-hostile-"))
    outcome = HostileRun(folder, messages=given.messages, seed=given.seed, model=given.model).run()
    fates = ", ".join(f"{n} {stage or 'assessed'}" for stage, n in outcome.fates.most_common())
    first, last = outcome.memory
    print(f"{given.messages} messages in {outcome.seconds:.0f} s: {fates}")
    print(f"memory after 10 %: {first / MIB:.0f} MiB, after 100 %: {last / MIB:.0f} MiB, ratio {outcome.growth:.3f}")
    print(f"most at any time: {outcome.peak / MIB:.0f} MiB")
    if outcome.growth > MAX_GROWTH:
        outcome.problems.append(f"memory has grown by more than {MAX_GROWTH:.2f}")
    if outcome.problems:
        print("\n".join(outcome.problems[:20]))
        print(f"{len(outcome.problems)} problems; logs are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
