"""How many sentences came on each day, read from the statistics as they grow.

The topic is compacted: of statistics that were there at the start nobody knows on which days its sentences came,
so they are told apart from those that came while it was followed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.stream.state.snapshot import StatsKey

MAX_DAYS = 400


@dataclass(frozen=True, slots=True)
class DailyArrivals:
    """Sentences that came on a day (UTC), and those found that day that came then or at any time before."""

    day: str
    sentences: int = 0
    by_then: int = 0


class ArrivalCounter:
    """For the newest days of each dataset."""

    def __init__(self) -> None:
        self._totals: dict[tuple[StatsKey, int], int] = {}
        self._days: dict[str, dict[str, DailyArrivals]] = defaultdict(dict)

    def record(self, key: StatsKey, partition: int, total: int, timestamp_ms: int, *, caught_up: bool = False) -> None:
        """The partition's statistics hold `total` sentences now.

        `followed`: all that was there is read, so that statistics seen for the first time are of what came since.
        """
        before = self._totals.get((key, partition), 0 if caught_up else None)
        self._totals[key, partition] = total
        day = datetime.fromtimestamp(timestamp_ms / 1000, UTC).date().isoformat()
        days = self._days[key.dataset]
        found = days.get(day, DailyArrivals(day))
        if before is None:
            days[day] = DailyArrivals(day, found.sentences, found.by_then + total)
        else:
            days[day] = DailyArrivals(day, found.sentences + max(total - before, 0), found.by_then)
        if len(days) > MAX_DAYS:
            del days[min(days)]

    def list_days(self, dataset: str) -> tuple[DailyArrivals, ...]:
        """Oldest first."""
        found = self._days.get(dataset, {})
        return tuple(found[day] for day in sorted(found))
