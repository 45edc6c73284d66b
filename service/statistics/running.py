"""Running statistics of a dataset and stats key: class statistics, by day if the dataset forgets, and priorities."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from service.errors import InvalidInput, StateError
from service.statistics.class_stats import ClassStats
from service.statistics.histogram import PriorityHistogram
from service.statistics.snapshots import SnapshotFormat, is_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from service.statistics.class_stats import Floats, Integers

UNDATED = ""
"""The one bucket of a dataset that doesn't forget. It counts as older than any day."""

RUNNING_STATS_FORMAT = SnapshotFormat(
    "running statistics", version=1, fields=("n_classes", "keep_days", "buckets", "histogram")
)

EMPTY_STATS_FIELDS: dict[str, object] = {
    "n_classes": 1,
    "keep_days": None,
    "buckets": {},
    "histogram": PriorityHistogram.empty().snapshot(),
}
"""Fields of other records of the state, too: early releases take each of them for running statistics, and stop at one they
can't read. With these fields, and a version that follows that of the statistics, they read empty ones and go on."""


@dataclass(frozen=True, slots=True)
class RunningStats:
    """Class statistics per day bucket, and the histogram of priorities. Immutable: every method returns new statistics.

    With `keep_days` = N, buckets older than N days before the newest are dropped. The newest day is still incomplete, so
    this is N whole days and a part of one more. For any order of updates and merges the result equals the sum of all
    buckets with old ones dropped once at the end: the cut-off (newest − N) can only rise, since a merge takes the later
    newest day and the smaller N. A bucket dropped early would be dropped at the end too, and the newest bucket is never
    dropped. The histogram does not forget.
    """

    n_classes: int
    buckets: Mapping[str, ClassStats]
    histogram: PriorityHistogram
    keep_days: int | None
    _total: ClassStats  # the sum of all buckets

    @classmethod
    def empty(cls, n_classes: int, *, keep_days: int | None = None) -> RunningStats:
        """Statistics of no sentences."""
        return cls._drop_expired({}, PriorityHistogram.empty(), keep_days, ClassStats.empty(n_classes))

    @classmethod
    def _drop_expired(
        cls, buckets: dict[str, ClassStats], histogram: PriorityHistogram, keep_days: int | None, total: ClassStats
    ) -> RunningStats:
        """Statistics of these buckets, which sum to `total`, without the expired ones."""
        if keep_days is not None:
            if keep_days < 1:
                raise InvalidInput(f"{keep_days} days where at least 1 is needed", field="keep_days")
            first = _find_first_day(buckets, keep_days)
            remaining = {day: stats for day, stats in buckets.items() if day >= first}
            if len(remaining) < len(buckets):
                buckets, total = remaining, _sum_buckets(remaining.values(), total.n_classes)
        return cls(total.n_classes, buckets, histogram, keep_days, total)

    def update(
        self,
        probs: Floats,
        given: Integers,
        *,
        day: str = UNDATED,
        priority: float | NDArray[np.floating[Any]] | None = None,
        smoothed: Floats | None = None,
    ) -> RunningStats:
        """These statistics with the words of one or more sentences of one day added; `priority` goes to the histogram.

        `smoothed` has the probabilities after mention smoothing, where they differ from `probs`.

        `day` must not be later than the arrival of the sentence, which `to_bucket_day` ensures: a day in the far future
        would expire all others.
        """
        histogram = self.histogram if priority is None else self.histogram.update(priority)
        bucket = self.buckets.get(day)
        if bucket is None:
            if day != UNDATED:
                _check_day(day)
            learned = ClassStats.empty(self.n_classes).update(probs, given, smoothed=smoothed)
            is_expired = self.keep_days is not None and day < _find_first_day(self.buckets, self.keep_days)
            if is_expired or learned.is_empty:  # a bucket without words must not count as the newest day
                return RunningStats(self.n_classes, self.buckets, histogram, self.keep_days, self._total)
            buckets = {**self.buckets, day: learned}
            return RunningStats._drop_expired(buckets, histogram, self.keep_days, self._total.merge(learned))
        if len(self.buckets) == 1:
            learned = bucket.update(probs, given, smoothed=smoothed)
            return RunningStats(self.n_classes, {day: learned}, histogram, self.keep_days, learned)
        learned = ClassStats.empty(self.n_classes).update(probs, given, smoothed=smoothed)
        buckets = {**self.buckets, day: bucket.merge(learned)}
        return RunningStats(self.n_classes, buckets, histogram, self.keep_days, self._total.merge(learned))

    def merge(self, other: RunningStats) -> RunningStats:
        """The sum of both, with the smaller `keep_days`. The order of merges does not matter."""
        if self.n_classes != other.n_classes:
            raise StateError(f"statistics of {self.n_classes} and of {other.n_classes} classes can't be merged")
        buckets = dict(self.buckets)
        for day, stats in other.buckets.items():
            ours = buckets.get(day)
            buckets[day] = stats if ours is None else ours.merge(stats)
        keep_days = min((n for n in (self.keep_days, other.keep_days) if n is not None), default=None)
        histogram = self.histogram.merge(other.histogram)
        return RunningStats._drop_expired(buckets, histogram, keep_days, self._total.merge(other._total))

    def with_keep_days(self, keep_days: int | None) -> RunningStats:
        """The same with another `keep_days`, for when a dataset's setting has changed. Dropped days stay dropped."""
        if keep_days == self.keep_days:
            return self
        return RunningStats._drop_expired(dict(self.buckets), self.histogram, keep_days, self._total)

    def get_total(self, window_days: int | None = None) -> ClassStats:
        """The sum of all buckets, or of those at most `window_days` days before the newest.

        A window narrower than `keep_days` is summed at each call.
        """
        if window_days is None or (self.keep_days is not None and window_days >= self.keep_days):
            return self._total
        if window_days < 1:
            raise InvalidInput(f"{window_days} days where at least 1 is needed", field="window_days")
        first = _find_first_day(self.buckets, window_days)
        return _sum_buckets((stats for day, stats in self.buckets.items() if day >= first), self.n_classes)

    def snapshot(self) -> dict[str, object]:
        """As a JSON object; equal statistics give equal text."""
        return RUNNING_STATS_FORMAT.write(
            {
                "n_classes": self.n_classes,
                "keep_days": self.keep_days,
                "buckets": {day: self.buckets[day].snapshot() for day in sorted(self.buckets)},
                "histogram": self.histogram.snapshot(),
            }
        )

    @classmethod
    def restore(cls, snapshot: object) -> RunningStats:
        """Reads `snapshot()` back; StateError if it is not valid."""
        fields = RUNNING_STATS_FORMAT.read(snapshot)
        n_classes, keep_days, days = fields["n_classes"], fields["keep_days"], fields["buckets"]
        if not is_count(n_classes) or n_classes == 0:
            raise StateError(f"`n_classes` should be a number of classes, it is {n_classes!r}")
        if keep_days is not None and (not is_count(keep_days) or keep_days == 0):
            raise StateError(f"`keep_days` should be a number of days or null, it is {keep_days!r}")
        if not isinstance(days, dict):
            raise StateError("`buckets` should be an object of days")
        buckets = {}
        for day, bucket in days.items():
            if day != UNDATED and not _is_day(day):
                raise StateError(f"`buckets` holds {day!r}, which is not a day like 2024-05-31")
            stats = ClassStats.restore(bucket)
            if stats.n_classes != n_classes:
                raise StateError(f"the bucket {day!r} has {stats.n_classes} classes where there should be {n_classes}")
            buckets[day] = stats
        histogram = PriorityHistogram.restore(fields["histogram"])
        return cls._drop_expired(buckets, histogram, keep_days, _sum_buckets(buckets.values(), n_classes))


