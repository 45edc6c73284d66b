"""What the API sees of the stream must be what a worker judges with, to the bit."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.errors import InvalidInput, StreamError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.codec import parse_state_key, to_state_key
from service.log.protocol import Output
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.statistics.running import RunningStats
from service.stream.state.snapshot import StatsKey
from service.stream.state.view import MAX_CONTEXTS, StateView
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.support.command_harness import make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from service.log.protocol import Follower, Record

TOPICS = Topics()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece")))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteWorkerSession]:
    stream = SqliteWorkerSession(tmp_path / "log.sqlite", TOPICS)
    yield stream
    stream.close()


def datasets(classifier: Classifier, **limits: int) -> DatasetRegistry:
    return DatasetRegistry(classifier.folder, **{"max_datasets": 4, "min_words": 1, "prior_words": 0, **limits})


def worker(log: SqliteWorkerSession, classifier: Classifier) -> Worker:
    known = datasets(classifier)
    made = Worker(log, BatchProcessor(classifier, known, TOPICS), known, TOPICS, batch_records=16, poll_timeout=0.0)
    made.apply_rebalance()
    return made


def send(log: SqliteWorkerSession, n: int, *, seed: int = 0, **fields: object) -> None:
    messages = [json.dumps({**one, **fields}).encode() for one in make_sentences(n, seed=seed)]
    log.append([Output(TOPICS.sentences, None, value) for value in messages])


def settle(log: SqliteWorkerSession, **fields: object) -> None:
    made = DatasetSettings.model_validate(fields)
    log.append([Output(TOPICS.datasets, made.name.encode(), made.model_dump_json().encode())])


def work(one: Worker, log: SqliteWorkerSession) -> None:
    with_settings = log.follow(TOPICS.datasets)
    while records := with_settings.poll():
        one.datasets.apply_records(records)
    while one.step():
        pass


def caught_up(mirror: StateView) -> StateView:
    while mirror.step():
        pass
    assert mirror.caught_up
    return mirror


def same(mirror: StateView, one: Worker, dataset: str) -> bool:
    judge = one.datasets.get_judge(dataset)
    theirs, ours = judge.build_threshold_set(one.snapshot.get_stats(judge)), mirror.get_threshold_set(dataset)
    return (
        np.array_equal(theirs.by_index, ours.by_index)
        and np.array_equal(theirs.weights, ours.weights)
        and (theirs.by_class, theirs.warming_up, theirs.flag_cutoff)
        == (ours.by_class, ours.warming_up, ours.flag_cutoff)
    )


def test_thresholds_are_the_workers_to_the_bit(log: SqliteWorkerSession, classifier: Classifier) -> None:
    settle(log, name="news", version=1, flag_policy={"kind": "budget", "share": 0.1})
    one = worker(log, classifier)
    mirror = StateView(log, TOPICS, datasets(classifier))
    for seed in range(3):  # while it follows, not only once
        send(log, 30, seed=seed, dataset="news")
        send(log, 20, seed=seed, dataset="other")
        work(one, log)
        caught_up(mirror)
        assert same(mirror, one, "news")
        assert same(mirror, one, "other")
    assert mirror.list_names() == ("news", "other")
    assert mirror.get_settings("news").version == 1
    assert mirror.get_stats("news").histogram.total == 90


def test_partitions_are_added_up(log: SqliteWorkerSession, classifier: Classifier) -> None:
    one = worker(log, classifier)
    send(log, 40)
    work(one, log)
    (record,) = [found for found in log.read(TOPICS.state, 0, 100) if parse_state_key(found.key or b"") is not None]
    place = parse_state_key(record.key or b"")
    assert place is not None
    _, dataset, stats_key = place
    log.append([Output(TOPICS.state, to_state_key(7, dataset, stats_key), record.value)])
    mirror = caught_up(StateView(log, TOPICS, datasets(classifier)))
    account = StatsKey(dataset, stats_key)
    own = RunningStats.restore(json.loads(record.value or b""))
    assert mirror.snapshot.get_total(account, None) == own.merge(own)
    # A newer aggregate of a partition replaces the one before: they are totals, never deltas.
    log.append([Output(TOPICS.state, to_state_key(7, dataset, stats_key), record.value)])
    assert caught_up(mirror).snapshot.get_total(account, None) == own.merge(own)
    log.append([Output(TOPICS.state, to_state_key(7, dataset, stats_key), None)])
    assert caught_up(mirror).snapshot.get_total(account, None) == own


def test_forgetting_is_as_the_settings_say_now(log: SqliteWorkerSession, classifier: Classifier) -> None:
    settle(log, name="default", version=1, forget_after_days=3)
    one = worker(log, classifier)
    for day in range(1, 9):
        send(log, 5, seed=day, annotated_at=f"2024-05-{day:02}T12:00:00Z")
    work(one, log)
    mirror = caught_up(StateView(log, TOPICS, datasets(classifier)))
    assert same(mirror, one, "default")
    assert mirror.get_stats("default").keep_days == 3
    settle(log, name="default", version=2, forget_after_days=2)
    caught_up(mirror)
    assert mirror.get_stats("default").keep_days == 2


def test_an_epoch_starts_with_new_statistics(log: SqliteWorkerSession, classifier: Classifier) -> None:
    one = worker(log, classifier)
    mirror = StateView(log, TOPICS, datasets(classifier))
    send(log, 50)
    work(one, log)
    learned = caught_up(mirror).get_threshold_set("default")
    assert any(value is not None for value in learned.by_class.values())
    settle(log, name="default", version=1, epoch=1)
    caught_up(mirror)
    assert not any(value is not None for value in mirror.get_threshold_set("default").by_class.values())
    assert mirror.get_stats("default").histogram.total == 0


def test_what_is_derived_stays_until_settings_or_statistics_of_its_dataset_change(
    log: SqliteWorkerSession, classifier: Classifier
) -> None:
    one, view = worker(log, classifier), StateView(log, TOPICS, datasets(classifier))
    send(log, 20, dataset="news")
    send(log, 20, dataset="other")
    work(one, log)
    news, other = (caught_up(view).get_context(name) for name in ("news", "other"))
    assert news.with_scores(method="product") is news.with_scores(method="product") is not news
    assert news.with_scores(method=news.judge.settings.method) is news
    with pytest.raises(InvalidInput, match="no-such-method"):
        news.with_scores(method="no-such-method")
    send(log, 20, seed=1, dataset="news")
    work(one, log)
    after = caught_up(view).get_context("news")
    assert after.judge is news.judge
    assert after.threshold_set.by_class != news.threshold_set.by_class
    assert json.loads(after.thresholds_json) == after.threshold_set.by_class
    assert view.get_context("other") is other
    settle(log, name="news", version=1, method="product")
    assert caught_up(view).get_context("news").judge.settings.method == "product"
    assert view.get_context("other") is other


def test_what_is_only_asked_for_is_not_remembered(log: SqliteWorkerSession, classifier: Classifier) -> None:
    mirror = caught_up(StateView(log, TOPICS, datasets(classifier, max_datasets=2)))
    for number in range(MAX_CONTEXTS + 10):
        mirror.get_judge(f"made-up-{number}")
    assert mirror.list_names() == ()
    assert len(mirror._contexts) == MAX_CONTEXTS
    assert mirror.get_judge("x") is mirror.get_judge("x")
    settle(log, name="x", version=4, method="product")
    caught_up(mirror)
    assert mirror.get_settings("x").method == "product"
    assert mirror.list_names() == ("x",)


def test_settings_that_do_not_fit_leave_the_ones_before(log: SqliteWorkerSession, classifier: Classifier) -> None:
    settle(log, name="x", version=1, method="product")
    mirror = caught_up(StateView(log, TOPICS, datasets(classifier)))
    settle(log, name="x", version=2, method="no-such-method")
    caught_up(mirror)
    assert mirror.get_settings("x").version == 1
    assert "no-such-method" in mirror.refused_settings["x"]
    with pytest.raises(InvalidInput, match="no-such-method"):
        mirror.build_judge(DatasetSettings(name="x", method="no-such-method"))


def of_two_classes(value: bytes) -> bytes:
    return json.dumps(RunningStats.empty(2, keep_days=json.loads(value)["keep_days"]).snapshot()).encode()


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        (lambda value: json.dumps({**json.loads(value), "version": 99}).encode(), "version"),
        (lambda _: b"[" * 100_000, "recursion"),
        (of_two_classes, "2 classes"),
    ],
    ids=["newer", "nested", "classes"],
)
def test_statistics_that_cannot_be_read_leave_the_ones_before(
    log: SqliteWorkerSession, classifier: Classifier, spoilt: Callable[[bytes], bytes], told: str
) -> None:
    one = worker(log, classifier)
    mirror = StateView(log, TOPICS, datasets(classifier))
    send(log, 40)
    work(one, log)
    before = caught_up(mirror).get_threshold_set("default")
    (record,) = [found for found in log.read(TOPICS.state, 0, 100) if parse_state_key(found.key or b"") is not None]
    log.append([Output(TOPICS.state, record.key, spoilt(record.value or b""))])
    assert told in (caught_up(mirror).state_error or "")
    assert mirror.get_threshold_set("default") is before
    log.append([Output(TOPICS.state, record.key, record.value)])
    assert caught_up(mirror).state_error is None


@pytest.mark.parametrize("key", [b"No Name", b"", b"\xff\xfe", b"x" * 65, None])
@pytest.mark.parametrize("value", [None, b'{"name": 7}', b"no JSON"])
def test_settings_under_a_key_that_is_no_name_end_nothing(
    log: SqliteWorkerSession, classifier: Classifier, key: bytes | None, value: bytes | None
) -> None:
    settle(log, name="news", version=1, method="product")
    log.append([Output(TOPICS.datasets, key, value)])
    settle(log, name="late", version=1, method="product")
    mirror = caught_up(StateView(log, TOPICS, datasets(classifier)))
    assert mirror.list_names() == ("late", "news")
    assert mirror.get_settings("late").method == "product"


def test_statistics_of_what_is_no_name_end_nothing(log: SqliteWorkerSession, classifier: Classifier) -> None:
    one = worker(log, classifier)
    send(log, 40)
    work(one, log)
    (record,) = [found for found in log.read(TOPICS.state, 0, 100) if parse_state_key(found.key or b"") is not None]
    bad = to_state_key(0, "No Name", "abc")
    log.append([Output(TOPICS.state, bad, record.value)])
    mirror = caught_up(StateView(log, TOPICS, datasets(classifier)))
    assert "No Name" in (mirror.state_error or "")
    assert mirror.list_names() == ("default",)
    assert same(mirror, one, "default")
    log.append([Output(TOPICS.state, bad, None)])
    assert caught_up(mirror).state_error is None
    assert mirror.list_names() == ("default",)


class Moody(SqliteWorkerSession):
    """A log that does not answer while it is told so."""

    gone = False

    def follow(self, topic: str) -> Follower:  # type: ignore[override]  # wrapped on purpose
        if self.gone:
            raise StreamError("nobody there")
        return MoodyFollower(self, super().follow(topic))


class MoodyFollower:
    def __init__(self, stream: Moody, inner: Follower) -> None:
        self._stream, self._inner = stream, inner

    def poll(self) -> Sequence[Record]:
        return self._inner.poll()  # as a Kafka consumer does: it waits without a word

    def ping(self) -> None:
        if self._stream.gone:
            raise StreamError("nobody there")

    @property
    def caught_up(self) -> bool:
        return self._inner.caught_up

    def close(self) -> None:
        self._inner.close()


def test_a_log_that_is_away_is_told_and_the_last_thresholds_stay(
    tmp_path: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.stream.state.view.RETRY_INTERVAL_S", 0.01)
    monkeypatch.setattr("service.stream.state.view.CHECK_INTERVAL_S", 0.0)
    log = Moody(tmp_path / "log.sqlite", TOPICS)
    log.gone = True  # already when it begins
    one = worker(log, classifier)
    mirror, stop = StateView(log, TOPICS, datasets(classifier)), threading.Event()
    thread = threading.Thread(target=mirror.run, args=(stop,))
    thread.start()
    try:
        wait_for(lambda: mirror.broker_error == "nobody there")
        assert mirror.caught_up is False
        log.gone = False
        wait_for(lambda: answering(mirror))
        send(log, 40)
        work(one, log)
        wait_for(lambda: mirror.get_stats("default").histogram.total == 40)
        log.gone = True
        wait_for(lambda: mirror.broker_error is not None)
        assert same(mirror, one, "default")
        log.gone = False
        wait_for(lambda: answering(mirror))
    finally:
        stop.set()
        thread.join()
        log.close()


def answering(mirror: StateView) -> bool:
    return mirror.caught_up and mirror.broker_error is None


def wait_for(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(3_000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not come true")
