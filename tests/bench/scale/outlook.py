"""Simulations of far more workers than one machine can run, with the measured costs."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bench.scale.load import Load
from tests.bench.scale.simulator import Event, Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.scale.costs import Costs

SECONDS = 240.0
CHANGE_AT = 120.0
SHARE_OF_CAPACITY = 0.6


class Outlook(NamedTuple):
    """Workers with as many partitions, each with a share of what one core can do; `datasets` have sentences in every batch."""

    workers: int
    datasets: int = 1
    crashes: int = 0
    restarts: int = 0
    max_batch: int = 1024


OUTLOOKS = (
    Outlook(3),
    Outlook(250),
    Outlook(1_000),
    Outlook(1_000, datasets=10),
    Outlook(1_000, datasets=10, max_batch=8_192),
    Outlook(1_000, crashes=1),
    Outlook(1_000, crashes=50),
    Outlook(1_000, restarts=50),
)


def simulate(
    costs: Costs, outlook: Outlook, *, seconds: float = SECONDS, change_at: float = CHANGE_AT
) -> dict[str, Any]:
    costs = replace(costs, state_records=costs.state_records * outlook.datasets, max_batch=outlook.max_batch)
    rate = SHARE_OF_CAPACITY / costs.sentence_s
    load = Load(outlook.workers, rate=rate, until=seconds)
    found = Simulation(costs, load, list_events(outlook, change_at), horizon=2 * seconds).run()
    return {
        **outlook._asdict(),
        "offered_per_s": rate * outlook.workers,
        "committed_per_s": found.throughput,
        "delay_p50_s": found.compute_delay(0.5),
        "delay_p99_s": found.compute_delay(0.99),
        "standstill_s": found.longest_standstill_s,
        "caught_up_after_s": found.last_commit_at - seconds,
        "sentences_per_batch": found.sentences / max(1, found.batches),
        "reading_share": found.reading_share,
        "rebalances": len(found.rebalances),
    }


def list_events(outlook: Outlook, change_at: float) -> list[Event]:
    """All workers run long before the first sentence. Those that restart leave together and come back 10 s later."""
    events = [Event(-60.0, "start", worker) for worker in range(outlook.workers)]
    events += [Event(change_at, "crash", worker) for worker in range(outlook.crashes)]
    events += [Event(change_at, "stop", worker) for worker in range(outlook.restarts)]
    return events + [Event(change_at + 10.0, "start", worker) for worker in range(outlook.restarts)]


def simulate_all(costs: Costs, outlooks: Sequence[Outlook] = OUTLOOKS) -> list[dict[str, Any]]:
    found = []
    print(
        "workers datasets crashes restarts  batch |  offered/s committed/s  delay p50    p99 s  standstill s  "
        "caught up s  batch size  reading state",
        file=sys.stderr,
    )
    for outlook in outlooks:
        row = simulate(costs, outlook)
        found.append(row)
        print(
            f"{outlook.workers:>7} {outlook.datasets:>8} {outlook.crashes:>7} {outlook.restarts:>8} {outlook.max_batch:>6} | "
            f"{row['offered_per_s']:>10,.0f} {row['committed_per_s']:>11,.0f} {row['delay_p50_s']:>10.2f} "
            f"{row['delay_p99_s']:>8.2f} {row['standstill_s']:>13.1f} {row['caught_up_after_s']:>12.1f} "
            f"{row['sentences_per_batch']:>11.0f} {row['reading_share']:>14.1%}",
            file=sys.stderr,
            flush=True,
        )
    return found
