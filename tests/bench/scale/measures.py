"""What a simulation reports: throughput, delays, standstills, and where the workers' time goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.scale.load import Load


@dataclass(slots=True)
class Measures:
    """Times are seconds of the simulation."""

    load: Load
    sentences: int = 0
    batches: int = 0
    batch_partitions: int = 0  # summed over the batches
    reading_s: float = 0.0
    working_s: float = 0.0
    first_commit_at: float = 0.0
    ended_at: float = 0.0
    last_commit_at: float = 0.0
    longest_standstill_s: float = 0.0
    rebalances: list[float] = field(default_factory=list)
    _delays: list[tuple[float, int]] = field(default_factory=list)
    _progress_at: dict[int, float] = field(default_factory=dict)

    def count_batch(self, sentences: int, partitions: int, reading: float, working: float) -> None:
        self.batches += 1
        self.batch_partitions += partitions
        self.reading_s += reading
        self.working_s += working

    def count_commit(self, partition: int, start: int, end: int, now: float) -> None:
        self.sentences += end - start
        self.first_commit_at = self.first_commit_at or now
        self.last_commit_at = now
        self._note_progress(partition, start, now)
        middle = self.load.find_arrival(partition, (start + end - 1) // 2)
        self._delays.append((now - middle, end - start))

    def _note_progress(self, partition: int, waiting: int, now: float) -> None:
        """A partition stands still from its last commit, or from the arrival of the sentence that waits."""
        since = max(self._progress_at.get(partition, 0.0), self.load.find_arrival(partition, waiting))
        self.longest_standstill_s = max(self.longest_standstill_s, now - since)
        self._progress_at[partition] = now

    def count_rebalance(self, seconds: float) -> None:
        self.rebalances.append(seconds)

    def end(self, now: float, committed: Sequence[int]) -> None:
        self.ended_at = now
        for partition, offset in enumerate(committed):
            if self.load.count_arrived(partition, now) > offset:
                self._note_progress(partition, offset, now)

    @property
    def throughput(self) -> float:
        return self.sentences / self.last_commit_at if self.last_commit_at else 0.0

    @property
    def reading_share(self) -> float:
        """Of the workers' time: reading the state of the others."""
        total = self.reading_s + self.working_s
        return self.reading_s / total if total else 0.0

    def compute_delay(self, quantile: float) -> float:
        """Seconds from arrival to commit, of a sentence in the middle of its batch."""
        if not self._delays:
            return 0.0
        delays, weights = np.array(self._delays).T
        order = np.argsort(delays)
        reached = np.cumsum(weights[order]) / weights.sum()
        return float(delays[order][min(np.searchsorted(reached, quantile), len(order) - 1)])
