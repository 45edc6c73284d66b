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

from pydantic import TypeAdapter, ValidationError

from service.contracts import DatasetName, DatasetSettings
from service.errors import StateError, StreamError
from service.log.codec import read_state_key
from service.log.protocol import Checked
from service.statistics.running import RunningStats
from service.stream.state.arrivals import Arrivals, Arrived
from service.stream.state.snapshot import Account
from service.stream.state.threshold_history import History

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.datasets.registry import Datasets, Latest
    from service.judging.judge import Judge
    from service.judging.types import Yardstick
    from service.log.protocol import Follower, Record, Stream
    from service.log.topics import Topics
    from service.stream.state.threshold_history import Moment

log = logging.getLogger(__name__)

PAUSE = 0.05
RETRY_PAUSE = 1.0
CHECK_EVERY = 5.0
LAST_MS = 253_402_300_799_000  # the end of the year 9999
PASSING = 256  # datasets that are only asked for, never set up nor learned: so many judges are kept for them

_name: TypeAdapter[str] = TypeAdapter(DatasetName)


class Mirror:
    """Thresholds and settings of all datasets, from the topics."""

    def __init__(self, stream: Stream, topics: Topics, datasets: Datasets) -> None:
        self._stream = stream
        self._topics = topics
        self._datasets = datasets
        self._lock = threading.RLock()
        self._followers: dict[str, Follower] = {}
        self._sheets: dict[Account, dict[int, RunningStats]] = defaultdict(dict)
        self._totals: dict[Account, RunningStats] = {}
        self._yardsticks: dict[Account, tuple[Judge, RunningStats, Yardstick]] = {}
        self._passing: OrderedDict[str, Judge] = OrderedDict()
        self._history = History()
        self._arrivals = Arrivals()
        self._unreadable: dict[str, str] = {}
        self._caught_up = False
        self._answered_at = time.monotonic()
        self.broker_trouble: str | None = None

    # -- the thread ------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set. A log that does not answer is asked again; the last answers stay in force."""
        try:
            while not stop.is_set():
                try:
                    busy = self.step()
                    self._check(busy)
                except StreamError as error:
                    if self.broker_trouble is None:
                        log.warning("thresholds stay as they are, the log does not answer: %s", error)
                    self.broker_trouble = str(error)
                    stop.wait(RETRY_PAUSE)
                    continue
                if self.broker_trouble is not None:
                    log.info("the log answers again")
                    self.broker_trouble = None
                if not busy:
                    stop.wait(PAUSE)
        finally:
            self.close()

    def _check(self, busy: int) -> None:
        """Silence may mean that there is nothing new, or that nobody is there."""
        now = time.monotonic()
        if busy == 0 and (self.broker_trouble is not None or now - self._answered_at >= CHECK_EVERY):
            follower = self._followers[self._topics.datasets]
            if isinstance(follower, Checked):
                follower.check()
            busy = 1
        if busy:
            self._answered_at = now

    def step(self) -> int:
        """Takes in what has come; gives the number of records."""
        settings, states = (self._follower(topic) for topic in (self._topics.datasets, self._topics.state))
        news, statistics = settings.poll(), states.poll()
        with self._lock:
            self._take_settings(news)
            self._take_statistics(statistics)
            self._caught_up = self._caught_up or (settings.caught_up and states.caught_up)
        return len(news) + len(statistics)

    def _follower(self, topic: str) -> Follower:
        found = self._followers.get(topic)
        if found is None:
            found = self._followers[topic] = self._stream.follow(topic)
        return found

    def close(self) -> None:
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            with suppress(StreamError):
                follower.close()

    def _take_settings(self, records: Sequence[Record]) -> None:
        if not records:
            return
        self._datasets.read(records)
        for record in records:
            name = (record.key or b"").decode(errors="replace")
            self._passing.pop(name, None)
            if _is_name(name):  # anybody who may write to the topic can write any key
                self._note(name, _at(record))

    def _take_statistics(self, records: Iterable[Record]) -> None:
        moved: dict[str, int] = {}
        for record in records:
            try:
                place = _place(record)
                if place is None:
                    continue
                partition, account = place
                if record.value is None:
                    self._sheets[account].pop(partition, None)
                else:
                    stats = RunningStats.restore(json.loads(record.value))
                    self._check_classes(account, stats)
                    self._sheets[account][partition] = stats
                    total = stats.histogram.total
                    self._arrivals.note(account, partition, total, _at(record), followed=self._caught_up)
            except (StateError, ValueError, RecursionError) as error:
                self._refuse(record, error)
                continue
            self._unreadable.pop(repr(record.key), None)
            self._totals.pop(account, None)
            moved[account.dataset] = _at(record)
        for dataset, at in moved.items():
            self._note(dataset, at)

    def _check_classes(self, account: Account, stats: RunningStats) -> None:
        """Others could neither be added to those of the same account, nor be judged by."""
        judge = self.judge(account.dataset)
        beside = next(iter(self._sheets[account].values()), None)
        like = judge.empty() if judge.stats_key == account.stats_key else beside
        if like is not None and like.n_classes != stats.n_classes:
            raise StateError(f"statistics of {stats.n_classes} classes where {account.dataset} has {like.n_classes}")

    def _refuse(self, record: Record, error: Exception) -> None:
        """A worker must stop at statistics it can't read; who only reads goes on with the ones before."""
        key = repr(record.key)
        if record.value is None:  # what is gone troubles nobody
            self._unreadable.pop(key, None)
            return
        if key not in self._unreadable:
            log.error("statistics in %s can't be read, the ones before them stay: %s", self._topics.state, error)
        self._unreadable[key] = str(error)

    def _note(self, dataset: str, at_ms: int) -> None:
        self._history.note(dataset, self.yardstick(dataset).named, at_ms)

    # -- what can be asked -----------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether both topics were read once to the end they had."""
        return self._caught_up

    @property
    def state_trouble(self) -> str | None:
        """Why some statistics are older than the topic's."""
        with self._lock:
            return next(iter(self._unreadable.values()), None)

    @property
    def refused(self) -> dict[str, str]:
        """Datasets whose newer settings can't be used, and why."""
        with self._lock:
            return dict(self._datasets.refused)

    def names(self) -> tuple[str, ...]:
        """Datasets that were set up, or that sentences came of."""
        with self._lock:
            learned = {account.dataset for account, sheets in self._sheets.items() if sheets}
            return tuple(sorted({*self._datasets.names, *filter(_is_name, self._datasets.refused), *learned}))

    def judge(self, dataset: str) -> Judge:
        """The judge of a dataset; one that nobody has set up has the default settings, and is not remembered."""
        with self._lock:
            if dataset in self._datasets:
                return self._datasets.judge(dataset)
            found = self._passing.get(dataset)
            if found is None:
                found = self._passing[dataset] = self.try_out(DatasetSettings(name=dataset))
            self._passing.move_to_end(dataset)
            if len(self._passing) > PASSING:
                self._passing.popitem(last=False)
            return found

    def try_out(self, settings: DatasetSettings) -> Judge:
        """A judge with these settings, which it does not keep; InvalidInput where they don't fit the model."""
        return self._datasets.made(settings)

    def to_change(self, dataset: str) -> tuple[DatasetSettings, Latest]:
        """The settings in force, and what the topic holds last of them."""
        with self._lock:
            return self.settings(dataset), self._datasets.latest(dataset)

    def settings(self, dataset: str) -> DatasetSettings:
        return self.judge(dataset).settings

    def total(self, account: Account) -> RunningStats | None:
        """Statistics over all partitions; none where nothing is learned yet."""
        with self._lock:
            found = self._totals.get(account)
            if found is None:
                for stats in self._sheets.get(account, {}).values():
                    found = stats if found is None else found.merge(stats)
                if found is not None:
                    self._totals[account] = found
            return found

    def stats(self, dataset: str) -> RunningStats:
        """What sentences of the dataset are judged by now, as a worker would."""
        with self._lock:
            judge = self.judge(dataset)
            found = self.total(Account(dataset, judge.stats_key))
        if found is None:
            return judge.empty()
        days = judge.settings.forget_after_days
        return found if found.keep_days == days else found.keeping(days)

    def yardstick(self, dataset: str) -> Yardstick:
        """Read from the statistics once, and kept until they or the settings change."""
        with self._lock:
            judge = self.judge(dataset)
            account = Account(dataset, judge.stats_key)
            total = self.total(account)
            if total is None:
                return judge.yardstick(judge.empty())
            kept = self._yardsticks.get(account)
            if kept is None or kept[0] is not judge or kept[1] is not total:
                kept = self._yardsticks[account] = (judge, total, judge.yardstick(self.stats(dataset)))
            return kept[2]

    def history(self, dataset: str) -> tuple[Moment, ...]:
        """How the thresholds have moved since this process follows them, oldest first; the last points only."""
        with self._lock:
            return self._history.of(dataset)

    def arrivals(self, dataset: str) -> tuple[Arrived, ...]:
        """How many sentences came on each day, oldest first."""
        with self._lock:
            return self._arrivals.days(dataset)


def _place(record: Record) -> tuple[int, Account] | None:
    """The partition and the account that statistics are of; none for another kind of record."""
    found = read_state_key(record.key or b"")
    if found is None:
        return None
    partition, dataset, stats_key = found
    if not _is_name(dataset):
        raise StateError(f"{dataset[:80]!r} is not the name of a dataset")
    return partition, Account(dataset, stats_key)


def _at(record: Record) -> int:
    """Its time, which whoever wrote it has chosen: held within what a calendar knows."""
    return min(max(record.timestamp_ms, 0), LAST_MS)


def _is_name(text: str) -> bool:
    try:
        _name.validate_python(text)
    except ValidationError:
        return False
    return True
