"""Plans which sequences share a batch. PURE: lengths in, lists of indices out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.contracts.defaults import BATCH_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_MAX_BATCH = 16
DEFAULT_RUN_COST = 16


def plan_batches(
    lengths: Sequence[int],
    *,
    batch_tokens: int = BATCH_TOKENS,
    max_batch: int = DEFAULT_MAX_BATCH,
    run_cost: int = DEFAULT_RUN_COST,
) -> list[list[int]]:
    """Batches of indices, shortest sequences first; every index exactly once.

    Sorts by length and finds the cheapest cuts. A batch costs its padded tokens (its size times its longest sequence)
    plus `run_cost`, the fixed cost of a run of the graph, in tokens. A batch holds at most `max_batch` sequences and
    `batch_tokens` padded tokens; a longer sequence runs alone.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    best = [0]  # best[end]: the lowest cost of the first `end` sequences in order
    cut = [0]  # cut[end]: where the last batch of that plan starts
    for end, index in enumerate(order, 1):
        width = lengths[index]
        least, start = best[end - 1] + width, end - 1
        for size in range(2, min(max_batch, end) + 1):
            padded = size * width
            if padded > batch_tokens:
                break
            cost = best[end - size] + padded
            if cost <= least:
                least, start = cost, end - size
        best.append(least + run_cost)
        cut.append(start)
    batches = []
    end = len(order)
    while end:
        batches.append(order[cut[end] : end])
        end = cut[end]
    batches.reverse()
    return batches
