"""The worker with a real pipeline (a tiny model) over the embedded log."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import replace
from itertools import count, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from service.contracts import Assessment, DatasetSettings, LabelledSentence
from service.datasets.registry import DatasetRegistry
from service.errors import StateError
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.log.codec import UNREAD_BATCH_HEADER, to_state_key
from service.log.protocol import MAX_BATCH_BYTES, BatchResult, CommitRefused, Output, Record, RecordBatch
from service.log.sqlite.database import PARTITION
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.retention import Retention
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.scoring.confident import UNREACHABLE_THRESHOLD, flag_words
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.support.model_pools import make_pool
from tests.support.one_pass import OnePass
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

TOPICS = Topics()
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "in", "Oslo"]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece")))


def messages(labels: Iterable[str], n: int, *, seed: int = 0, **fields: object) -> list[bytes]:
    names, rng = list(labels), np.random.default_rng(seed)
    result = []
    for _ in range(n):
        size = int(rng.integers(1, 9))
        tokens = rng.choice(WORDS, size).tolist()
        given = [names[k] for k in rng.integers(0, len(names), size)]
        result.append(json.dumps({"tokens": tokens, "labels": given, **fields}).encode())
    return result


class Bench:
    """A log in a folder, and workers on it."""

    def __init__(self, folder: Path, classifier: Classifier) -> None:
        self.path = folder / "log.sqlite"
        self.classifier = classifier

    def send(self, values: Iterable[bytes | None], **more: object) -> None:
        stream = SqliteLog(self.path, TOPICS)
        stream.append([Output(TOPICS.sentences, None, value, **more) for value in values])  # type: ignore[arg-type]
        stream.close()

    def settings(self, **fields: object) -> None:
        result = DatasetSettings.model_validate(fields)
        stream = SqliteLog(self.path, TOPICS)
        stream.append([Output(TOPICS.datasets, result.name.encode(), result.model_dump_json().encode())])
        stream.close()

    def worker(self, stream: SqliteWorkerSession) -> Worker:
        datasets = DatasetRegistry(make_pool(self.classifier), max_datasets=4, min_words=1, prior_words=0)
        processor = BatchProcessor(make_pool(self.classifier), datasets, TOPICS, max_words=50)
        return Worker(stream, processor, datasets, TOPICS, batch_records=16, poll_timeout=0.0)

    def run(self) -> Worker:
        """A worker that runs until it has read everything, as SIGTERM would end it."""
        stream = SqliteWorkerSession(self.path, TOPICS)
        worker, stop = self.worker(stream), threading.Event()
        real = worker.step

        def step() -> int:
            done = real()
            if not done:
                stop.set()
            return done

        worker.step = step  # type: ignore[method-assign]
        worker.run(stop)
        return worker

    def records(self, topic: str) -> list[Record]:
        stream = SqliteLog(self.path, TOPICS)
        try:
            return stream.read(topic, 0, 100_000)
        finally:
            stream.close()

    def review(self) -> list[Assessment]:
        return [Assessment.model_validate_json(record.value or b"") for record in self.records(TOPICS.review)]


@pytest.fixture
def bench(tmp_path: Path, classifier: Classifier) -> Bench:
    return Bench(tmp_path, classifier)


def build_judge(classifier: Classifier) -> Judge:
    return Judge(classifier.folder, DatasetSettings(), min_words=1, prior_words=0)


def test_settings_that_precede_a_sentence_are_in_force_for_it(bench: Bench) -> None:
    """Both are written while the worker waits for records. A sentence without an entity does not wait for a model."""
    stream, stop = SqliteWorkerSession(bench.path, TOPICS), threading.Event()
    worker, poll, polls = bench.worker(stream), stream.poll, count()

    def write_while_polling(**limits: Any) -> RecordBatch:
        number = next(polls)
        if number == 1:
            bench.settings(name="own", version=1, control_share=1.0)
            bench.send([json.dumps({"tokens": WORDS, "labels": ["O"] * len(WORDS), "dataset": "own"}).encode()])
        elif number > 1 and worker.counts.records:
            stop.set()
        return poll(**limits)

    stream.poll = write_while_polling  # type: ignore[method-assign]
    worker.run(stop)
    (assessment,) = bench.review()
    assert assessment.settings_version == 1


def test_what_is_learned_over_many_batches_and_restarts_equals_one_pass(bench: Bench, classifier: Classifier) -> None:
    values = messages(classifier.folder.labels, 100)
    bench.send(values[:37])
    bench.run()
    bench.send(values[37:])
    worker = bench.run()
    judge = build_judge(classifier)
    one_pass = OnePass(judge)
    stats = judge.create_empty_stats()
    for value in values:
        sentence = LabelledSentence.model_validate_json(value)
        [words] = classifier.infer([sentence.tokens])
        assert isinstance(words, WordProbs)
        one_pass.add(sentence, words)
        given = [classifier.folder.labels.index(label) for label in sentence.labels]
        stats = stats.update(words.probs, np.array(given))
    learned = worker.snapshot.get_stats(judge)
    assert replace(learned.get_total(), smoothed=None) == stats.get_total(), "sums are those of the model alone"
    assert learned.get_total() == one_pass.stats.get_total()
    assert learned.histogram.total == 100
    (memory,) = worker.snapshot.get_memories(judge).values()
    assert memory.get_tables() == one_pass.memory


def test_flagged_sentences_come_out_once_and_can_be_judged_again(bench: Bench, classifier: Classifier) -> None:
    bench.send(messages(classifier.folder.labels, 60))
    bench.run()
    bench.run()
    found = bench.review()
    assert found
    assert len({assessment.id for assessment in found}) == len(found)
    classes = classifier.folder.labels
    for assessment in found:
        [words] = classifier.infer([assessment.tokens])
        assert isinstance(words, WordProbs)
        carried = np.array(
            [UNREACHABLE_THRESHOLD if assessment.thresholds[c] is None else assessment.thresholds[c] for c in classes],
            float,
        )
        flags = flag_words(words.probs, np.array([classes.index(label) for label in assessment.labels]), carried)
        assert [flag.index for flag in assessment.flags] == np.flatnonzero(flags).tolist()
        assert assessment.position is not None
        assert assessment.id == f"labelwatch.sentences-0-{assessment.position.offset}"


HOSTILE = {
    b"\xff\xfe\x00": "decode",
    b"": "decode",
    b"[" * 50_000: "decode",
    b"null": "validate",
    b'{"tokens": [], "labels": []}': "validate",
    b'{"tokens": ["a"], "labels": []}': "validate",
    b'{"tokens": {"a": 1}, "labels": ["O"]}': "validate",
    b'{"tokens": ["\\ud800"], "labels": ["O"]}': "decode",
    b'{"tokens": ["a"], "labels": ["B-GHOST"]}': "labels",
    json.dumps({"tokens": ["a"] * 51, "labels": ["O"] * 51}).encode(): "too_long",
    b'{"tokens": ["a"], "labels": ["O"], "dataset": "NO SUCH NAME"}': "validate",
}


def test_bad_messages_are_kept_byte_for_byte_with_the_reason(bench: Bench, classifier: Classifier) -> None:
    good = messages(classifier.folder.labels, 5)
    bench.send([*good, *HOSTILE, None, *good], headers=(("trace", b"\x00\xff"),))
    worker = bench.run()
    letters = bench.records(TOPICS.dead_letters)
    stages = {letter.value: dict(letter.headers)["__connect.errors.stage"].decode() for letter in letters}
    wanted: dict[bytes | None, str] = {None: "decode", **dict(HOSTILE.items())}
    assert stages == wanted
    for letter in letters:
        headers = dict(letter.headers)
        assert headers["trace"] == b"\x00\xff"
        assert headers["__connect.errors.topic"] == TOPICS.sentences.encode()
        assert headers["__connect.errors.exception.message"]
    judge = build_judge(classifier)
    assert worker.snapshot.get_stats(judge).histogram.total == 10


def test_a_batch_that_was_not_unpacked_is_a_dead_letter_with_the_reason(bench: Bench, classifier: Classifier) -> None:
    bench.send([b"it is too large"], headers=((UNREAD_BATCH_HEADER, b"it is too large"),))
    bench.send(messages(classifier.folder.labels, 1))
    assert bench.run().counts.records == 2
    (letter,) = bench.records(TOPICS.dead_letters)
    headers = dict(letter.headers)
    assert headers["__connect.errors.stage"] == b"decode"
    assert headers["__connect.errors.exception.message"] == b"it is too large"


def test_updates_deletions_and_control_samples_reach_the_review_topic(bench: Bench, classifier: Classifier) -> None:
    clean = {"tokens": ["the"], "labels": [top_class(classifier, "the")]}
    bench.settings(name="watched", control_share=1.0, version=1)
    bench.send(
        [
            json.dumps({**clean, "id": "quiet"}).encode(),
            json.dumps({**clean, "id": "again", "update": True, "revision": 2}).encode(),
            json.dumps({"id": "gone", "deleted": True}).encode(),
            json.dumps({**clean, "id": "drawn", "dataset": "watched"}).encode(),
        ]
    )
    bench.run()
    assert {assessment.id: assessment.reason for assessment in bench.review()} == {
        "again": "update",
        "gone": "deleted",
        "drawn": "control",
    }
    drawn = next(assessment for assessment in bench.review() if assessment.id == "drawn")
    assert drawn.settings_version == 1
    assert drawn.inclusion_probability == 1.0


def test_each_dataset_is_pooled_in_its_own_way(bench: Bench, classifier: Classifier) -> None:
    """In one batch, in their order: words of several subwords are where the ways differ."""
    tokens = ["foxdog", "jumpslazy", "Osloin"]
    for name in ("mean", "first"):
        bench.settings(name=name, pooling=name, control_share=1.0, version=1)
    sentence = {"tokens": tokens, "labels": ["O"] * len(tokens)}
    bench.send([json.dumps({**sentence, "id": str(n), "dataset": ("mean", "first")[n % 2]}).encode() for n in range(6)])
    bench.run()
    for assessment in bench.review():
        [expected] = classifier.infer([tokens], pooling="first" if assessment.dataset == "first" else "mean")
        assert isinstance(expected, WordProbs)
        outside = classifier.folder.labels.index("O")
        assert [word.p_given for word in assessment.words] == expected.probs[:, outside].tolist()
    first, mean = (
        [assessment.words for assessment in bench.review() if assessment.dataset == name] for name in ("first", "mean")
    )
    assert first[0] != mean[0]


def top_class(classifier: Classifier, word: str) -> str:
    [words] = classifier.infer([[word]])
    assert isinstance(words, WordProbs)
    return classifier.folder.labels[int(words.probs[0].argmax())]


def test_datasets_have_thresholds_of_their_own_and_a_limit(bench: Bench, classifier: Classifier) -> None:
    values = [
        value
        for name in ("one", "two", "three", "four", "five")
        for value in messages(classifier.folder.labels, 3, dataset=name)
    ]
    bench.send(values)
    worker = bench.run()
    assert worker.snapshot.datasets == {"one", "two", "three", "four"}
    letters = bench.records(TOPICS.dead_letters)
    assert len(letters) == 3
    assert b"max_datasets" in dict(letters[0].headers)["__connect.errors.exception.message"]
    # After a restart the ones that were let in still are, and no other takes their place.
    bench.send(messages(classifier.folder.labels, 1, dataset="six") + values[:12])
    worker = bench.run()
    assert worker.snapshot.datasets == {"one", "two", "three", "four"}
    assert len(bench.records(TOPICS.dead_letters)) == 4


class Refusing(SqliteWorkerSession):
    """Refuses every other commit, after doing the work of nothing."""

    attempts = 0

    def commit(self, result: BatchResult) -> None:
        self.attempts += 1
        if self.attempts % 2:
            self._next_offset = None
            raise CommitRefused("for the test")
        super().commit(result)


def test_a_refused_batch_leaves_no_trace_and_comes_again(
    bench: Bench, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.stream.worker.loop.RETRY_INTERVAL_S", 0.0)
    values = messages(classifier.folder.labels, 40)
    bench.send(values)
    stream = Refusing(bench.path, TOPICS)
    worker, stop = bench.worker(stream), threading.Event()
    real = worker.step

    def step() -> int:
        done = real()
        if stream.lag() == {PARTITION: 0} and done:
            stop.set()
        return done

    worker.step = step  # type: ignore[method-assign]
    worker.run(stop)
    judge = build_judge(classifier)
    assert worker.counts.refused_batches > 0
    assert worker.counts.records == 40
    assert worker.snapshot.get_stats(judge).histogram.total == 40
    assert len({assessment.id for assessment in bench.review()}) == len(bench.review())


def test_retention_drops_what_is_old_but_nothing_unread(bench: Bench, classifier: Classifier) -> None:
    bench.send(messages(classifier.folder.labels, 20))
    bench.run()
    bench.send(messages(classifier.folder.labels, 5))
    stream = SqliteWorkerSession(bench.path, TOPICS, retention=Retention(max_age_ms=-1000))
    stream.prune(consumed_offset=20)
    assert [record.offset for record in stream.read(TOPICS.sentences, 0, 100)] == [20, 21, 22, 23, 24]
    stream.close()
    assert bench.run().counts.lost_records == 0
    assert bench.records(TOPICS.sentences)[-1].offset == 24


def test_readiness_waits_for_settings_state_and_partitions(bench: Bench) -> None:
    stream = SqliteWorkerSession(bench.path, TOPICS)
    worker = bench.worker(stream)
    assert not worker.status.ready
    stream.close()
    finished = bench.run()
    assert finished.status.conditions["state"] == ""
    assert finished.status.conditions["worker"] == "the worker has stopped"
    assert not finished.status.ready


class ListFollower:
    """Returns one record per poll."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = list(records)

    def poll(self) -> list[Record]:
        return [self._records.pop(0)] if self._records else []

    @property
    def caught_up(self) -> bool:
        return not self._records

    def close(self) -> None:
        pass


