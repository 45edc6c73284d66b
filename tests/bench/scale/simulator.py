"""A discrete-event simulation of workers, partitions, batches, commits and rebalances, driven by measured costs.

    poll     join again if the group rebalances; otherwise take up to a batch from the partitions that are restored
    commit   the offsets of a batch become visible, and the other workers have its state to read
    sync     a rebalance ends: partitions are assigned and their state is restored
    expire   the group removes a worker whose heartbeats have ended

Time is that of the simulation: nothing waits. Equal input gives equal results.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.bench.scale.group import JOINING, SYNCING, Group
from tests.bench.scale.measures import Measures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.bench.scale.costs import Costs
    from tests.bench.scale.load import Load

MIN_WAIT_S = 1e-3  # a rounded arrival may be a moment too early

Change = Literal["start", "stop", "crash"]


class Event(NamedTuple):
    """What happens to a worker: it starts, it stops after its batch and leaves, or it crashes."""

    at: float
    change: Change
    worker: int


class Span(NamedTuple):
    """Sentences of one partition in a batch: from `start` up to, but without, `end`."""

    partition: int
    start: int
    end: int


@dataclass(slots=True)
class Worker:
    """`life` increases when what was scheduled for the worker must not happen any more."""

    number: int
    batch_size: int
    alive: bool = False
    stopping: bool = False
    life: int = 0
    owned: Sequence[int] = ()
    usable_from: dict[int, float] = field(default_factory=dict)
    next_partition: int = 0
    notices_at: float = math.inf
    state_seen: float = 0.0  # of the records that all workers have written


class Simulation:
    """Runs until everything that arrives is committed, or until the horizon."""

    def __init__(
        self,
        costs: Costs,
        load: Load,
        events: Sequence[Event],
        *,
        horizon: float = math.inf,
        seed: int = 0,
        order: Mapping[int, float] | None = None,
        measures: Measures | None = None,
    ) -> None:
        self.costs = costs
        self.load = load
        self.group = Group(load.partitions, dict(order or {}))
        self.committed = [0] * load.partitions
        self.measures = measures or Measures(load)
        self._horizon = horizon
        self._random = random.Random(seed)
        self._workers: dict[int, Worker] = {}
        self._queue: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()
        self._state_written = 0.0
        self._remaining = load.total
        for event in events:
            self._schedule(event.at, partial(self._apply, event))

    def run(self) -> Measures:
        now = 0.0
        while self._queue and self._remaining:
            now, _, action = heapq.heappop(self._queue)
            if now > self._horizon:
                now = self._horizon
                break
            action(now)
        self.measures.end(now, self.committed)
        return self.measures

    def _schedule(self, at: float, action: Callable[[float], None]) -> None:
        heapq.heappush(self._queue, (at, next(self._numbers), action))

    def _schedule_for(self, worker: Worker, at: float, action: Callable[[Worker, float], None]) -> None:
        life = worker.life

        def act(now: float) -> None:
            if worker.life == life:
                action(worker, now)

        self._schedule(at, act)

    # -- workers and the group -------------------------------------------------------------------------------------

    def _apply(self, event: Event, now: float) -> None:
        worker = self._workers.setdefault(event.worker, Worker(event.worker, self._first_batch_size))
        if event.change == "start":
            if worker.alive:
                raise ValueError(f"worker {event.worker} runs already at {event.at}")
            worker.alive, worker.stopping, worker.batch_size = True, False, self._first_batch_size
            worker.life += 1
            worker.state_seen = self._state_written
            self.group.order.setdefault(worker.number, self._random.random())
            self.group.remove(worker.number, now)  # a new process is a new member
            self.group.add(worker.number, now)
            self._begin_rebalance(now)
            self._end_joining(now)
        elif not worker.alive:
            raise ValueError(f"worker {event.worker} does not run at {event.at}")
        elif event.change == "stop":
            worker.stopping = True
        else:
            self._end(worker)
            life = worker.life
            self._schedule(now + self.costs.session_timeout_s, lambda at: self._expire(worker, life, at))

    @property
    def _first_batch_size(self) -> int:
        return min(self.costs.initial_batch, self.costs.max_batch)

    def _end(self, worker: Worker) -> None:
        """Whatever it was doing is lost: another owner reads from the last commit."""
        worker.alive = False
        worker.life += 1
        worker.owned, worker.usable_from = (), {}

    def _expire(self, worker: Worker, life: int, now: float) -> None:
        if worker.life == life:
            self._leave(worker, now)

    def _leave(self, worker: Worker, now: float) -> None:
        self.group.remove(worker.number, now)
        self._begin_rebalance(now)
        self._end_joining(now)

    def _begin_rebalance(self, now: float) -> None:
        """Members learn of it with their next heartbeat."""
        if self.group.phase != JOINING or self.group.began_at != now:
            return
        for number in self.group.members - self.group.joined:
            self._workers[number].notices_at = now + self._random.uniform(0.0, self.costs.heartbeat_s)

    def _end_joining(self, now: float) -> None:
        if self.group.all_joined:
            self.group.phase = SYNCING
            self._schedule(now + self.costs.join_s, self._sync)

    def _sync(self, now: float) -> None:
        self.measures.count_rebalance(now - self.group.began_at)
        for number, owned in self.group.assign().items():
            worker = self._workers[number]
            worker.owned = owned
            worker.notices_at = math.inf
            first = now + self.costs.restore_s
            worker.usable_from = {
                partition: first + place * self.costs.restore_partition_s for place, partition in enumerate(owned)
            }
            if worker.alive:
                self._schedule_for(worker, first, self._poll)

    # -- batches ---------------------------------------------------------------------------------------------------

    def _poll(self, worker: Worker, now: float) -> None:
        if worker.stopping:
            self._end(worker)
            self._leave(worker, now)
            return
        if self.group.phase == JOINING and now >= worker.notices_at:
            worker.owned, worker.usable_from = (), {}
            self.group.join(worker.number)
            self._end_joining(now)
            return
        spans = self._take(worker, now)
        if not spans:
            self._schedule_for(worker, self._find_wake_up(worker, now), self._poll)
            return
        sentences = sum(span.end - span.start for span in spans)
        reading = self._read_state(worker)
        working = self._draw_batch_seconds(sentences)
        self.measures.count_batch(sentences, len(spans), reading, working)
        self._schedule_for(
            worker, now + reading + working, lambda _, at: self._commit(worker, spans, now + reading, at)
        )

    def _draw_batch_seconds(self, sentences: int) -> float:
        """A sum of many sentences of different length is normally distributed."""
        costs = self.costs
        mean = sentences * costs.sentence_s
        inferring = max(0.0, self._random.gauss(mean, costs.sentence_cv * costs.sentence_s * math.sqrt(sentences)))
        return costs.batch_s + inferring + costs.commit_s

    def _take(self, worker: Worker, now: float) -> list[Span]:
        """The messages of one partition after the other, as the client returns them, beginning after the last one."""
        owned = worker.owned
        spans: list[Span] = []
        room = worker.batch_size
        for turn in range(len(owned)):
            place = (worker.next_partition + turn) % len(owned)
            partition = owned[place]
            if worker.usable_from[partition] > now:
                continue
            start = self.committed[partition]
            end = min(self.load.count_arrived(partition, now), start + room)
            if end > start:
                spans.append(Span(partition, start, end))
                room -= end - start
            if not room:
                worker.next_partition = place + 1
                break
        return spans

    def _find_wake_up(self, worker: Worker, now: float) -> float:
        """The next sentence or restored partition, at the latest when the poll times out."""
        arrivals = (
            max(self.load.find_arrival(partition, self.committed[partition]), worker.usable_from[partition])
            for partition in worker.owned
        )
        return min(now + self.costs.poll_timeout_s, max(now + MIN_WAIT_S, min(arrivals, default=math.inf)))

    def _read_state(self, worker: Worker) -> float:
        """Seconds for the state that other workers have written since the last batch."""
        unread = self._state_written - worker.state_seen
        worker.state_seen = self._state_written
        return unread * self.costs.state_record_s

    def _commit(self, worker: Worker, spans: Sequence[Span], started: float, now: float) -> None:
        for span in spans:
            if self.group.owners.get(span.partition) != worker.number:
                raise AssertionError(f"worker {worker.number} commits partition {span.partition} of another worker")
            if span.start != self.committed[span.partition]:
                raise AssertionError(f"partition {span.partition}: {span.start} is not the next sentence")
            self.committed[span.partition] = span.end
            self._remaining -= span.end - span.start
            self.measures.count_commit(span.partition, span.start, span.end, now)
        written = len(spans) * self.costs.state_records
        self._state_written += written
        worker.state_seen += written  # its own records need no reading
        self._adapt_batch_size(worker, sum(span.end - span.start for span in spans), now - started)
        self._schedule_for(worker, now, self._poll)

    def _adapt_batch_size(self, worker: Worker, sentences: int, seconds: float) -> None:
        """As the worker does: batches double while they are fast."""
        target = self.costs.target_batch_s
        if seconds > target:
            worker.batch_size = max(1, int(sentences * target / seconds))
        elif seconds < target / 4:
            worker.batch_size = min(self.costs.max_batch, worker.batch_size * 2)
