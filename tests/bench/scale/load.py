"""The sentences of a simulation: a backlog in every partition, and new ones at an even rate until some time."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """Per partition. The phases of the partitions differ, so that not all get a sentence at the same moment."""

    partitions: int
    backlog: int = 0
    rate: float = 0.0
    until: float = 0.0

    def count_arrived(self, partition: int, now: float) -> int:
        if now < 0:
            return 0
        flowed = self.rate * min(now, self.until)
        return self.backlog + math.floor(flowed + self._get_phase(partition))

    def find_arrival(self, partition: int, number: int) -> float:
        """When the sentence with this number arrives; infinite if it never does."""
        if number < self.backlog:
            return 0.0
        # Not by the time alone: rounding would promise a last sentence that never comes.
        if number >= self.count_arrived(partition, self.until):
            return math.inf
        return min(self.until, max(0.0, (number + 1 - self.backlog - self._get_phase(partition)) / self.rate))

    def _get_phase(self, partition: int) -> float:
        return partition / self.partitions * 0.999 if self.rate else 0.0

    @property
    def total(self) -> int:
        return sum(self.count_arrived(partition, self.until) for partition in range(self.partitions))