def to_bucket_day(annotated_at: datetime | None, arrived_at: datetime) -> str:
    """The bucket of a sentence: the day (UTC) of its annotation, but not later than its arrival. Naive times are UTC.

    `arrived_at` must be the record's timestamp and not the clock, so that a replay gives the same day.
    """
    arrived = arrived_at if arrived_at.tzinfo else arrived_at.replace(tzinfo=UTC)
    annotated = arrived if annotated_at is None else annotated_at
    annotated = annotated if annotated.tzinfo else annotated.replace(tzinfo=UTC)
    try:
        return min(annotated, arrived).astimezone(UTC).date().isoformat()
    except OverflowError:  # before year 1 in UTC
        return date.min.isoformat()


def _sum_buckets(buckets: Iterable[ClassStats], n_classes: int) -> ClassStats:
    return reduce(ClassStats.merge, buckets, ClassStats.empty(n_classes))


def _find_first_day(buckets: Iterable[str], days: int) -> str:
    """The oldest day that is at most `days` before the newest. ISO dates sort as text, and UNDATED before them all."""
    newest = max(buckets, default=UNDATED)
    if newest == UNDATED:
        return UNDATED
    return date.fromordinal(max(1, date.fromisoformat(newest).toordinal() - days)).isoformat()


def _is_day(day: object) -> bool:
    """True for YYYY-MM-DD only: other ISO 8601 forms don't sort as text."""
    try:
        return isinstance(day, str) and date.fromisoformat(day).isoformat() == day
    except ValueError:
        return False


def _check_day(day: str) -> None:
    if not _is_day(day):
        raise InvalidInput(f"{day!r} is not a day like 2024-05-31", field="day")
