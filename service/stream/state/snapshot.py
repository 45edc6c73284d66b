"""All the running statistics a worker judges with: its own partitions' and everybody else's, and their totals.

A ledger is never changed: each call returns a new one that shares what stayed the same. The worker replaces its
ledger only after a commit, so a batch that fails leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from service.statistics.running import RunningStats

if TYPE_CHECKING:
    from collections.abc import Mapping


class StatsKey(NamedTuple):
    """What statistics are kept for: a dataset, judged by one model in one way."""

    dataset: str
    stats_key: str


PartitionState = dict[StatsKey, RunningStats]


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """Statistics per source partition, and their sum per account."""

    partitions: Mapping[int, PartitionState] = field(default_factory=dict)
    totals: Mapping[StatsKey, RunningStats] = field(default_factory=dict)

    def get_total(self, key: StatsKey, default: RunningStats) -> RunningStats:
        """Over all partitions: thresholds are global."""
        return self.totals.get(key, default)

    def get_partition_stats(self, partition: int, key: StatsKey, default: RunningStats) -> RunningStats:
        return self.partitions.get(partition, {}).get(key, default)

    def with_partition(self, partition: int, state: PartitionState) -> StateSnapshot:
        """The partition's statistics replaced as a whole: it was gained, or its owner has written new ones."""
        sheets = {**self.partitions, partition: state}
        touched = set(state) | set(self.partitions.get(partition, {}))
        totals = dict(self.totals)
        for account in touched:
            total = _sum_partitions(sheets, account)
            if total is None:
                totals.pop(account, None)
            else:
                totals[account] = total
        return StateSnapshot(sheets, totals)

    def with_stats(self, partition: int, key: StatsKey, stats: RunningStats) -> StateSnapshot:
        return self.with_partition(partition, {**self.partitions.get(partition, {}), key: stats})

    def start_draft(self) -> StateDraft:
        return StateDraft(self)


def _sum_partitions(partitions: Mapping[int, PartitionState], key: StatsKey) -> RunningStats | None:
    """Of all partitions, each brought to the longest memory among them.

    A partition that stands idle still has the setting it was last written with: it must not make the others forget. The
    dataset's setting as it is now is applied to the sum.
    """
    found = [sheet[key] for sheet in partitions.values() if key in sheet]
    if not found:
        return None
    days = [stats.keep_days for stats in found]
    longest = None if None in days else max(day for day in days if day is not None)
    return reduce(RunningStats.merge, (s if s.keep_days == longest else s.with_keep_days(longest) for s in found))


class StateDraft:
    """A batch in the making: learns sentence by sentence on top of a ledger without touching it."""

    def __init__(self, snapshot: StateSnapshot) -> None:
        self._snapshot = snapshot
        self._totals: dict[StatsKey, RunningStats] = {}
        self.touched: dict[tuple[int, StatsKey], RunningStats] = {}

    def get_total(self, key: StatsKey, default: RunningStats) -> RunningStats:
        found = self._totals.get(key)
        return found if found is not None else self._snapshot.get_total(key, default)

    def get_partition_stats(self, partition: int, key: StatsKey, default: RunningStats) -> RunningStats:
        found = self.touched.get((partition, key))
        return found if found is not None else self._snapshot.get_partition_stats(partition, key, default)

    def put_partition_stats(self, partition: int, key: StatsKey, stats: RunningStats) -> None:
        self.touched[partition, key] = stats

    def put_total(self, key: StatsKey, total: RunningStats) -> None:
        self._totals[key] = total

    def to_snapshot(self) -> StateSnapshot:
        """The ledger as it will be once the batch is committed."""
        sheets = dict(self._snapshot.partitions)
        for (partition, account), stats in self.touched.items():
            sheets[partition] = {**sheets.get(partition, {}), account: stats}
        return StateSnapshot(sheets, {**self._snapshot.totals, **self._totals})
