"""Plans the faults of a run from a seed: kind, time, target and duration."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

N_WORKERS = 3
SUDDEN_SHARE = 0.3  # of the faults


class FaultKind(StrEnum):
    KILL = "kill"  # a worker, by SIGKILL; it is started again
    FREEZE = "freeze"  # a worker, by SIGSTOP, for longer than the session and poll time-outs
    DRAIN = "drain"  # a worker, by SIGTERM; it is started again
    CRASH = "crash"  # a broker, by SIGKILL; it is started again, and its partitions get other leaders
    RESTART = "restart"  # a broker, by SIGTERM; it is started again
    HANG = "hang"  # a broker, by SIGSTOP
    FULL = "full"  # a broker, whose disk has no space left; it is started again when it has
    CUT = "cut"  # packets between a worker and a broker are dropped
    REFUSE = "refuse"  # connections between a worker and a broker are reset
    CLOCK = "clock"  # a worker, whose clock jumps, and later jumps back
    UPGRADE = "upgrade"  # a worker, by SIGTERM; it is started again with the present code
    SETTINGS = "settings"  # settings of datasets change


BROKER_FAULTS = frozenset({FaultKind.CRASH, FaultKind.RESTART, FaultKind.HANG, FaultKind.FULL})
NETWORK_FAULTS = frozenset({FaultKind.CUT, FaultKind.REFUSE})
PROXIED_WORKER = 0  # the worker whose network breaks
# The brokers refuse messages from more than an hour ahead.
MIN_CLOCK_JUMP_S, MAX_CLOCK_JUMP_S = -20 * 3600, 50 * 60


@dataclass(frozen=True, slots=True)
class Fault:
    at: float  # seconds after the first fault may begin
    kind: FaultKind
    target: int  # worker from 0, or broker from 1
    seconds: float  # how long the target is stopped
    sudden: bool = False  # does not wait until the workers have recovered from the fault before
    jump: int = 0  # of a clock, in seconds


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Kafka time-outs in milliseconds. They are short, so that a run is short."""

    session: int
    poll: int
    transaction: int
    delivery: int
    request: int

    @property
    def environment(self) -> dict[str, str]:
        timeouts = {
            "SESSION_TIMEOUT_MS": self.session,
            "HEARTBEAT_INTERVAL_MS": min(1_000, self.session // 4),
            "MAX_POLL_INTERVAL_MS": self.poll,
            "TRANSACTION_TIMEOUT_MS": self.transaction,
            "DELIVERY_TIMEOUT_MS": self.delivery,
            "REQUEST_TIMEOUT_MS": self.request,
        }
        return {f"LABELWATCH_KAFKA_{name}": str(value) for name, value in timeouts.items()}


FAST_TIMEOUTS = Timeouts(session=6_000, poll=10_000, transaction=5_000, delivery=4_000, request=4_000)
# Transactions last longer than the brokers need to notice that one of them is down.
FAILOVER_TIMEOUTS = Timeouts(session=10_000, poll=24_000, transaction=12_000, delivery=10_000, request=10_000)
BROKER_SESSION_MS = 6_000


@dataclass(frozen=True, slots=True)
class RunProfile:
    """The parameters of a run. The seed decides the rest."""

    brokers: int
    messages: int  # at least; the producer continues until the last fault is over
    rate: float  # messages per second, while the workers keep up
    window: float  # seconds over which the faults are spread
    faults: Mapping[FaultKind, int]
    timeouts: Timeouts


SHORT_PROFILES = {
    1: RunProfile(
        brokers=1,
        messages=600,
        rate=50,
        window=24,
        faults={
            FaultKind.KILL: 3,
            FaultKind.FREEZE: 1,
            FaultKind.DRAIN: 1,
            FaultKind.CUT: 1,
            FaultKind.CLOCK: 1,
            FaultKind.SETTINGS: 1,
        },
        timeouts=FAST_TIMEOUTS,
    ),
    3: RunProfile(
        brokers=3,
        messages=600,
        rate=50,
        window=40,
        faults={
            FaultKind.KILL: 2,
            FaultKind.FREEZE: 1,
            FaultKind.CRASH: 1,
            FaultKind.RESTART: 1,
            FaultKind.CUT: 1,
            FaultKind.CLOCK: 1,
            FaultKind.FULL: 1,
            FaultKind.SETTINGS: 1,
        },
        timeouts=FAILOVER_TIMEOUTS,
    ),
}
# A single broker never crashes: it has no replica of what it had not written yet.
LONG_PROFILES = {
    1: RunProfile(
        brokers=1,
        messages=2_000,
        rate=60,
        window=75,
        faults={
            FaultKind.KILL: 6,
            FaultKind.FREEZE: 2,
            FaultKind.DRAIN: 2,
            FaultKind.RESTART: 1,
            FaultKind.HANG: 2,
            FaultKind.CUT: 1,
            FaultKind.REFUSE: 1,
            FaultKind.CLOCK: 2,
            FaultKind.SETTINGS: 1,
        },
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
            FaultKind.FULL: 1,
            FaultKind.CUT: 1,
            FaultKind.REFUSE: 1,
            FaultKind.CLOCK: 2,
            FaultKind.SETTINGS: 1,
        },
        timeouts=FAILOVER_TIMEOUTS,
    ),
}


def plan_faults(seed: int, profile: RunProfile) -> list[Fault]:
    """Spreads each kind of fault over the window, so that kinds overlap in all ways. Returns them in order of time."""
    rng = random.Random(f"faults of {seed}")
    group_timeout = max(profile.timeouts.poll, profile.timeouts.session) / 1000
    request_timeout = profile.timeouts.request / 1000
    seconds = {
        FaultKind.FREEZE: (group_timeout + 1.5, group_timeout + 4),
        FaultKind.HANG: (request_timeout + 0.5, request_timeout + 5),
        FaultKind.CRASH: (0, 8),
        FaultKind.FULL: (4, 10),
        FaultKind.CUT: (group_timeout + 1.5, group_timeout + 4),
        FaultKind.REFUSE: (request_timeout, group_timeout),
        FaultKind.CLOCK: (3, 10),
    }
    faults = []
    for kind, count in profile.faults.items():
        targets = range(1, profile.brokers + 1) if kind in BROKER_FAULTS | NETWORK_FAULTS else range(N_WORKERS)
        for number in range(count):
            at = (number + rng.random()) * profile.window / count
            duration = rng.uniform(*seconds.get(kind, (0, 3)))
            # Each worker is upgraded once.
            target = number if kind is FaultKind.UPGRADE else rng.choice(targets)
            sudden = rng.random() < SUDDEN_SHARE
            jump = rng.randint(MIN_CLOCK_JUMP_S, MAX_CLOCK_JUMP_S) if kind is FaultKind.CLOCK else 0
            faults.append(Fault(at, kind, target, duration, sudden, jump))
    return sorted(faults, key=lambda fault: fault.at)


def add_upgrades(profile: RunProfile) -> RunProfile:
    return replace(profile, faults={**profile.faults, FaultKind.UPGRADE: N_WORKERS})


def without(profile: RunProfile, kinds: Iterable[FaultKind]) -> RunProfile:
    """The profile for a machine that can't inject some kinds of faults."""
    omitted = set(kinds)
    return replace(profile, faults={kind: count for kind, count in profile.faults.items() if kind not in omitted})
