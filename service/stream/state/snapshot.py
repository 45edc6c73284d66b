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


class Account(NamedTuple):
    """What statistics are kept for: a dataset, judged by one model in one way."""

    dataset: str
    stats_key: str


Sheet = dict[Account, RunningStats]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Statistics per source partition, and their sum per account."""

    sheets: Mapping[int, Sheet] = field(default_factory=dict)
    totals: Mapping[Account, RunningStats] = field(default_factory=dict)

    def total(self, account: Account, empty: RunningStats) -> RunningStats:
        """Over all partitions: thresholds are global."""
        return self.totals.get(account, empty)

    def of(self, partition: int, account: Account, empty: RunningStats) -> RunningStats:
        return self.sheets.get(partition, {}).get(account, empty)

    def with_sheet(self, partition: int, sheet: Sheet) -> Ledger:
        """The partition's statistics replaced as a whole: it was gained, or its owner has written new ones."""
        sheets = {**self.sheets, partition: sheet}
        touched = set(sheet) | set(self.sheets.get(partition, {}))
        totals = dict(self.totals)
        for account in touched:
            total = _sum_of(sheets, account)
            if total is None:
                totals.pop(account, None)
            else:
                totals[account] = total
        return Ledger(sheets, totals)

    def with_account(self, partition: int, account: Account, stats: RunningStats) -> Ledger:
        return self.with_sheet(partition, {**self.sheets.get(partition, {}), account: stats})

    def draft(self) -> Draft:
        return Draft(self)


def _sum_of(sheets: Mapping[int, Sheet], account: Account) -> RunningStats | None:
    """Of all partitions, each brought to the longest memory among them.

    A partition that stands idle still has the setting it was last written with: it must not make the others forget. The
    dataset's setting as it is now is applied to the sum.
    """
    found = [sheet[account] for sheet in sheets.values() if account in sheet]
    if not found:
        return None
    days = [stats.keep_days for stats in found]
    longest = None if None in days else max(day for day in days if day is not None)
    return reduce(RunningStats.merge, (s if s.keep_days == longest else s.keeping(longest) for s in found))


class Draft:
    """A batch in the making: learns sentence by sentence on top of a ledger without touching it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._totals: dict[Account, RunningStats] = {}
        self.touched: dict[tuple[int, Account], RunningStats] = {}

    def total(self, account: Account, empty: RunningStats) -> RunningStats:
        found = self._totals.get(account)
        return found if found is not None else self._ledger.total(account, empty)

    def of(self, partition: int, account: Account, empty: RunningStats) -> RunningStats:
        found = self.touched.get((partition, account))
        return found if found is not None else self._ledger.of(partition, account, empty)

    def put(self, partition: int, account: Account, stats: RunningStats) -> None:
        self.touched[partition, account] = stats

    def put_total(self, account: Account, total: RunningStats) -> None:
        self._totals[account] = total

    def ledger(self) -> Ledger:
        """The ledger as it will be once the batch is committed."""
        sheets = dict(self._ledger.sheets)
        for (partition, account), stats in self.touched.items():
            sheets[partition] = {**sheets.get(partition, {}), account: stats}
        return Ledger(sheets, {**self._ledger.totals, **self._totals})
