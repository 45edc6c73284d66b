"""The API must judge with the thresholds of a worker, to the bit."""

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
from service.log.codec import parse_state_key, to_arrivals_key, to_state_key
from service.log.protocol import Output
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.statistics.arrivals import ArrivalCounts
from service.statistics.running import RunningStats
from service.stream.state.snapshot import StatsKey
from service.stream.state.view import MAX_CONTEXTS, StateView
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.support.command_harness import make_sentences
from tests.support.model_pools import make_pool
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


def build_registry(classifier: Classifier, **limits: int) -> DatasetRegistry:
    return DatasetRegistry(make_pool(classifier), **{"max_datasets": 4, "min_words": 1, "prior_words": 0, **limits})


def start_worker(log: SqliteWorkerSession, classifier: Classifier) -> Worker:
    registry = build_registry(classifier)
    processor = BatchProcessor(make_pool(classifier), registry, TOPICS)
    worker = Worker(log, processor, registry, TOPICS, batch_records=16, poll_timeout=0.0)
    worker.apply_rebalance()
    return worker


def send(log: SqliteWorkerSession, n: int, *, seed: int = 0, **fields: object) -> None:
    messages = [json.dumps({**sentence, **fields}).encode() for sentence in make_sentences(n, seed=seed)]
    log.append([Output(TOPICS.sentences, None, value) for value in messages])


def write_settings(log: SqliteWorkerSession, **fields: object) -> None:
    settings = DatasetSettings.model_validate(fields)
    log.append([Output(TOPICS.datasets, settings.name.encode(), settings.model_dump_json().encode())])


def run_worker(worker: Worker, log: SqliteWorkerSession) -> None:
    follower = log.follow(TOPICS.datasets)
    while records := follower.poll():
        worker.datasets.apply_records(records)
    while worker.step():
        pass


def catch_up(view: StateView) -> StateView:
    while view.step():
        pass
    assert view.caught_up
    return view


def has_same_thresholds(view: StateView, worker: Worker, dataset: str) -> bool:
    judge = worker.datasets.get_judge(dataset)
    theirs, ours = judge.build_threshold_set(worker.snapshot.get_stats(judge)), view.get_threshold_set(dataset)
    return (
        np.array_equal(theirs.by_index, ours.by_index)
        and np.array_equal(theirs.weights, ours.weights)
        and (theirs.by_class, theirs.warming_up, theirs.flag_cutoff)
        == (ours.by_class, ours.warming_up, ours.flag_cutoff)
    )


def test_thresholds_are_the_workers_to_the_bit(log: SqliteWorkerSession, classifier: Classifier) -> None:
    write_settings(log, name="news", version=1, flag_policy={"kind": "budget", "share": 0.1})
    worker = start_worker(log, classifier)
    view = StateView(log, TOPICS, build_registry(classifier))
    for seed in range(3):  # while it follows, not only once
        send(log, 30, seed=seed, dataset="news")
        send(log, 20, seed=seed, dataset="other")
        run_worker(worker, log)
        catch_up(view)
        assert has_same_thresholds(view, worker, "news")
        assert has_same_thresholds(view, worker, "other")
    assert view.list_names() == ("news", "other")
    assert view.get_settings("news").version == 1
    assert view.get_stats("news").histogram.total == 90


def test_partitions_are_added_up(log: SqliteWorkerSession, classifier: Classifier) -> None:
    worker = start_worker(log, classifier)
    send(log, 40)
    run_worker(worker, log)
    (record,) = [record for record in log.read(TOPICS.state, 0, 100) if parse_state_key(record.key or b"") is not None]
    parsed = parse_state_key(record.key or b"")
    assert parsed is not None
    _, dataset, stats_key = parsed
    log.append([Output(TOPICS.state, to_state_key(7, dataset, stats_key), record.value)])
    view = catch_up(StateView(log, TOPICS, build_registry(classifier)))
    key = StatsKey(dataset, stats_key)
    own = RunningStats.restore(json.loads(record.value or b""))
    assert view.snapshot.get_total(key, None) == own.merge(own)
    # A newer aggregate of a partition replaces the earlier one: they are totals, never deltas.
    log.append([Output(TOPICS.state, to_state_key(7, dataset, stats_key), record.value)])
    assert catch_up(view).snapshot.get_total(key, None) == own.merge(own)
    log.append([Output(TOPICS.state, to_state_key(7, dataset, stats_key), None)])
    assert catch_up(view).snapshot.get_total(key, None) == own


