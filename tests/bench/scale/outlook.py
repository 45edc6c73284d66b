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
    Outlook(4),
    Outlook(40),
    Outlook(400),
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
    costs = replace(
        costs,
        state_records=costs.state_records * outlook.datasets,
        state_bytes=costs.state_bytes * outlook.datasets,
        max_batch=outlook.max_batch,
    )
    rate = SHARE_OF_CAPACITY / costs.sentence_s
    load = Load(outlook.workers, rate=rate, until=seconds)
    found = Simulation(costs, load, list_events(outlook, change_at), horizon=2 * seconds).run()
    state_bytes_per_s = found.batch_partitions * costs.state_bytes / found.last_commit_at
    return {
        **outlook._asdict(),
        "offered_per_s": rate * outlook.workers,
        "committed_per_s": found.throughput,
        "delay_p50_s": found.compute_delay(0.5),
        "delay_p99_s": found.compute_delay(0.99),
        "standstill_s": found.longest_standstill_s,
        "caught_up_after_s": found.last_commit_at - seconds,
        "sentences_per_batch": found.sentences / found.batches,
        "batches_per_s": found.batches / found.last_commit_at,
        "reading_share": found.reading_share,
        "state_read_bytes_per_s": state_bytes_per_s * outlook.workers,  # every worker reads all of it
        "rebalances": len(found.rebalances),
    }


def list_events(outlook: Outlook, change_at: float) -> list[Event]:
    """All workers run long before the first sentence. Those that restart leave together and come back 10 s later."""
    events = [Event(-60.0, "start", worker) for worker in range(outlook.workers)]
    events += [Event(change_at, "crash", worker) for worker in range(outlook.crashes)]
    events += [Event(change_at, "stop", worker) for worker in range(outlook.restarts)]
    return events + [Event(change_at + 10.0, "start", worker) for worker in range(outlook.restarts)]


COLUMNS = (
    ("workers", "workers", ",d", 1),
    ("datasets", "datasets", "d", 1),
    ("crashes", "crashes", "d", 1),
    ("restarts", "restarts", "d", 1),
    ("max_batch", "max batch", "d", 1),
    ("offered_per_s", "offered/s", ",.0f", 1),
    ("committed_per_s", "committed/s", ",.0f", 1),
    ("delay_p50_s", "p50 s", ".2f", 1),
    ("delay_p99_s", "p99 s", ".2f", 1),
    ("standstill_s", "standstill s", ".1f", 1),
    ("caught_up_after_s", "caught up s", ".1f", 1),
    ("sentences_per_batch", "batch", ".0f", 1),
    ("batches_per_s", "commits/s", ",.0f", 1),
    ("reading_share", "reading %", ".1f", 100),
    ("state_read_bytes_per_s", "state read MB/s", ",.0f", 1e-6),
)


def simulate_all(costs: Costs, outlooks: Sequence[Outlook] = OUTLOOKS) -> list[dict[str, Any]]:
    found = []
    print("  ".join(title for _, title, _, _ in COLUMNS), file=sys.stderr)
    for outlook in outlooks:
        row = simulate(costs, outlook)
        found.append(row)
        cells = (f"{row[key] * factor:{form}}".rjust(len(title)) for key, title, form, factor in COLUMNS)
        print("  ".join(cells), file=sys.stderr, flush=True)
    return found
