"""What the stream has learned, as seen by processes that only read it: the API judges with a worker's own thresholds.

One thread follows the datasets and the state topic; any thread may ask. What can't be reached or read any more leaves
the last answers in force, and is told.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from service.contracts import DatasetSettings, is_dataset_name
from service.errors import StateError, StreamError
from service.log.codec import parse_state_key
from service.log.protocol import PingableFollower
from service.statistics.running import RunningStats
from service.stream.state.arrivals import ArrivalCounter, DailyArrivals
from service.stream.state.snapshot import StatsKey
from service.stream.state.threshold_history import ThresholdHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.datasets.registry import DatasetRegistry, SettingsState
    from service.judging.judge import Judge
    from service.judging.types import ThresholdSet
    from service.log.protocol import Follower, Log, Record
    from service.log.topics import Topics
    from service.stream.state.threshold_history import ThresholdPoint

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.05
RETRY_INTERVAL_S = 1.0
CHECK_INTERVAL_S = 5.0
MAX_TIMESTAMP_MS = 253_402_300_799_000  # the end of the year 9999
MAX_EPHEMERAL_JUDGES = (
    256  # datasets that are only asked for, never set up nor learned: so many judges are kept for them
)


class StateView:
    """Thresholds and settings of all datasets, from the topics."""

    def __init__(self, stream: Log, topics: Topics, datasets: DatasetRegistry) -> None:
        self._stream = stream
        self._topics = topics
        self._datasets = datasets
        self._lock = threading.RLock()
        self._followers: dict[str, Follower] = {}
        self._partition_stats: dict[StatsKey, dict[int, RunningStats]] = defaultdict(dict)
        self._totals: dict[StatsKey, RunningStats] = {}
        self._threshold_sets: dict[StatsKey, tuple[Judge, RunningStats, ThresholdSet]] = {}
        self._ephemeral_judges: OrderedDict[str, Judge] = OrderedDict()
        self._threshold_history = ThresholdHistory()
        self._arrivals = ArrivalCounter()
        self._unreadable: dict[str, str] = {}
        self._caught_up = False
        self._answered_at = time.monotonic()
        self.broker_error: str | None = None

    # -- the thread ------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. A log that does not answer is asked again; the last answers stay in force."""
        try:
            while not stop.is_set():
                try:
                    busy = self.step()
                    self._check_broker(busy)
                except StreamError as error:
                    if self.broker_error is None:
                        logger.warning("thresholds stay as they are, the log does not answer: %s", error)
                    self.broker_error = str(error)
                    stop.wait(RETRY_INTERVAL_S)
                    continue
                if self.broker_error is not None:
                    logger.info("the log answers again")
                    self.broker_error = None
                if not busy:
                    stop.wait(POLL_INTERVAL_S)
        finally:
            self.close()

    def _check_broker(self, n_records: int) -> None:
        """Silence may mean that there is nothing new, or that nobody is there."""
        now = time.monotonic()
        if n_records == 0 and (self.broker_error is not None or now - self._answered_at >= CHECK_INTERVAL_S):
            follower = self._followers[self._topics.datasets]
            if isinstance(follower, PingableFollower):
                follower.ping()
            n_records = 1
        if n_records:
            self._answered_at = now

    def step(self) -> int:
        """Takes in what has come; gives the number of records."""
        settings, states = (self._get_follower(topic) for topic in (self._topics.datasets, self._topics.state))
        news, statistics = settings.poll(), states.poll()
        with self._lock:
            self._apply_settings(news)
            self._apply_statistics(statistics)
            self._caught_up = self._caught_up or (settings.caught_up and states.caught_up)
        return len(news) + len(statistics)

    def _get_follower(self, topic: str) -> Follower:
        found = self._followers.get(topic)
        if found is None:
            found = self._followers[topic] = self._stream.follow(topic)
        return found

    def close(self) -> None:
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            with suppress(StreamError):
                follower.close()

    def _apply_settings(self, records: Sequence[Record]) -> None:
        if not records:
            return
        self._datasets.apply_records(records)
        for record in records:
            name = (record.key or b"").decode(errors="replace")
            self._ephemeral_judges.pop(name, None)
            if is_dataset_name(name):  # anybody who may write to the topic can write any key
                self._record_thresholds(name, _clamp_timestamp_ms(record))

    def _apply_statistics(self, records: Iterable[Record]) -> None:
        moved: dict[str, int] = {}
        for record in records:
            try:
                place = _parse_record_key(record)
                if place is None:
                    continue
                partition, account = place
                if record.value is None:
                    self._partition_stats[account].pop(partition, None)
                else:
                    stats = RunningStats.restore(json.loads(record.value))
                    self._check_classes(account, stats)
                    self._partition_stats[account][partition] = stats
                    total = stats.histogram.total
                    self._arrivals.record(
                        account, partition, total, _clamp_timestamp_ms(record), caught_up=self._caught_up
                    )
            except (StateError, ValueError, RecursionError) as error:
                self._mark_unreadable(record, error)
                continue
            self._unreadable.pop(repr(record.key), None)
            self._totals.pop(account, None)
            moved[account.dataset] = _clamp_timestamp_ms(record)
        for dataset, at in moved.items():
            self._record_thresholds(dataset, at)

    def _check_classes(self, key: StatsKey, stats: RunningStats) -> None:
        """Others could neither be added to those of the same account, nor be judged by."""
        judge = self.get_judge(key.dataset)
        beside = next(iter(self._partition_stats[key].values()), None)
        like = judge.create_empty_stats() if judge.stats_key == key.stats_key else beside
        if like is not None and like.n_classes != stats.n_classes:
            raise StateError(f"statistics of {stats.n_classes} classes where {key.dataset} has {like.n_classes}")

    def _mark_unreadable(self, record: Record, error: Exception) -> None:
        """A worker must stop at statistics it can't read; who only reads goes on with the ones before."""
        key = repr(record.key)
        if record.value is None:  # what is gone troubles nobody
            self._unreadable.pop(key, None)
            return
        if key not in self._unreadable:
            logger.error("statistics in %s can't be read, the ones before them stay: %s", self._topics.state, error)
        self._unreadable[key] = str(error)

    def _record_thresholds(self, dataset: str, timestamp_ms: int) -> None:
        self._threshold_history.record(dataset, self.get_threshold_set(dataset).by_class, timestamp_ms)

    # -- what can be asked -----------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether both topics were read once to the end they had."""
        return self._caught_up

    @property
    def state_error(self) -> str | None:
        """Why some statistics are older than the topic's."""
        with self._lock:
            return next(iter(self._unreadable.values()), None)

    @property
    def refused_settings(self) -> dict[str, str]:
        """Datasets whose newer settings can't be used, and why."""
        with self._lock:
            return dict(self._datasets.refused_settings)

    def list_names(self) -> tuple[str, ...]:
        """Datasets that were set up, or that sentences came of."""
        with self._lock:
            learned = {account.dataset for account, sheets in self._partition_stats.items() if sheets}
            return self._datasets.list_names(learned)

    def get_judge(self, dataset: str) -> Judge:
        """The judge of a dataset; one that nobody has set up has the default settings, and is not remembered."""
        with self._lock:
            if dataset in self._datasets:
                return self._datasets.get_judge(dataset)
            found = self._ephemeral_judges.get(dataset)
            if found is None:
                found = self._ephemeral_judges[dataset] = self.build_judge(DatasetSettings(name=dataset))
            self._ephemeral_judges.move_to_end(dataset)
            if len(self._ephemeral_judges) > MAX_EPHEMERAL_JUDGES:
                self._ephemeral_judges.popitem(last=False)
            return found

    def build_judge(self, settings: DatasetSettings) -> Judge:
        """A judge with these settings, which it does not keep; InvalidInput where they don't fit the model."""
        return self._datasets.build_judge(settings)

    def get_settings_state(self, dataset: str) -> SettingsState:
        """What a change of the dataset's settings builds on."""
        with self._lock:
            return self._datasets.get_settings_state(dataset)

    def get_settings(self, dataset: str) -> DatasetSettings:
        return self.get_judge(dataset).settings

    def get_total(self, key: StatsKey) -> RunningStats | None:
        """Statistics over all partitions; none where nothing is learned yet."""
        with self._lock:
            found = self._totals.get(key)
            if found is None:
                for stats in self._partition_stats.get(key, {}).values():
                    found = stats if found is None else found.merge(stats)
                if found is not None:
                    self._totals[key] = found
            return found

    def get_stats(self, dataset: str) -> RunningStats:
        """What sentences of the dataset are judged by now, as a worker would."""
        with self._lock:
            judge = self.get_judge(dataset)
            found = self.get_total(StatsKey(dataset, judge.stats_key))
        if found is None:
            return judge.create_empty_stats()
        days = judge.settings.forget_after_days
        return found if found.keep_days == days else found.with_keep_days(days)

    def get_threshold_set(self, dataset: str) -> ThresholdSet:
        """Read from the statistics once, and kept until they or the settings change."""
        with self._lock:
            judge = self.get_judge(dataset)
            account = StatsKey(dataset, judge.stats_key)
            total = self.get_total(account)
            if total is None:
                return judge.build_threshold_set(judge.create_empty_stats())
            kept = self._threshold_sets.get(account)
            if kept is None or kept[0] is not judge or kept[1] is not total:
                kept = self._threshold_sets[account] = (
                    judge,
                    total,
                    judge.build_threshold_set(self.get_stats(dataset)),
                )
            return kept[2]

    def list_threshold_points(self, dataset: str) -> tuple[ThresholdPoint, ...]:
        """How the thresholds have moved since this process follows them, oldest first; the last points only."""
        with self._lock:
            return self._threshold_history.list_points(dataset)

    def list_arrivals(self, dataset: str) -> tuple[DailyArrivals, ...]:
        """How many sentences came on each day, oldest first."""
        with self._lock:
            return self._arrivals.list_days(dataset)


def _parse_record_key(record: Record) -> tuple[int, StatsKey] | None:
    """The partition and the account that statistics are of; none for another kind of record."""
    found = parse_state_key(record.key or b"")
    if found is None:
        return None
    partition, dataset, stats_key = found
    if not is_dataset_name(dataset):
        raise StateError(f"{dataset[:80]!r} is not the name of a dataset")
    return partition, StatsKey(dataset, stats_key)


def _clamp_timestamp_ms(record: Record) -> int:
    """Its time, which whoever wrote it has chosen: held within what a calendar knows."""
    return min(max(record.timestamp_ms, 0), MAX_TIMESTAMP_MS)
