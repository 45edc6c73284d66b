"""The reports of a worker: one per committed batch, and nothing of batches that were not committed."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.datasets.waiting import MIN_KNOWN_RATIO
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.protocol import BatchResult, CommitRefused, Output
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.retention import Retention
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.stream.worker import loop
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from service.stream.worker.reporting import MAX_LOGGED_KINDS, log_dead_letters
from tests.support.command_harness import make_sentences
from tests.support.model_pools import make_pool
from tests.support.tiny_models import LABELS, make_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from service.telemetry import BatchReport, ThresholdReport

TOPICS = Topics()


@dataclass
class RecordingReporter:
    reports: list[BatchReport] = field(default_factory=list)
    known: dict[str, tuple[Sequence[str], set[str]]] = field(default_factory=dict)
    thresholds: dict[str, ThresholdReport] = field(default_factory=dict)
    refusals: int = 0
    lost_records: int = 0
    bad_settings: int = 0

    def register_dataset(self, dataset: str, classes: Sequence[str], *, given_types: Iterable[str] = ()) -> None:
        self.known[dataset] = classes, set(given_types)

    def set_thresholds(self, dataset: str, report: ThresholdReport) -> None:
        self.thresholds[dataset] = report

    def set_refused_settings(self, datasets: int) -> None:
        self.bad_settings = datasets

    def observe_batch(self, report: BatchReport) -> None:
        self.reports.append(report)

    def count_refused_commit(self) -> None:
        self.refusals += 1

    def count_lost_records(self, records: int) -> None:
        self.lost_records += records


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece")))


def send(path: Path, values: Iterable[object], topic: str = TOPICS.sentences) -> None:
    stream = SqliteLog(path, TOPICS)
    stream.append([Output(topic, b"news", json.dumps(value).encode()) for value in values])
    stream.close()


def run(stream: SqliteWorkerSession, classifier: Classifier, **limits: int) -> RecordingReporter:
    """A worker that runs until it has read everything."""
    reporter, stop = RecordingReporter(), threading.Event()
    datasets = DatasetRegistry(make_pool(classifier), min_words=1, prior_words=0, **limits)
    processor = BatchProcessor(make_pool(classifier), datasets, TOPICS)
    worker = Worker(stream, processor, datasets, TOPICS, batch_records=16, poll_timeout=0.0, reporter=reporter)
    real = worker.step

    def step() -> int:
        refused, done = reporter.refusals, real()
        if not done and reporter.refusals == refused:
            stop.set()
        return done

    worker.step = step  # type: ignore[method-assign]
    worker.run(stop)
    return reporter


def test_each_kind_of_dead_letter_is_told_once_a_batch_with_its_first_reason(
    tmp_path: Path, classifier: Classifier, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log.sqlite"
    ghosts = [{"tokens": ["a"], "labels": [f"B-GHOST{n}\x1b"], "dataset": "news"} for n in range(3)]
    labels_of_model = [label for label in LABELS if label != "O"]
    known = [{"tokens": ["a"] * len(labels_of_model), "labels": labels_of_model, "dataset": "news"}] * 2
    assert len(known) * len(labels_of_model) >= MIN_KNOWN_RATIO * len(ghosts), "the dataset fits"
    send(path, [*make_sentences(2), *known, *ghosts, 7, {"tokens": ["a"], "labels": [], "dataset": "\x1b[2J"}])
    run(SqliteWorkerSession(path, TOPICS), classifier)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    kinds = sorted(line.removeprefix("dead letters: ").partition(";")[0] for line in lines)
    assert kinds == ["2 of stage validate, dataset (unknown)", "3 of stage labels, dataset news"]
    (labels,) = [line for line in lines if "labels, dataset news" in line]
    assert "GHOST0" in labels
    assert labels.isprintable()


def test_a_flood_of_kinds_is_told_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    reason = (("__connect.errors.stage", b"labels"), ("__connect.errors.exception.message", b"no class"))
    log_dead_letters(Output("dead", None, json.dumps({"dataset": f"d{n}"}).encode(), reason) for n in range(40))
    assert len(caplog.records) == MAX_LOGGED_KINDS + 1
    assert "35 more kinds" in caplog.text


def test_each_committed_batch_is_told_in_numbers(tmp_path: Path, classifier: Classifier) -> None:
    path = tmp_path / "log.sqlite"
    runs: list[tuple[int, int, int]] = []
    classifier.observe_runs(lambda *numbers: runs.append(numbers))
    bad: list[object] = [{"tokens": ["a"], "labels": ["B-GHOST"]}, {"tokens": ["a"]}, 7]
    gone = {"id": "0-1", "deleted": True}
    send(path, [*make_sentences(20, annotator="ann"), *make_sentences(9, seed=1, dataset="news"), *bad, gone])
    reporter = run(SqliteWorkerSession(path, TOPICS), classifier)
    classifier.observe_runs(None)

    assert [report.records for report in reporter.reports] == [16, 16, 1]
    judged = [sentence for report in reporter.reports for sentence in report.sentences]
    assert [sentence.dataset for sentence in judged] == ["default"] * 20 + ["news"] * 9, "what is deleted is not judged"
    assert {sentence.annotator for sentence in judged[:20]} == {"ann"}
    assert {(sentence.score is None, sentence.priority is None, sentence.words > 0) for sentence in judged} == {
        (False, False, True)
    }
    flagged = [sentence for sentence in judged if sentence.reason == "flagged"]
    flagged_assessments = [assessment for report in reporter.reports for assessment in report.flagged]
    assert len(flagged) == len(flagged_assessments) > 0
    dead = [report.dead_letters for report in reporter.reports]
    assert dead == [{}, {"labels": 1, "validate": 2}, {}]
    for report in reporter.reports:
        assert set(report.stage_seconds) == {"decode", "tokenize", "inference", "judge", "commit"}
        assert all(seconds >= 0 for seconds in report.stage_seconds.values())
        assert len(report.latencies) == report.records
        assert set(report.threshold_reports) == {sentence.dataset for sentence in report.sentences}
    news = reporter.reports[1].threshold_reports["news"]
    assert sum(news.words.values()) == sum(sentence.words for sentence in judged if sentence.dataset == "news")
    assert set(news.thresholds) == set(news.words) == set(classifier.folder.labels)
    assert sum(sequences for sequences, _, _ in runs) == len(judged) + 1, "labels are looked at after the words"
    assert all(0 < tokens <= padded for _, tokens, padded in runs)


def test_datasets_are_introduced_before_their_sentences_come(tmp_path: Path, classifier: Classifier) -> None:
    path = tmp_path / "log.sqlite"
    send(path, make_sentences(8, dataset="seen"))
    run(SqliteWorkerSession(path, TOPICS), classifier)
    kind = classifier.folder.labels[-1].partition("-")[2]
    send(
        path,
        [DatasetSettings(name="news", version=1, label_map={"B-PERSON": f"B-{kind}"}).model_dump()],
        TOPICS.datasets,
    )
    reporter = run(SqliteWorkerSession(path, TOPICS), classifier, max_datasets=1)
    assert set(reporter.known) == {"default", "news", "seen"}
    assert reporter.known["news"][1] == {"PERSON"}
    assert set(reporter.known["news"][0]) == {"O", "B-PERSON", "B-MISC", "B-ORG", "B-PER"}  # what may be suggested
    assert reporter.known["default"][0] == classifier.folder.labels
    assert sum(reporter.thresholds["seen"].words.values()) > 0
    assert sum(reporter.thresholds["default"].words.values()) == 0
    assert reporter.bad_settings == 0
    send(path, [{"name": "news", "version": 2, "method": "guess"}], TOPICS.datasets)
    assert run(SqliteWorkerSession(path, TOPICS), classifier).bad_settings == 1


def test_a_refused_batch_is_told_once_and_its_numbers_only_when_it_is_taken(
    tmp_path: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(SqliteWorkerSession):
        refusals = 1

        def commit(self, work: BatchResult) -> None:
            if self.refusals:
                self.refusals -= 1
                self._next_offset = None
                raise CommitRefused("a moment, please")
            super().commit(work)

    monkeypatch.setattr(loop, "RETRY_INTERVAL_S", 0.0)
    path = tmp_path / "log.sqlite"
    send(path, make_sentences(10))
    reporter = run(Refusing(path, TOPICS), classifier)
    assert reporter.refusals == 1
    assert sum(report.records for report in reporter.reports) == 10


def test_records_that_retention_took_are_told(tmp_path: Path, classifier: Classifier) -> None:
    path = tmp_path / "log.sqlite"
    send(path, make_sentences(5))
    run(SqliteWorkerSession(path, TOPICS), classifier)
    send(path, make_sentences(10, seed=1))
    stream = SqliteWorkerSession(path, TOPICS, retention=Retention(max_age_ms=-1000))
    stream.prune(consumed_offset=9)
    assert run(stream, classifier).lost_records == 4