class Troubled(SqliteWorkerSession):
    """Has troubles for some polls, and goes on all the same."""

    scripted_warnings: Iterator[tuple[str, ...]]
    current_warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.current_warnings

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        self.current_warnings = next(self.scripted_warnings, ())
        return super().poll(max_records=max_records, timeout=timeout, max_bytes=max_bytes)


def test_troubles_of_the_log_are_told_beside_readiness_not_instead_of_it(
    bench: Bench, classifier: Classifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="service.stream.worker.loop")
    bench.send(messages(classifier.folder.labels, 40))
    stream = Troubled(bench.path, TOPICS)
    stream.scripted_warnings = iter([(), ("no broker answers", "partition 1 waits"), ("no broker answers",)])
    worker, stop = bench.worker(stream), threading.Event()
    seen: list[tuple[str, bool]] = []
    real = worker.apply_rebalance

    def take_changes() -> None:
        real()
        seen.append((worker.status.degraded["stream"], worker.status.ready))
        if len(seen) == 6:
            stop.set()

    worker.apply_rebalance = take_changes  # type: ignore[method-assign]
    worker.run(stop)
    assert seen == [
        ("", True),
        ("", True),
        ("no broker answers; partition 1 waits", True),
        ("no broker answers", True),
        ("", True),
        ("", True),
    ]
    assert worker.counts.records == 40
    assert caplog.messages.count("the stream has no warnings any more") == 1


