"""A worker over the embedded log: sentences that bring their probabilities are judged without the model."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest

from service.contracts import Assessment, DatasetSettings, LabelledSentence
from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.judging.class_source import MAX_CLASS_LISTS, ExternalClasses, is_external_key
from service.judging.judge import Judge
from service.log.codec import ERROR_HEADER_PREFIX, build_sentence_message, get_header
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.support.external_probabilities import attach_probabilities
from tests.support.model_pools import make_pool
from tests.support.one_pass import OnePass
from tests.support.tiny_models import get_runner, make_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TOPICS = Topics()
WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "in", "Oslo")
DRUGS = ("O", "B-DRUG", "I-DRUG")


@pytest.fixture
def classifier(tmp_path: Path) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))


@pytest.fixture
def broken_classifier(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> Classifier:
    """Fails the test if the graph runs."""

    def fail(*_: object) -> NoReturn:
        raise AssertionError("onnxruntime ran")

    monkeypatch.setattr(get_runner(classifier).session, "run", fail)
    return classifier


def draw_sentences(labels: Sequence[str], n: int, *, dataset: str = "default") -> list[LabelledSentence]:
    rng = np.random.default_rng(0)
    sentences = []
    for number in range(n):
        size = int(rng.integers(1, 9))
        sentences.append(
            LabelledSentence(
                dataset=dataset,
                id=str(number),
                tokens=tuple(rng.choice(WORDS, size).tolist()),
                labels=tuple(labels[k] for k in rng.integers(0, len(labels), size)),
            )
        )
    return sentences


def infer(classifier: Classifier, sentences: Sequence[LabelledSentence]) -> list[WordProbs]:
    return [w for w in classifier.infer([s.tokens for s in sentences]) if isinstance(w, WordProbs)]


def send(log: SqliteLog, sentences: Sequence[LabelledSentence]) -> None:
    log.append([build_sentence_message(TOPICS.sentences, sentence) for sentence in sentences])


class EndingWorker(Worker):
    """Stops when everything is read."""

    at_end: threading.Event

    def step(self) -> int:
        n_records = super().step()
        if not n_records:
            self.at_end.set()
        return n_records


def run_worker(path: Path, classifier: Classifier) -> Worker:
    datasets = DatasetRegistry(make_pool(classifier), min_words=1, prior_words=0)
    processor = BatchProcessor(make_pool(classifier), datasets, TOPICS, publish_scores=True)
    worker = EndingWorker(
        SqliteWorkerSession(path, TOPICS), processor, datasets, TOPICS, batch_records=16, poll_timeout=0.0
    )
    worker.at_end = threading.Event()
    worker.run(worker.at_end)
    return worker


def read_scores(log: SqliteLog) -> list[Assessment]:
    return [Assessment.model_validate_json(record.value or b"") for record in log.read(TOPICS.scores, 0, 10_000)]


def read_dead_letters(log: SqliteLog) -> list[tuple[str | None, str | None]]:
    """The stage and the reason of each."""
    return [
        (
            get_header(record.headers, f"{ERROR_HEADER_PREFIX}.stage"),
            get_header(record.headers, f"{ERROR_HEADER_PREFIX}.exception.message"),
        )
        for record in log.read(TOPICS.dead_letters, 0, 1_000)
    ]


def test_sent_probabilities_are_judged_and_learned_without_the_model(
    tmp_path: Path, broken_classifier: Classifier
) -> None:
    rng = np.random.default_rng(1)
    sentences = draw_sentences(DRUGS, 60, dataset="clinic")
    words = [
        WordProbs(rng.dirichlet(np.ones(3), len(s.tokens)), np.ones(len(s.tokens), np.bool_), 0, {}) for s in sentences
    ]
    sent = [attach_probabilities(s, w, DRUGS) for s, w in zip(sentences, words, strict=True)]
    path = tmp_path / "log.sqlite"
    log = SqliteLog(path, TOPICS)
    send(log, sent)
    worker = run_worker(path, broken_classifier)

    classes = ExternalClasses.from_labels(DRUGS)
    judge = Judge(classes, DatasetSettings(name="clinic"), min_words=1, prior_words=0)
    one_pass = OnePass(judge)
    assessments = read_scores(log)
    assert len(assessments) == 60
    for sentence, probs, assessment in zip(sent, words, assessments, strict=True):
        expected = one_pass.add(sentence, probs)
        assert [f.index for f in assessment.flags] == [f.index for f in expected.flags]
        assert assessment.priority == pytest.approx(expected.priority, rel=1e-12)
        assert (assessment.model.name, assessment.model.fingerprint) == ("external", classes.fingerprint)
    assert any(assessment.flags for assessment in assessments)
    assert all(flag.suggested in DRUGS for assessment in assessments for flag in assessment.flags)
    assert worker.snapshot.get_stats(judge).get_total().n_words == sum(len(s.tokens) for s in sent)
    log.close()


def test_a_batch_may_mix_sentences_with_and_without_probabilities(tmp_path: Path, classifier: Classifier) -> None:
    """Each source has its own statistics: the model's sentences are judged as if the others were not there."""
    labels = classifier.folder.labels
    sentences = draw_sentences(labels, 40)
    with_probabilities = [
        attach_probabilities(s.model_copy(update={"id": f"sent-{s.id}"}), w, labels)
        for s, w in zip(sentences, infer(classifier, sentences), strict=True)
    ]
    mixed = [s for pair in zip(sentences, with_probabilities, strict=True) for s in pair]
    alone, together = tmp_path / "alone.sqlite", tmp_path / "together.sqlite"
    logs = SqliteLog(alone, TOPICS), SqliteLog(together, TOPICS)
    send(logs[0], sentences)
    send(logs[1], mixed)
    run_worker(alone, classifier)
    worker = run_worker(together, classifier)
    expected, assessments = (read_scores(log) for log in logs)
    varying = {"position", "scored_at", "request_id"}
    assert [a.model_dump(exclude=varying) for a in assessments[::2]] == [
        a.model_dump(exclude=varying) for a in expected
    ]
    # The model of this test has no held-out statistics, so both sources have the same thresholds at each step.
    for ours, theirs in zip(assessments[::2], assessments[1::2], strict=True):
        assert [(f.index, f.suggested) for f in theirs.flags] == [(f.index, f.suggested) for f in ours.flags]
        for name, threshold in ours.thresholds.items():
            assert theirs.thresholds[name] == (threshold and pytest.approx(threshold, rel=1e-9))
    assert sorted(is_external_key(key.stats_key) for key in worker.snapshot.keys) == [False, True]
    for log in logs:
        log.close()


