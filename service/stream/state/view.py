"""A read-only view of datasets and statistics: with it the API judges with the thresholds of the workers.

One thread follows the datasets topic and the state topic; any thread may ask. While the log does not answer, or a
record can't be read, the last settings and statistics stay in force, and `broker_error` or `state_error` says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from service.datasets.settings_records import get_dataset_name
from service.datasets.waiting import WaitingDatasets
from service.errors import MissingModelError, StateError, StreamError
from service.judging.misfit import find_misfit
from service.log.protocol import PingableFollower
from service.statistics.arrivals import NO_FLAGS
from service.stream.state.batches import sum_batches
from service.stream.state.context import JudgingContext
from service.stream.state.reader import apply_state_record, read_state_record
from service.stream.state.snapshot import StateRecord, StateSnapshot, StatsKey

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from service.contracts import DatasetSettings
    from service.datasets.registry import DatasetRegistry, SettingsState
    from service.datasets.waiting import WaitingDataset
    from service.judging.judge import Judge
    from service.judging.misfit import Misfit
    from service.judging.types import ThresholdSet
    from service.log.protocol import Follower, Log, Record
    from service.log.topics import Topics
    from service.statistics.batches import DatasetBatches
    from service.statistics.running import RunningStats

    ClassList = tuple[str, ...] | None  # of probabilities sent with sentences; None: the model's

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.05
RETRY_INTERVAL_S = 1.0
CHECK_INTERVAL_S = 5.0
MAX_CONTEXTS = 1_024  # datasets and class lists whose judge and thresholds stay in memory, the last used ones


class StateView:
    """Settings, statistics and thresholds of all datasets, from the topics."""

    def __init__(self, log: Log, topics: Topics, datasets: DatasetRegistry) -> None:
        self._log = log
        self._topics = topics
        self._datasets = datasets
        self._lock = threading.RLock()
        self._followers: dict[str, Follower] = {}
        self._snapshot = StateSnapshot()
        self._waiting = WaitingDatasets(self.get_judge)
        self._contexts: OrderedDict[tuple[str, ClassList], JudgingContext] = OrderedDict()
        self._unreadable: dict[Hashable, str] = {}  # by record key, or by stats key where the model does not fit
        self._caught_up = False
        self._answered_at = time.monotonic()
        self.broker_error: str | None = None

    # -- the thread ------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Follows the topics until `stop` is set. A log that does not answer is asked again."""
        try:
            while not stop.is_set():
                try:
                    n_records = self.step()
                    self._check_broker(n_records)
                except StreamError as error:
                    if self.broker_error is None:
                        logger.warning("the log does not answer, the last thresholds stay in force: %s", error)
                    self.broker_error = str(error)
                    stop.wait(RETRY_INTERVAL_S)
                    continue
                if self.broker_error is not None:
                    logger.info("the log answers again")
                    self.broker_error = None
                if not n_records:
                    stop.wait(POLL_INTERVAL_S)
        finally:
            self.close()

    def _check_broker(self, n_records: int) -> None:
        """Pings the log from time to time: no records may mean that there are none, or that the broker is down."""
        now = time.monotonic()
        if n_records == 0 and (self.broker_error is not None or now - self._answered_at >= CHECK_INTERVAL_S):
            follower = self._followers[self._topics.datasets]
            if isinstance(follower, PingableFollower):
                follower.ping()
            n_records = 1
        if n_records:
            self._answered_at = now

    def step(self) -> int:
        """Applies the new records of both topics and returns their number."""
        settings, states = (self._get_follower(topic) for topic in (self._topics.datasets, self._topics.state))
        settings_records, state_records = settings.poll(), states.poll()
        # Reading 500 state records takes about 150 ms, so it happens outside the lock that requests wait for.
        snapshot, errors = self._read_state(state_records)
        with self._lock:
            self._apply_settings(settings_records)
            self._snapshot = snapshot
            self._apply_errors(errors)
            self._caught_up = self._caught_up or (settings.caught_up and states.caught_up)
        return len(settings_records) + len(state_records)

    def _get_follower(self, topic: str) -> Follower:
        follower = self._followers.get(topic)
        if follower is None:
            follower = self._followers[topic] = self._log.follow(topic)
        return follower

    def close(self) -> None:
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            with suppress(StreamError):
                follower.close()

    def _apply_settings(self, records: Sequence[Record]) -> None:
        if not records:
            return
        self._datasets.apply_records(records)
        changed = {get_dataset_name(record) for record in records}
        for key in [key for key in self._contexts if key[0] in changed]:
            del self._contexts[key]

    def _read_state(self, records: Sequence[Record]) -> tuple[StateSnapshot, dict[Hashable, StateError | None]]:
        """The snapshot with these records, and the errors by key; None for a key that is readable or deleted."""
        draft = self._snapshot.start_draft()
        errors: dict[Hashable, StateError | None] = {}
        for record in records:
            errors[record.key] = None
            try:
                state_record = read_state_record(self._topics.state, record.key, record.value)
                if state_record is not None:
                    apply_state_record(draft, self._topics.state, state_record)
                    if isinstance(state_record, StateRecord):
                        errors[state_record.key] = None
            except StateError as error:
                if record.value is not None:
                    errors[record.key] = error
        return draft.to_snapshot(), errors

    def _apply_errors(self, errors: Mapping[Hashable, StateError | None]) -> None:
        for key, error in errors.items():
            if error is None:
                self._unreadable.pop(key, None)
            else:
                self._mark_unreadable(key, error)

    def _mark_unreadable(self, key: Hashable, error: StateError) -> None:
        """A worker stops at a record it can't read; a view keeps the statistics before it, and logs that once."""
        if key not in self._unreadable:
            logger.error("the last statistics that could be read stay in force: %s", error)
        self._unreadable[key] = str(error)

    # -- what can be asked -----------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether both topics were read once to the end they had."""
        return self._caught_up

    @property
    def state_error(self) -> str | None:
        """Why some statistics are older than those in the topic."""
        with self._lock:
            return next(iter(self._unreadable.values()), None)

    @property
    def refused_settings(self) -> dict[str, str]:
        """Datasets whose newest settings can't be used, and why."""
        with self._lock:
            return dict(self._datasets.refused_settings)

    @property
    def snapshot(self) -> StateSnapshot:
        return self._snapshot

    def list_names(self) -> tuple[str, ...]:
        """Datasets that have settings or statistics."""
        with self._lock:
            return self._datasets.list_names(self._snapshot.datasets)

    def get_context(self, dataset: str, classes: ClassList = None) -> JudgingContext:
        """What sentences of the dataset are judged with now. The same object until settings or statistics change.

        With `classes` those whose probabilities are sent for this class list. A dataset without settings has the
        default ones and is not registered: its name may be made up.
        """
        key = dataset, classes
        with self._lock:
            context = self._contexts.get(key)
            judge = self._find_judge(dataset, classes, context)
            learned = self._find_stats(judge)
            memories = self._snapshot.get_memories(judge)
            if context is None or not context.is_current(judge, learned, memories):
                context = self._contexts[key] = JudgingContext(
                    judge, learned, partial(self._datasets.build_judge, classes=classes), memories
                )
            self._contexts.move_to_end(key)
            if len(self._contexts) > MAX_CONTEXTS:
                self._contexts.popitem(last=False)
            return context

    def _find_judge(self, dataset: str, classes: ClassList, context: JudgingContext | None) -> Judge:
        if dataset in self._datasets and classes is None:
            return self._datasets.get_judge(dataset)
        if context is not None:  # the settings are the same: a change removes the context
            return context.judge
        return self._datasets.build_judge(self._datasets.get_settings_state(dataset).in_force, classes)

    def _find_stats(self, judge: Judge) -> RunningStats | None:
        try:
            return self._snapshot.find_stats(judge)
        except StateError as error:
            self._mark_unreadable(StatsKey.from_judge(judge), error)
            return None

    def get_judge(self, dataset: str) -> Judge:
        return self.get_context(dataset).judge

    def get_settings(self, dataset: str) -> DatasetSettings:
        return self.get_settings_state(dataset).in_force

    def get_stats(self, dataset: str) -> RunningStats:
        """The statistics over all partitions that sentences of the dataset are judged with now."""
        return self.get_context(dataset).stats

    def get_threshold_set(self, dataset: str) -> ThresholdSet:
        return self.get_context(dataset).threshold_set

    def find_waiting(self, dataset: str) -> WaitingDataset | None:
        """The dataset as it waits for a model; None if nothing of it is stored."""
        return self._waiting.find(dataset, self._snapshot.get_arrivals(dataset).total)

    def list_waiting(self) -> tuple[WaitingDataset, ...]:
        """The datasets with sentences that wait for a model."""
        return self._waiting.list_all(self._snapshot.list_arrivals())

    def get_batches(self, dataset: str) -> DatasetBatches:
        """The counts of the dataset's batches, from all partitions."""
        return sum_batches(self._snapshot.batches, dataset)

    def find_misfit(self, dataset: str) -> Misfit | None:
        """Whether the model that judges the dataset now flags an implausible share of it."""
        flags = self._snapshot.get_arrivals(dataset).total.flags
        if not flags:
            return None
        try:
            judge = self.get_judge(dataset)
        except MissingModelError:
            return None
        return find_misfit(flags.get(judge.stats_key, NO_FLAGS), is_trained=judge.is_trained)

    def list_misfits(self) -> dict[str, Misfit]:
        """The datasets that their model does not fit."""
        candidates = sorted(
            name
            for name, arrivals in self._snapshot.arrivals.items()
            if any(find_misfit(counts) is not None for counts in arrivals.total.flags.values())
        )
        return {name: misfit for name in candidates if (misfit := self.find_misfit(name)) is not None}

    def build_judge(self, settings: DatasetSettings) -> Judge:
        """A judge with these settings, for one use; InvalidInput where they don't fit the model."""
        return self._datasets.build_judge(settings)

    def get_settings_state(self, dataset: str) -> SettingsState:
        """What a change of the dataset's settings builds on."""
        with self._lock:
            return self._datasets.get_settings_state(dataset)