def test_forgetting_that_is_switched_on_later_holds_for_what_was_learned_before(
    bench: Bench, classifier: Classifier
) -> None:
    bench.send(messages(classifier.folder.labels, 10, annotated_at="2020-01-01T00:00:00Z"))
    bench.run()
    bench.settings(name="default", forget_after_days=3, version=1)
    bench.send(messages(classifier.folder.labels, 4, seed=1))
    worker = bench.run()
    learned = worker.snapshot.get_stats(worker.datasets.get_judge("default"))
    assert learned.keep_days == 3
    assert len(learned.buckets) == 1
    assert "" not in learned.buckets


def test_an_unreadable_state_record_of_another_partition_stops_the_worker_by_name(bench: Bench) -> None:
    stream = SqliteLog(bench.path, TOPICS)
    stream.append([Output(TOPICS.state, to_state_key(1, "news", "key/0"), b"no JSON")])
    stream.close()
    with pytest.raises(
        StateError, match=r"dataset news in labelwatch\.state .* not JSON.* delete it by writing its key"
    ):
        bench.run()


def test_a_worker_that_starts_applies_only_the_newest_record_of_each_key(
    bench: Bench, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = build_judge(classifier)
    stats, values = judge.create_empty_stats(), []
    for _ in range(5):
        stats = stats.update(np.full((4, 9), 1 / 9), np.zeros(4, np.intp), priority=0.5)
        values.append(json.dumps(stats.snapshot()).encode())
    keys = [to_state_key(partition, "default", judge.stats_key) for partition in (1, 2)]
    # As a topic on Kafka that is not compacted yet. The embedded log compacts at once.
    records = [Record(TOPICS.state, 0, offset, key, value) for offset, (value, key) in enumerate(product(values, keys))]
    applied: list[Record] = []
    apply = Worker.apply_state_records

    def note_and_apply(worker: Worker, given: Iterable[Record]) -> None:
        listed = list(given)
        applied.extend(listed)
        apply(worker, listed)

    monkeypatch.setattr(Worker, "apply_state_records", note_and_apply)
    stream = SqliteWorkerSession(bench.path, TOPICS)
    monkeypatch.setattr(stream, "follow", lambda topic: ListFollower(records if topic == TOPICS.state else []))
    worker, stop = bench.worker(stream), threading.Event()
    monkeypatch.setattr(worker, "step", stop.set)
    worker.run(stop)
    assert [record.offset for record in applied] == [8, 9]
    assert worker.snapshot.get_stats(judge).histogram.total == 10


def test_a_tombstone_takes_another_partition_out_of_the_statistics(bench: Bench, classifier: Classifier) -> None:
    judge = build_judge(classifier)
    stats = judge.create_empty_stats().update(np.full((4, 9), 1 / 9), np.zeros(4, np.intp), priority=0.5)
    key = to_state_key(1, "default", judge.stats_key)
    for value, expected in ((json.dumps(stats.snapshot()).encode(), 1), (None, 0)):
        stream = SqliteLog(bench.path, TOPICS)
        stream.append([Output(TOPICS.state, key, value)])
        stream.close()
        assert bench.run().snapshot.get_stats(judge).histogram.total == expected


def test_a_worker_is_not_at_the_end_while_partitions_are_being_assigned(bench: Bench) -> None:
    with closing(SqliteWorkerSession(bench.path, TOPICS)) as session:
        worker = bench.worker(session)
        worker.apply_rebalance()
        session.assignment_complete = False
        assert not worker.is_at_end
        session.assignment_complete = True
        assert worker.is_at_end
