"""Thousands of hostile messages: `python -m tests.chaos.hostile --messages 20000`.

A real worker on a real Kafka must turn each into a dead letter or assess it. Its memory must not grow by more than
`MAX_GROWTH` after the first tenth. The exit status says whether both hold.
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
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.log.kafka.admin import create_topics
from service.log.kafka.log import KafkaLog
from service.log.protocol import Output
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.chaos.hostile_messages import ASSESSED, DATASETS, generate_hostile_messages
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
    """What the check needs to recognise the dead letter of a message."""

    kind: str
    fates: frozenset[str]
    digest: bytes


@dataclass(slots=True)
class HostileOutcome:
    fates: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # resident bytes after a tenth of the messages and after all
    peak: int = 0
    seconds: float = 0.0

    @property
    def growth(self) -> float:
        return self.memory[1] / self.memory[0]


def _hash_message(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """Hashes every byte that a dead letter must repeat."""
    digest = hashlib.sha256()
    for part in (key, value, *itertools.chain.from_iterable((name.encode(), text) for name, text in headers)):
        digest.update(b"none" if part is None else b"%d:" % len(part) + part)
    return digest.digest()


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
            log = stack.enter_context(closing(KafkaLog(settings)))
            log.append(
                [Output(self._topics.datasets, one.name.encode(), one.model_dump_json().encode()) for one in DATASETS]
            )
            progress = stack.enter_context(
                ProgressMonitor(cluster.bootstrap_servers, self._topics, partitions=PARTITIONS)
            )
            workers = stack.enter_context(WorkerProcesses(self._folder, self._make_environment(settings), ("hostile",)))
            started_at = time.monotonic()
            self._send_all(log, progress, workers)
            self.outcome.seconds = time.monotonic() - started_at
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

    def _send_all(self, log: KafkaLog, progress: ProgressMonitor, workers: WorkerProcesses) -> None:
        messages = itertools.islice(generate_hostile_messages(self._seed), self._messages)
        while chunk := list(itertools.islice(messages, CHUNK_SIZE)):
            log.append([self._record_sent(message) for message in chunk], timeout=STALL_TIMEOUT_S)
            self._wait_until_processed(progress, workers, len(self._sent) - MAX_BACKLOG)
            if not self.outcome.memory and sum(progress.positions.values()) >= self._messages // 10:
                self.outcome.memory.append(_read_memory(workers, "VmRSS"))
        self._wait_until_processed(progress, workers, len(self._sent))
        self.outcome.memory.append(_read_memory(workers, "VmRSS"))
        self.outcome.peak = _read_memory(workers, "VmHWM")

    def _record_sent(self, message: HostileMessage) -> Output:
        partition = len(self._sent) % PARTITIONS
        self._sent[partition, self._counts[partition]] = SentMessage(
            message.kind, message.fates, _hash_message(message.key, message.value, message.headers)
        )
        self._counts[partition] += 1
        return Output(self._topics.sentences, message.key, message.value, message.headers, partition)

    @staticmethod
    def _wait_until_processed(progress: ProgressMonitor, workers: WorkerProcesses, target: int) -> None:
        """Waits until `target` messages are processed. A worker that exits is started again."""
        highest, progressed_at = -1, time.monotonic()
        while (processed := sum(progress.positions.values())) < target:
            workers.supervise()
            if processed > highest:
                highest, progressed_at = processed, time.monotonic()
            if time.monotonic() - progressed_at > STALL_TIMEOUT_S:
                raise TimeoutError(
                    f"no progress for {STALL_TIMEOUT_S:.0f} s after {processed} messages: see the worker's log"
                )
            time.sleep(0.1)

    def _check(self, servers: str) -> None:
        counts: Counter[tuple[int, int]] = Counter()
        for letter in _iter_committed(servers, self._topics.dead_letters):
            headers = dict(letter.headers[-N_ADDED_HEADERS:])
            position = int(headers[f"{ERROR_HEADER_PREFIX}partition"]), int(headers[f"{ERROR_HEADER_PREFIX}offset"])
            counts[position] += 1
            sent = self._sent[position]
            stage = headers[f"{ERROR_HEADER_PREFIX}stage"].decode()
            self.outcome.fates[stage] += 1
            if stage not in sent.fates:
                self.outcome.problems.append(f"{position} ({sent.kind}) became a dead letter of the stage {stage}")
            if _hash_message(letter.key, letter.value, tuple(letter.headers[:-N_ADDED_HEADERS])) != sent.digest:
                self.outcome.problems.append(
                    f"the dead letter of {position} ({sent.kind}) is not its message byte for byte"
                )
        for record in _iter_committed(servers, self._topics.scores):
            identity = dict(record.headers)["ce_id"].decode()
            partition, offset = identity.rsplit("-", 2)[-2:]
            position = int(partition), int(offset)
            counts[position] += 1
            self.outcome.fates[ASSESSED] += 1
            if ASSESSED not in self._sent[position].fates:
                self.outcome.problems.append(f"{position} ({self._sent[position].kind}) was assessed")
        repeated = [position for position, count in counts.items() if count > 1]
        lost = [position for position in self._sent if position not in counts]
        self.outcome.problems += [f"{len(repeated)} have more than one output"] if repeated else []
        self.outcome.problems += [f"{len(lost)} are lost, such as {lost[:5]}"] if lost else []


def _read_memory(workers: WorkerProcesses, which: str) -> int:
    """Bytes, as the kernel counts them."""
    lines = Path(f"/proc/{workers.get_pid(0)}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{which}:")) * 1024


def _iter_committed(servers: str, topic: str) -> Iterator[ConsumerRecord]:
    """Yields one record at a time: all of them would not fit into memory."""
    with open_consumer(servers) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for records in consumer.poll(timeout_ms=500).values():
                yield from records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, help="a model folder; default: a tiny one")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="labelwatch-hostile-"))
    outcome = HostileRun(folder, messages=arguments.messages, seed=arguments.seed, model=arguments.model).run()
    fates = ", ".join(f"{count} {stage or 'assessed'}" for stage, count in outcome.fates.most_common())
    first, last = outcome.memory
    print(f"{arguments.messages} messages in {outcome.seconds:.0f} s: {fates}")
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
