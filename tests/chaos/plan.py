"""The faults of a run, from a seed: which, when, whom and for how long."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WORKERS = 3
SUDDEN = 0.3  # of the faults


class Kind(StrEnum):
    KILL = "kill"  # a worker, by SIGKILL, started again
    FREEZE = "freeze"  # a worker, by SIGSTOP, for longer than the group waits and than a batch may take
    DRAIN = "drain"  # a worker, by SIGTERM, started again
    CRASH = "crash"  # a broker, by SIGKILL, started again: its partitions get other leaders
    RESTART = "restart"  # a broker, by SIGTERM, started again
    HANG = "hang"  # a broker, by SIGSTOP


OF_BROKERS = frozenset({Kind.CRASH, Kind.RESTART, Kind.HANG})


@dataclass(frozen=True, slots=True)
class Fault:
    at: float  # seconds after the faults began
    kind: Kind
    target: int  # worker from 0, or broker from 1
    seconds: float  # stopped, or away
    sudden: bool = False  # whatever the state of things; else it waits until the one before is got over


@dataclass(frozen=True, slots=True)
class Intervals:
    """How long things are waited for, in milliseconds: short, so that a run is."""

    session: int
    poll: int
    transaction: int
    delivery: int
    request: int

    @property
    def environment(self) -> dict[str, str]:
        named = {
            "SESSION_TIMEOUT_MS": self.session,
            "HEARTBEAT_INTERVAL_MS": min(1_000, self.session // 4),
            "MAX_POLL_INTERVAL_MS": self.poll,
            "TRANSACTION_TIMEOUT_MS": self.transaction,
            "DELIVERY_TIMEOUT_MS": self.delivery,
            "REQUEST_TIMEOUT_MS": self.request,
        }
        return {f"LABELWATCH_KAFKA_{name}": str(value) for name, value in named.items()}


QUICK = Intervals(session=6_000, poll=10_000, transaction=5_000, delivery=4_000, request=4_000)
# Transactions outlast the time in which the brokers notice that one of them is gone.
FAIL_OVER = Intervals(session=10_000, poll=24_000, transaction=12_000, delivery=10_000, request=10_000)
BROKER_SESSION_MS = 6_000


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run is made of; a seed decides the rest."""

    brokers: int
    messages: int  # at least; they go on coming until the last fault is over
    rate: float  # messages a second, as long as the workers keep up
    window: float  # seconds over which the faults are spread, where they need not wait for each other
    faults: Mapping[Kind, int]
    intervals: Intervals


SHORT = {
    1: Shape(
        brokers=1,
        messages=600,
        rate=50,
        window=24,
        faults={Kind.KILL: 4, Kind.FREEZE: 1, Kind.DRAIN: 1},
        intervals=QUICK,
    ),
    3: Shape(
        brokers=3,
        messages=600,
        rate=50,
        window=40,
        faults={Kind.KILL: 2, Kind.FREEZE: 1, Kind.CRASH: 1, Kind.RESTART: 1},
        intervals=FAIL_OVER,
    ),
}
# A single broker is never crashed: there is no copy of what it had in hand.
LONG = {
    1: Shape(
        brokers=1,
        messages=2_000,
        rate=60,
        window=75,
        faults={Kind.KILL: 7, Kind.FREEZE: 2, Kind.DRAIN: 2, Kind.RESTART: 1, Kind.HANG: 2},
        intervals=QUICK,
    ),
    3: Shape(
        brokers=3,
        messages=2_000,
        rate=60,
        window=120,
        faults={Kind.KILL: 6, Kind.FREEZE: 2, Kind.DRAIN: 2, Kind.CRASH: 3, Kind.RESTART: 1, Kind.HANG: 1},
        intervals=FAIL_OVER,
    ),
}


def plan(seed: int, shape: Shape) -> list[Fault]:
    """Spread over the window, each kind by itself, so that they meet in all ways; in the order of time."""
    rng = random.Random(f"faults of {seed}")
    asleep = max(shape.intervals.poll, shape.intervals.session) / 1000
    noticed = shape.intervals.request / 1000
    seconds = {
        Kind.FREEZE: (asleep + 1.5, asleep + 4),
        Kind.HANG: (noticed + 0.5, noticed + 5),
        Kind.CRASH: (0, 8),
    }
    faults = []
    for kind, n in shape.faults.items():
        targets = range(1, shape.brokers + 1) if kind in OF_BROKERS else range(WORKERS)
        for number in range(n):
            at = (number + rng.random()) * shape.window / n
            away = rng.uniform(*seconds.get(kind, (0, 3)))
            faults.append(Fault(at, kind, rng.choice(targets), away, rng.random() < SUDDEN))
    return sorted(faults, key=lambda fault: fault.at)
