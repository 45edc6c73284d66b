"""What a stream keeps per dataset and stats key: class statistics, by day where the dataset forgets, and priorities."""

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


@dataclass(frozen=True, slots=True)
class RunningStats:
    """Class statistics per day bucket, and the histogram of priorities. Never changed: each call returns a new one.

    With `keep_days` = N, buckets older than N days before the newest are dropped; the newest is still filling, so
    this is N whole days and what there is of one more. The result is that of summing every bucket ever seen and
    dropping once at the end, whatever the order of updates and merges: a cut-off (newest − N) can only rise, as merging
    takes the later newest day and the smaller N, so what was dropped early would have been dropped at the end,
    and the newest bucket itself is never dropped. The histogram doesn't forget.
    """

    n_classes: int
    buckets: Mapping[str, ClassStats]
    histogram: PriorityHistogram
    keep_days: int | None
    _total: ClassStats  # of all buckets, carried along so that reading it costs nothing

    @classmethod
    def empty(cls, n_classes: int, *, keep_days: int | None = None) -> RunningStats:
        """Nothing seen yet."""
        return cls._drop_expired({}, PriorityHistogram.empty(), keep_days, ClassStats.empty(n_classes))

    @classmethod
    def _drop_expired(
        cls, buckets: dict[str, ClassStats], histogram: PriorityHistogram, keep_days: int | None, total: ClassStats
    ) -> RunningStats:
        """What is left of these buckets, which sum to `total`, once the old ones are dropped."""
        if keep_days is not None:
            if keep_days < 1:
                raise InvalidInput(f"{keep_days} days where at least 1 is needed", field="keep_days")
            first = _find_first_day(buckets, keep_days)
            kept = {day: stats for day, stats in buckets.items() if day >= first}
            if len(kept) < len(buckets):
                buckets, total = kept, _sum_buckets(kept.values(), total.n_classes)
        return cls(total.n_classes, buckets, histogram, keep_days, total)

    def update(
        self,
        probs: Floats,
        given: Integers,
        *,
        day: str = UNDATED,
        priority: float | NDArray[np.floating[Any]] | None = None,
    ) -> RunningStats:
        """These statistics and the words of one sentence (or of many) of one day; `priority` goes to the histogram.

        `day` must not be later than when the sentence came in (`day_of` sees to it): one from the far future would
        make all others forgotten.
        """
        histogram = self.histogram if priority is None else self.histogram.update(priority)
        bucket = self.buckets.get(day)
        if bucket is None:
            if day != UNDATED:
                _check_day(day)
            learned = ClassStats.empty(self.n_classes).update(probs, given)
            too_late = self.keep_days is not None and day < _find_first_day(self.buckets, self.keep_days)
            if too_late or learned.is_empty:  # a bucket without words must not decide which day is the newest
                return RunningStats(self.n_classes, self.buckets, histogram, self.keep_days, self._total)
            buckets = {**self.buckets, day: learned}
            return RunningStats._drop_expired(buckets, histogram, self.keep_days, self._total.merge(learned))
        if len(self.buckets) == 1:
            learned = bucket.update(probs, given)
            return RunningStats(self.n_classes, {day: learned}, histogram, self.keep_days, learned)
        learned = ClassStats.empty(self.n_classes).update(probs, given)
        buckets = {**self.buckets, day: bucket.merge(learned)}
        return RunningStats(self.n_classes, buckets, histogram, self.keep_days, self._total.merge(learned))

    def merge(self, other: RunningStats) -> RunningStats:
        """Both together; the order of merges doesn't matter."""
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
        """All that is kept, or what lies at most `window_days` days before the newest.

        At once where the window is no narrower than `keep_days`; a narrower one is summed anew at each call.
        """
        if window_days is None or (self.keep_days is not None and window_days >= self.keep_days):
            return self._total
        if window_days < 1:
            raise InvalidInput(f"{window_days} days where at least 1 is needed", field="window_days")
        first = _find_first_day(self.buckets, window_days)
        return _sum_buckets((stats for day, stats in self.buckets.items() if day >= first), self.n_classes)

    def snapshot(self) -> dict[str, object]:
        """As JSON can hold it; equal statistics give equal text."""
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
        """The statistics that `snapshot` was made of; StateError where it can't be one."""
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
    """The bucket of a sentence: the day (UTC) it was annotated, never later than it arrived. Naive times are UTC.

    Take `arrived_at` from the record, not from a clock, so that a replay finds the same day.
    """
    arrived = arrived_at if arrived_at.tzinfo else arrived_at.replace(tzinfo=UTC)
    annotated = arrived if annotated_at is None else annotated_at
    annotated = annotated if annotated.tzinfo else annotated.replace(tzinfo=UTC)
    try:
        return min(annotated, arrived).astimezone(UTC).date().isoformat()
    except OverflowError:  # the first hours of year 1, east of Greenwich
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
    """Only YYYY-MM-DD: the other ISO spellings don't sort as text."""
    try:
        return isinstance(day, str) and date.fromisoformat(day).isoformat() == day
    except ValueError:
        return False


def _check_day(day: str) -> None:
    if not _is_day(day):
        raise InvalidInput(f"{day!r} is not a day like 2024-05-31", field="day")