def test_a_replay_gives_the_same_answer(tmp_path: Path, classifier: Classifier) -> None:
    labels = classifier.folder.labels
    sentences = draw_sentences(labels, 40)
    sent = [
        attach_probabilities(s, w, labels) if number % 3 else s
        for number, (s, w) in enumerate(zip(sentences, infer(classifier, sentences), strict=True))
    ]
    results = []
    for name in ("first", "second"):
        log = SqliteLog(tmp_path / name, TOPICS)
        if name == "second":  # stops in between and starts again
            send(log, sent[:17])
            run_worker(tmp_path / name, classifier)
            send(log, sent[17:])
        else:
            send(log, sent)
        run_worker(tmp_path / name, classifier)
        results.append([a.model_dump(exclude={"scored_at", "request_id"}) for a in read_scores(log)])
        log.close()
    assert results[0] == results[1]


def test_wrong_probabilities_are_dead_letters_of_the_stage_validate(tmp_path: Path, classifier: Classifier) -> None:
    path = tmp_path / "log.sqlite"
    log = SqliteLog(path, TOPICS)
    values = (
        b'{"tokens":["a"],"labels":["O"],"probabilities":{"classes":["O","X"],"words":[[0.5,0.6]]}}',
        b'{"tokens":["a"],"labels":["O"],"probabilities":{"classes":["O","B-X","Y"],"words":[[1,0,0]]}}',
        b'{"tokens":["a"],"labels":["Z"],"probabilities":{"classes":["O","X"],"words":[[1,0]]}}',
    )
    log.append([Output(TOPICS.sentences, None, value) for value in values])
    run_worker(path, classifier)
    sums, schemes, labels = read_dead_letters(log)
    assert sums == (
        "validate",
        "word 0 ('a'), `probabilities.words`: the probabilities sum to 1.1: make them sum to 1 (within 0.001)",
    )
    assert schemes[0] == "validate"
    assert "`probabilities.classes`: 'B-X' has a prefix and 'Y' has none" in str(schemes[1])
    assert labels[0] == "labels"
    assert "'Z'" in str(labels[1])
    log.close()


def test_a_dataset_has_a_limited_number_of_class_lists(tmp_path: Path, broken_classifier: Classifier) -> None:
    path = tmp_path / "log.sqlite"
    log = SqliteLog(path, TOPICS)
    words = WordProbs(np.array([[0.5, 0.5]]), np.ones(1, np.bool_), 0, {})
    sentence = LabelledSentence(tokens=("a",), labels=("O",))
    lists = [attach_probabilities(sentence, words, ("O", f"T{number}")) for number in range(MAX_CLASS_LISTS + 1)]
    send(log, [*lists, lists[0]])
    run_worker(path, broken_classifier)
    ((stage, reason),) = read_dead_letters(log)
    assert stage == "validate"
    assert f"has {MAX_CLASS_LISTS} other class lists: send the same classes in the same order" in str(reason)
    assert len(read_scores(log)) == MAX_CLASS_LISTS + 1
    log.close()