def test_forgetting_is_as_the_settings_say_now(log: SqliteWorkerSession, classifier: Classifier) -> None:
    write_settings(log, name="default", version=1, forget_after_days=3)
    worker = start_worker(log, classifier)
    for day in range(1, 9):
        send(log, 5, seed=day, annotated_at=f"2024-05-{day:02}T12:00:00Z")
    run_worker(worker, log)
    view = catch_up(StateView(log, TOPICS, build_registry(classifier)))
    assert has_same_thresholds(view, worker, "default")
    assert view.get_stats("default").keep_days == 3
    write_settings(log, name="default", version=2, forget_after_days=2)
    catch_up(view)
    assert view.get_stats("default").keep_days == 2


def test_an_epoch_starts_with_new_statistics(log: SqliteWorkerSession, classifier: Classifier) -> None:
    worker = start_worker(log, classifier)
    view = StateView(log, TOPICS, build_registry(classifier))
    send(log, 50)
    run_worker(worker, log)
    learned = catch_up(view).get_threshold_set("default")
    assert any(value is not None for value in learned.by_class.values())
    write_settings(log, name="default", version=1, epoch=1)
    catch_up(view)
    assert not any(value is not None for value in view.get_threshold_set("default").by_class.values())
    assert view.get_stats("default").histogram.total == 0


def test_what_is_derived_stays_until_settings_or_statistics_of_its_dataset_change(
    log: SqliteWorkerSession, classifier: Classifier
) -> None:
    worker, view = start_worker(log, classifier), StateView(log, TOPICS, build_registry(classifier))
    send(log, 20, dataset="news")
    send(log, 20, dataset="other")
    run_worker(worker, log)
    news, other = (catch_up(view).get_context(name) for name in ("news", "other"))
    assert news.with_scores(method="product") is news.with_scores(method="product") is not news
    assert news.with_scores(method=news.judge.settings.method) is news
    with pytest.raises(InvalidInput, match="no-such-method"):
        news.with_scores(method="no-such-method")
    send(log, 20, seed=1, dataset="news")
    run_worker(worker, log)
    after = catch_up(view).get_context("news")
    assert after.judge is news.judge
    assert after.threshold_set.by_class != news.threshold_set.by_class
    assert json.loads(after.thresholds_json) == after.threshold_set.by_class
    assert view.get_context("other") is other
    write_settings(log, name="news", version=1, method="product")
    assert catch_up(view).get_context("news").judge.settings.method == "product"
    assert view.get_context("other") is other


def test_a_dataset_that_is_only_asked_for_is_not_registered(log: SqliteWorkerSession, classifier: Classifier) -> None:
    view = catch_up(StateView(log, TOPICS, build_registry(classifier, max_datasets=2)))
    for number in range(MAX_CONTEXTS + 10):
        view.get_judge(f"made-up-{number}")
    assert view.list_names() == ()
    assert len(view._contexts) == MAX_CONTEXTS
    assert view.get_judge("x") is view.get_judge("x")
    write_settings(log, name="x", version=4, method="product")
    catch_up(view)
    assert view.get_settings("x").method == "product"
    assert view.list_names() == ("x",)


def test_settings_that_do_not_fit_the_model_leave_the_earlier_ones_in_force(
    log: SqliteWorkerSession, classifier: Classifier
) -> None:
    write_settings(log, name="x", version=1, method="product")
    view = catch_up(StateView(log, TOPICS, build_registry(classifier)))
    write_settings(log, name="x", version=2, method="no-such-method")
    catch_up(view)
    assert view.get_settings("x").version == 1
    assert "no-such-method" in view.refused_settings["x"]
    with pytest.raises(InvalidInput, match="no-such-method"):
        view.build_judge(DatasetSettings(name="x", method="no-such-method"))


def replace_by_two_classes(value: bytes) -> bytes:
    return json.dumps(RunningStats.empty(2, keep_days=json.loads(value)["keep_days"]).snapshot()).encode()


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda value: json.dumps({**json.loads(value), "version": 99}).encode(), "version"),
        (lambda _: b"[" * 100_000, "recursion"),
        (replace_by_two_classes, "2 classes"),
    ],
    ids=["newer", "nested", "classes"],
)
def test_an_unreadable_state_record_leaves_the_earlier_statistics_in_force(
    log: SqliteWorkerSession, classifier: Classifier, spoil: Callable[[bytes], bytes], problem: str
) -> None:
    worker = start_worker(log, classifier)
    view = StateView(log, TOPICS, build_registry(classifier))
    send(log, 40)
    run_worker(worker, log)
    before = catch_up(view).get_threshold_set("default")
    (record,) = [record for record in log.read(TOPICS.state, 0, 100) if parse_state_key(record.key or b"") is not None]
    log.append([Output(TOPICS.state, record.key, spoil(record.value or b""))])
    assert problem in (catch_up(view).state_error or "")
    assert view.get_threshold_set("default") is before
    log.append([Output(TOPICS.state, record.key, record.value)])
    assert catch_up(view).state_error is None


