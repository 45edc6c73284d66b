"""Real runs on a real Kafka: workers that work off a load while others join, stop or crash."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from service.log.kafka.admin import create_topics
from service.log.kafka.log import KafkaLog
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.bench.stream import append_messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.bench.scale.simulator import Change

WAIT_TIMEOUT_S = 120.0


class Plan(NamedTuple):
    """Workers at the start, and a change once a share of the sentences is committed."""

    name: str
    workers: int
    change: Change | None = None
    after_share: float = 0.25


@dataclass(slots=True)
class RealRun:
    """Times are seconds since the first sentence was sent."""

    plan: Plan
    partitions: int
    sentences: int
    send_s: float = 0.0
    seconds: float = 0.0
    change_at: float | None = None
    batches: list[dict[str, Any]] = field(default_factory=list)
    assignments: list[dict[str, Any]] = field(default_factory=list)
    order: dict[int, float] = field(default_factory=dict)  # of the members: the first partition of each worker


@dataclass(frozen=True, slots=True)
class Setting:
    """What all runs share. Without `model` the workers use the default model."""

    servers: str
    session_timeout_ms: int
    partitions: int
    batch_records: int
    sleep_s: float = 0.0
    model: Path | None = None


class WorkerProcess:
    """A process of `real_side`. Its events go to a queue that all workers of a run share."""

    def __init__(self, number: int, setting: Setting, prefix: str, events: queue.Queue[dict[str, Any]]) -> None:
        job: dict[str, Any] = {
            "servers": setting.servers,
            "prefix": prefix,
            "batch_records": setting.batch_records,
            "session_timeout_ms": setting.session_timeout_ms,
            "sleep_s": setting.sleep_s,
        }
        if setting.model is not None:
            job["model"] = str(setting.model)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.scale.real_side", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._number, self._events = number, events
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put({**json.loads(line), "worker": self._number})
        self._events.put({"event": "exited", "worker": self._number})

    def join_group(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(WAIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Runner:
    """Runs one plan."""

    def __init__(self, setting: Setting, plan: Plan, values: Sequence[bytes]) -> None:
        self._setting, self._plan, self._values = setting, plan, values
        self._topics = Topics(f"{plan.name}.")
        self._kafka = KafkaSettings(bootstrap_servers=setting.servers)
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._owned: dict[int, list[int]] = {}
        self._ignored: set[int] = set()

    def run(self) -> RealRun:
        plan, setting = self._plan, self._setting
        create_topics(self._kafka, self._topics, partitions=setting.partitions, replication=1, min_isr=1)
        extra = 1 if plan.change == "start" else 0
        workers = [
            WorkerProcess(number, setting, self._topics.prefix, self._events) for number in range(plan.workers + extra)
        ]
        try:
            for _ in workers:
                self._wait_for("loaded")
            for worker in workers[: plan.workers]:
                worker.join_group()
            self._wait_for_assignment(plan.workers)
            return self._measure(workers)
        finally:
            for worker in workers:
                worker.close()

    def _measure(self, workers: Sequence[WorkerProcess]) -> RealRun:
        found = RealRun(self._plan, self._setting.partitions, len(self._values))
        began = time.perf_counter()
        append_messages(KafkaLog(self._kafka), self._topics, list(self._values), self._setting.partitions)
        found.send_s = time.perf_counter() - began
        found.order = self._get_order()
        committed, waiting = 0, self._plan.change
        while committed < len(self._values):
            event = self._next_event()
            if event["event"] == "batch":
                committed += event["records"]
                found.batches.append(event)
                found.seconds = event["at"] - began
            elif event["event"] == "assigned":
                found.assignments.append(event)
                self._note_assignment(event)
            elif event["event"] == "joins":
                found.change_at = event["at"] - began
            if waiting and committed >= self._plan.after_share * len(self._values):
                found.change_at = self._apply_change(waiting, workers[-1], began)
                waiting = None
        if self._plan.change == "start":
            found.order = self._get_order()
        return found

    def _apply_change(self, change: Change, worker: WorkerProcess, began: float) -> float | None:
        """When the change happened; a worker that starts says itself when it joins."""
        if change == "start":
            worker.join_group()
            return None
        self._ignored.add(self._plan.workers - 1)
        worker.send_signal(signal.SIGTERM if change == "stop" else signal.SIGKILL)
        return time.perf_counter() - began

    def _wait_for(self, name: str) -> None:
        while self._next_event()["event"] != name:
            pass

    def _wait_for_assignment(self, workers: int) -> None:
        """Until every worker has partitions, and all partitions a worker."""
        while not (len(self._owned) == workers and all(self._owned.values())) or (
            sum(map(len, self._owned.values())) != self._setting.partitions
        ):
            event = self._next_event()
            if event["event"] == "assigned":
                self._note_assignment(event)

    def _note_assignment(self, event: dict[str, Any]) -> None:
        self._owned[event["worker"]] = event["owned"]

    def _get_order(self) -> dict[int, float]:
        return {worker: float(owned[0]) for worker, owned in self._owned.items() if owned}

    def _next_event(self) -> dict[str, Any]:
        try:
            event = self._events.get(timeout=WAIT_TIMEOUT_S)
        except queue.Empty:
            raise RuntimeError(f"{self._plan.name}: no worker has made progress for {WAIT_TIMEOUT_S:.0f} s") from None
        if event["event"] == "exited" and event["worker"] not in self._ignored:
            raise RuntimeError(f"{self._plan.name}: a worker ended, its message stands above")
        return event


def run_plans(setting: Setting, plans: Sequence[Plan], values: Sequence[bytes], per_worker: int) -> Iterator[RealRun]:
    for plan in plans:
        run = Runner(setting, plan, values[: per_worker * plan.workers]).run()
        change = "" if run.change_at is None else f", {plan.change} at {run.change_at:.1f} s"
        print(
            f"real, {plan.name}: {run.sentences} sentences in {run.seconds:.1f} s{change}", file=sys.stderr, flush=True
        )
        yield run
