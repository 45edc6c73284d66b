"""The faults of a run, from a seed: which, when, whom and for how long."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

N_WORKERS = 3
SUDDEN_SHARE = 0.3  # of the faults


class FaultKind(StrEnum):
    KILL = "kill"  # a worker, by SIGKILL, started again
    FREEZE = "freeze"  # a worker, by SIGSTOP, for longer than the group waits and than a batch may take
    DRAIN = "drain"  # a worker, by SIGTERM, started again
    CRASH = "crash"  # a broker, by SIGKILL, started again: its partitions get other leaders
    RESTART = "restart"  # a broker, by SIGTERM, started again
    HANG = "hang"  # a broker, by SIGSTOP


BROKER_FAULTS = frozenset({FaultKind.CRASH, FaultKind.RESTART, FaultKind.HANG})


@dataclass(frozen=True, slots=True)
class Fault:
    at: float  # seconds after the faults began
    kind: FaultKind
    target: int  # worker from 0, or broker from 1
    seconds: float  # stopped, or away
    sudden: bool = False  # whatever the state of things; else it waits until the one before is got over


@dataclass(frozen=True, slots=True)
class Timeouts:
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


FAST_TIMEOUTS = Timeouts(session=6_000, poll=10_000, transaction=5_000, delivery=4_000, request=4_000)
# Transactions outlast the time in which the brokers notice that one of them is gone.
FAILOVER_TIMEOUTS = Timeouts(session=10_000, poll=24_000, transaction=12_000, delivery=10_000, request=10_000)
BROKER_SESSION_MS = 6_000


@dataclass(frozen=True, slots=True)
class RunProfile:
    """What a run is made of; a seed decides the rest."""

    brokers: int
    messages: int  # at least; they go on coming until the last fault is over
    rate: float  # messages a second, as long as the workers keep up
    window: float  # seconds over which the faults are spread, where they need not wait for each other
    faults: Mapping[FaultKind, int]
    timeouts: Timeouts


SHORT_PROFILES = {
    1: RunProfile(
        brokers=1,
        messages=600,
        rate=50,
        window=24,
        faults={FaultKind.KILL: 4, FaultKind.FREEZE: 1, FaultKind.DRAIN: 1},
        timeouts=FAST_TIMEOUTS,
    ),
    3: RunProfile(
        brokers=3,
        messages=600,
        rate=50,
        window=40,
        faults={FaultKind.KILL: 2, FaultKind.FREEZE: 1, FaultKind.CRASH: 1, FaultKind.RESTART: 1},
        timeouts=FAILOVER_TIMEOUTS,
    ),
}
# A single broker is never crashed: there is no copy of what it had in hand.
LONG_PROFILES = {
    1: RunProfile(
        brokers=1,
        messages=2_000,
        rate=60,
        window=75,
        faults={FaultKind.KILL: 7, FaultKind.FREEZE: 2, FaultKind.DRAIN: 2, FaultKind.RESTART: 1, FaultKind.HANG: 2},
        timeouts=FAST_TIMEOUTS,
    ),
    3: RunProfile(
        brokers=3,
        messages=2_000,
        rate=60,
        window=120,
        faults={
            FaultKind.KILL: 6,
            FaultKind.FREEZE: 2,
            FaultKind.DRAIN: 2,
            FaultKind.CRASH: 3,
            FaultKind.RESTART: 1,
            FaultKind.HANG: 1,
        },
        timeouts=FAILOVER_TIMEOUTS,
    ),
}


def plan_faults(seed: int, profile: RunProfile) -> list[Fault]:
    """Spread over the window, each kind by itself, so that they meet in all ways; in the order of time."""
    rng = random.Random(f"faults of {seed}")
    asleep = max(profile.timeouts.poll, profile.timeouts.session) / 1000
    noticed = profile.timeouts.request / 1000
    seconds = {
        FaultKind.FREEZE: (asleep + 1.5, asleep + 4),
        FaultKind.HANG: (noticed + 0.5, noticed + 5),
        FaultKind.CRASH: (0, 8),
    }
    faults = []
    for kind, n in profile.faults.items():
        targets = range(1, profile.brokers + 1) if kind in BROKER_FAULTS else range(N_WORKERS)
        for number in range(n):
            at = (number + rng.random()) * profile.window / n
            away = rng.uniform(*seconds.get(kind, (0, 3)))
            faults.append(Fault(at, kind, rng.choice(targets), away, rng.random() < SUDDEN_SHARE))
    return sorted(faults, key=lambda fault: fault.at)