@pytest.mark.parametrize("key", [b"No Name", b"", b"\xff\xfe", b"x" * 65, None])
@pytest.mark.parametrize("value", [None, b'{"name": 7}', b"no JSON"])
def test_settings_with_an_invalid_key_do_not_stop_the_view(
    log: SqliteWorkerSession, classifier: Classifier, key: bytes | None, value: bytes | None
) -> None:
    write_settings(log, name="news", version=1, method="product")
    log.append([Output(TOPICS.datasets, key, value)])
    write_settings(log, name="late", version=1, method="product")
    view = catch_up(StateView(log, TOPICS, build_registry(classifier)))
    assert view.list_names() == ("late", "news")
    assert view.get_settings("late").method == "product"


def test_statistics_with_an_invalid_dataset_name_do_not_stop_the_view(
    log: SqliteWorkerSession, classifier: Classifier
) -> None:
    worker = start_worker(log, classifier)
    send(log, 40)
    run_worker(worker, log)
    (record,) = [record for record in log.read(TOPICS.state, 0, 100) if parse_state_key(record.key or b"") is not None]
    bad = to_state_key(0, "No Name", "abc")
    log.append([Output(TOPICS.state, bad, record.value)])
    view = catch_up(StateView(log, TOPICS, build_registry(classifier)))
    assert "No Name" in (view.state_error or "")
    assert view.list_names() == ("default",)
    assert has_same_thresholds(view, worker, "default")
    log.append([Output(TOPICS.state, bad, None)])
    assert catch_up(view).state_error is None
    assert view.list_names() == ("default",)


class UnreliableLog(SqliteWorkerSession):
    """A log that does not answer while `is_down`."""

    is_down = False

    def follow(self, topic: str) -> Follower:  # type: ignore[override]  # wrapped on purpose
        if self.is_down:
            raise StreamError("no broker answers")
        return UnreliableFollower(self, super().follow(topic))


class UnreliableFollower:
    def __init__(self, log: UnreliableLog, inner: Follower) -> None:
        self._log, self._inner = log, inner

    def poll(self) -> Sequence[Record]:
        return self._inner.poll()  # like a Kafka consumer, which waits without an error

    def ping(self) -> None:
        if self._log.is_down:
            raise StreamError("no broker answers")

    @property
    def caught_up(self) -> bool:
        return self._inner.caught_up

    def renew_end(self) -> None:
        self._inner.renew_end()

    def close(self) -> None:
        self._inner.close()


def test_while_the_log_does_not_answer_the_last_thresholds_stay_in_force(
    tmp_path: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.stream.state.view.RETRY_INTERVAL_S", 0.01)
    monkeypatch.setattr("service.stream.state.view.CHECK_INTERVAL_S", 0.0)
    log = UnreliableLog(tmp_path / "log.sqlite", TOPICS)
    log.is_down = True  # from the start
    worker = start_worker(log, classifier)
    view, stop = StateView(log, TOPICS, build_registry(classifier)), threading.Event()
    thread = threading.Thread(target=view.run, args=(stop,))
    thread.start()
    try:
        wait_for(lambda: view.broker_error == "no broker answers")
        assert view.caught_up is False
        log.is_down = False
        wait_for(lambda: is_answering(view))
        send(log, 40)
        run_worker(worker, log)
        wait_for(lambda: view.get_stats("default").histogram.total == 40)
        log.is_down = True
        wait_for(lambda: view.broker_error is not None)
        assert has_same_thresholds(view, worker, "default")
        log.is_down = False
        wait_for(lambda: is_answering(view))
    finally:
        stop.set()
        thread.join()
        log.close()


def is_answering(view: StateView) -> bool:
    return view.caught_up and view.broker_error is None


def wait_for(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(3_000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("the condition was not met within 30 seconds")


def test_the_view_lists_datasets_that_wait(log: SqliteWorkerSession, classifier: Classifier) -> None:
    view = StateView(log, TOPICS, build_registry(classifier))
    for partition, dataset, waiting in ((0, "med", 2), (1, "med", 1), (0, "fine", 0)):
        value = json.dumps(ArrivalCounts({"B-DRUG": 3}, waiting=waiting).snapshot()).encode()
        log.append([Output(TOPICS.state, to_arrivals_key(partition, dataset), value)])
    view.step()
    (waiting_dataset,) = view.list_waiting()
    assert (waiting_dataset.name, waiting_dataset.sentences) == ("med", 3)
    assert waiting_dataset.unknown_labels == {"B-DRUG": 6}
    assert view.find_waiting("med") == waiting_dataset
    assert view.find_waiting("fine") is None
    assert view.find_waiting("unheard-of") is None
    assert view.list_names() == ("fine", "med")
