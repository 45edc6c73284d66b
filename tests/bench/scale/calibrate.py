"""Costs from real runs: what a sentence, a batch, a commit and a rebalance take."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tests.bench.scale.load import Load
from tests.bench.scale.simulator import Event, Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.scale.costs import Costs
    from tests.bench.scale.measures import Measures
    from tests.bench.scale.real import RealRun


def calibrate_batches(costs: Costs, run: RealRun) -> Costs:
    """Of one worker: a line through time and size of its batches, the commit apart."""
    sizes = np.array([batch["records"] for batch in run.batches], float)
    seconds = np.array([batch["at"] - batch["polled"] - batch["commit_s"] for batch in run.batches])
    if len(set(sizes.tolist())) > 1:
        slope, start = np.polyfit(sizes, seconds, 1)
    else:
        slope, start = seconds.mean() / sizes.mean(), 0.0
    start = max(0.0, float(start))
    # A worker that has more to read polls at once: what a poll takes belongs to the batch.
    polling = statistics.median(batch["polled"] - batch["began"] for batch in run.batches)
    return replace(
        costs,
        sentence_s=float((seconds.sum() - start * len(sizes)) / sizes.sum()) if slope <= 0 else float(slope),
        batch_s=start + polling,
        commit_s=statistics.median(batch["commit_s"] for batch in run.batches),
        state_bytes=statistics.median(batch["state_bytes"] / batch["partitions"] for batch in run.batches),
    )


def calibrate_rebalance(costs: Costs, run: RealRun) -> Costs:
    """Of a run in which a worker joins another: how long the first one stood still beside its batches."""
    ends = [batch["at"] for batch in run.batches if batch["worker"] == 0]
    gaps = []
    for event in run.assignments:
        before = [end for end in ends if end < event["at"]]
        if event["worker"] == 0 and event["owned"] and before:
            gaps.append(event["at"] - max(before))
    standstill = max(gaps, default=costs.join_s + costs.restore_s)
    return replace(costs, join_s=standstill / 2, restore_s=standstill / 2, restore_partition_s=0.0)


def simulate_run(costs: Costs, run: RealRun, *, seed: int = 0) -> Measures:
    """The simulation of a real run: the same load, and the change at the time at which it happened, the members in the same order."""
    load = Load(run.partitions, rate=run.sentences / run.partitions / run.send_s, until=run.send_s)
    settled = -60.0  # long before the first sentence
    events = [Event(settled, "start", worker) for worker in range(run.plan.workers)]
    if run.plan.change is not None and run.change_at is not None:
        worker = run.plan.workers if run.plan.change == "start" else run.plan.workers - 1
        events.append(Event(run.change_at, run.plan.change, worker))
    return Simulation(costs, load, events, seed=seed, order=run.order).run()


def compute_error(run: RealRun, simulated: Sequence[Measures]) -> float:
    """How far the simulated time is from the real one, as a share of it."""
    return statistics.median(each.last_commit_at for each in simulated) / run.seconds - 1
