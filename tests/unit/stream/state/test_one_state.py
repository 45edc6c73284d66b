"""Worker, API view and commands must judge with the same statistics, to the bit, whatever the topics hold."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from datetime import date, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.codec import parse_state_key, to_state_key
from service.log.protocol import Output
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.statistics.class_stats import ClassStats
from service.statistics.histogram import PriorityHistogram
from service.statistics.running import UNDATED, RunningStats
from service.stream.state.reader import read_state
from service.stream.state.view import StateView
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.support.command_harness import make_sentences
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from service.judging.judge import Judge
    from service.log.protocol import Follower

TOPICS = Topics()
DATASETS = ("news", "sport")
FIRST_DAY = date(2024, 1, 1)


class SettingsStep(NamedTuple):
    dataset: str
    forget_after_days: int | None
    epoch: int


class StateStep(NamedTuple):
    """Statistics that a worker of another partition writes; no days: a tombstone."""

    partition: int
    dataset: str
    epoch: int
    keep_days: int | None
    days: tuple[int, ...]
    seed: int


class SentencesStep(NamedTuple):
    """Sentences that this worker learns from, annotated on one day."""

    dataset: str
    day: int
    seed: int


class RestartStep(NamedTuple):
    """The worker stops, and a new one restores the state."""


Step = SettingsStep | StateStep | SentencesStep | RestartStep

dataset_names = st.sampled_from(DATASETS)
memories = st.sampled_from([None, 1, 7, 90])
day_numbers = st.integers(0, 120)
seeds = st.integers(0, 10**6)
steps = st.lists(
    st.one_of(
        st.builds(SettingsStep, dataset_names, memories, st.integers(0, 1)),
        st.builds(
            StateStep,
            st.integers(1, 3),
            dataset_names,
            st.integers(0, 1),
            memories,
            st.lists(day_numbers, max_size=4).map(tuple),
            seeds,
        ),
        st.builds(SentencesStep, dataset_names, day_numbers, seeds),
        st.builds(RestartStep),
    ),
    max_size=12,
)


def to_day(number: int) -> str:
    return (FIRST_DAY + timedelta(days=number)).isoformat()


def build_stats(step: StateStep, n_classes: int) -> RunningStats:
    rng, stats = np.random.default_rng(step.seed), RunningStats.empty(n_classes, keep_days=step.keep_days)
    for number in step.days:
        probs, given_classes = rng.dirichlet([0.3] * n_classes, 3), rng.integers(0, n_classes, 3)
        day = UNDATED if step.keep_days is None else to_day(number)
        stats = stats.update(probs, given_classes, day=day, priority=float(rng.random()))
    return stats


class Deployment:
    """A worker of partition 0, an API view and commands on one log; records of other partitions are appended."""

    def __init__(self, path: Path, classifier: Classifier) -> None:
        self._path = path
        self._classifier = classifier
        self._versions: dict[str, int] = defaultdict(int)
        self._start_worker()
        self.view = StateView(self.session, TOPICS, self._build_registry())

    def _build_registry(self) -> DatasetRegistry:
        return DatasetRegistry(make_pool(self._classifier), max_datasets=4, min_words=1, prior_words=0)

    def _start_worker(self) -> None:
        self.session = SqliteWorkerSession(self._path, TOPICS)
        registry = self._build_registry()
        processor = BatchProcessor(make_pool(self._classifier), registry, TOPICS)
        self.worker = Worker(self.session, processor, registry, TOPICS, poll_timeout=0.0)
        self._settings: Follower = self.session.follow(TOPICS.datasets)
        self._states: Follower = self.session.follow(TOPICS.state)
        self.worker.apply_rebalance()

    def close(self) -> None:
        self.view.close()
        self.session.close()

    def run(self, step: Step) -> None:
        if isinstance(step, SettingsStep):
            self._versions[step.dataset] += 1
            changed = DatasetSettings(
                name=step.dataset,
                forget_after_days=step.forget_after_days,
                epoch=step.epoch,
                version=self._versions[step.dataset],
            )
            self._append(TOPICS.datasets, changed.name.encode(), changed.model_dump_json().encode())
        elif isinstance(step, StateStep):
            judge = self._build_registry().build_judge(DatasetSettings(name=step.dataset, epoch=step.epoch))
            key = to_state_key(step.partition, step.dataset, judge.stats_key)
            snapshot = build_stats(step, len(judge.classes)).snapshot()
            self._append(TOPICS.state, key, json.dumps(snapshot).encode() if step.days else None)
        elif isinstance(step, SentencesStep):
            annotated_at = f"{to_day(step.day)}T12:00:00Z"
            for sentence in make_sentences(3, seed=step.seed, dataset=step.dataset, annotated_at=annotated_at):
                self._append(TOPICS.sentences, None, json.dumps(sentence).encode())
        else:
            self.close()
            self._start_worker()
            self.view = StateView(self.session, TOPICS, self._build_registry())
        self._catch_up()

    def _append(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        self.session.append([Output(topic, key, value)])

    def _catch_up(self) -> None:
        while records := self._settings.poll():
            self.worker.datasets.apply_records(records)
        while records := self._states.poll():
            self.worker.apply_state_records(records)
        while self.worker.step():
            pass
        while self.view.step():
            pass

    def sum_in_one_pass(self, judge: Judge) -> RunningStats:
        """All buckets of the newest records in one sum, and then the days that the setting of now forgets dropped."""
        newest: dict[tuple[int, str, str], bytes] = {}
        for record in self.session.read(TOPICS.state, 0, 100_000):
            key = parse_state_key(record.key or b"")
            if key is not None:
                newest.pop(key, None)
                if record.value is not None:
                    newest[key] = record.value
        buckets: dict[str, ClassStats] = {}
        histogram = PriorityHistogram.empty()
        for (_, dataset, stats_key), value in newest.items():
            if (dataset, stats_key) == (judge.settings.name, judge.stats_key):
                stats = RunningStats.restore(json.loads(value))
                histogram = histogram.merge(stats.histogram)
                for day, bucket in stats.buckets.items():
                    buckets[day] = bucket.merge(buckets.get(day, ClassStats.empty(len(judge.classes))))
        days = judge.settings.forget_after_days
        last = max(buckets, default=UNDATED)
        if days is not None and last != UNDATED:
            first = (date.fromisoformat(last) - timedelta(days=days)).isoformat()
            buckets = {day: bucket for day, bucket in buckets.items() if day >= first}
        total = reduce(ClassStats.merge, buckets.values(), ClassStats.empty(len(judge.classes)))
        return RunningStats(len(judge.classes), buckets, histogram, days, total)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece")))


def check_same_everywhere(deployment: Deployment) -> None:
    commands = read_state(deployment.session, TOPICS).snapshot
    for dataset in DATASETS:
        judge = deployment.worker.datasets.get_judge(dataset)
        expected = deployment.sum_in_one_pass(judge)
        assert deployment.worker.snapshot.get_stats(judge) == expected
        assert deployment.view.get_stats(dataset) == expected
        assert commands.get_stats(judge) == expected
        ours, theirs = judge.build_threshold_set(expected), deployment.view.get_threshold_set(dataset)
        assert ours.by_index.tobytes() == theirs.by_index.tobytes()
        assert ours.weights.tobytes() == theirs.weights.tobytes()


@settings(deadline=None, max_examples=60)
@given(steps=steps)
def test_worker_api_and_commands_have_the_statistics_of_one_pass(classifier: Classifier, steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        deployment = Deployment(Path(folder) / "log.sqlite", classifier)
        try:
            for step in steps:
                deployment.run(step)
                check_same_everywhere(deployment)
        finally:
            deployment.close()


def test_a_longer_memory_makes_no_partition_forget(tmp_path: Path, classifier: Classifier) -> None:
    """The setting rises from 7 to 90 days while partition 1 stands idle: both partitions count."""
    deployment = Deployment(tmp_path / "log.sqlite", classifier)
    deployment.run(SettingsStep("news", 90, 0))
    deployment.run(StateStep(1, "news", 0, 7, (0,) * 5, 1))
    deployment.run(StateStep(2, "news", 0, 90, (30,) * 5, 2))
    check_same_everywhere(deployment)
    assert deployment.view.get_stats("news").get_total().n_words == 30
    deployment.close()


def test_a_shorter_memory_for_a_while_loses_nothing_of_an_idle_partition(
    tmp_path: Path, classifier: Classifier
) -> None:
    """Down to 7 days, a batch, and up to 90 again: a worker without a restart has what one after a restart has."""
    deployment = Deployment(tmp_path / "log.sqlite", classifier)
    deployment.run(SettingsStep("news", 90, 0))
    deployment.run(StateStep(1, "news", 0, 90, (0,) * 5, 1))
    for forget_after_days in (7, 90):
        deployment.run(SettingsStep("news", forget_after_days, 0))
        deployment.run(SentencesStep("news", 30, forget_after_days))
        check_same_everywhere(deployment)
    before = deployment.view.get_stats("news")
    assert to_day(0) in before.buckets
    deployment.run(RestartStep())
    assert deployment.view.get_stats("news") == before
    check_same_everywhere(deployment)
    deployment.close()
