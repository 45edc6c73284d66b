"""A worker over the embedded log: sentences of a dataset that no model fits wait, and are judged once it has one."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.datasets.waiting import MIN_KNOWN_RATIO
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.codec import ERROR_HEADER_PREFIX, get_header, parse_arrivals_key, parse_state_key
from service.log.protocol import BatchResult, CommitRefused, Output
from service.log.sqlite.follower import SqliteFollower
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.statistics.arrivals import ArrivalCounts
from service.stream.state.reader import read_state
from tests.support.model_pools import make_pool
from tests.support.tiny_models import get_runner, make_model
from tests.support.waiting_datasets import (
    LABEL_MAP,
    make_drug_sentences,
    parse_assessments,
    put_settings,
    run_worker,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from service.contracts import Assessment
    from service.log.protocol import Record

TOPICS = Topics()
TYPO = {"tokens": ["Oslo"], "labels": ["B-LCO"], "dataset": "med", "id": "typo"}


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


class Stream:
    """A log in a file, the workers that run on it, and what they have written."""

    def __init__(self, path: Path, classifier: Classifier) -> None:
        self.path = path
        self.log = SqliteLog(path, TOPICS)
        self._classifier = classifier

    def send(self, *sentences: dict[str, Any]) -> None:
        send(self.log, TOPICS, sentences)

    def put_settings(self, **fields: object) -> None:
        put_settings(self.log, TOPICS, **fields)

    def run(self, session_class: type[SqliteWorkerSession] = SqliteWorkerSession, *, batch_records: int = 16) -> None:
        run_worker(session_class(self.path, TOPICS), TOPICS, self._classifier, batch_records=batch_records)

    def read(self, topic: str) -> list[Record]:
        return self.log.read(topic, 0, 10_000)

    def read_scores(self) -> list[Assessment]:
        return parse_assessments(self.read(TOPICS.scores))

    def read_statistics(self) -> dict[bytes | None, bytes | None]:
        records = self.read(TOPICS.state)
        return {record.key: record.value for record in records if parse_state_key(record.key or b"")}

    def read_counts(self, dataset: str = "med") -> ArrivalCounts:
        return read_state(self.log, TOPICS).snapshot.get_arrivals(dataset).partitions.get(0, ArrivalCounts())

    def count_stored(self) -> int:
        return sum(record.value is not None for record in self.read(TOPICS.waiting))

    def list_dead_letters(self) -> list[str | None]:
        return [get_header(record.headers, f"{ERROR_HEADER_PREFIX}.stage") for record in self.read(TOPICS.dead_letters)]


@pytest.fixture
def stream(tmp_path: Path, classifier: Classifier) -> Iterator[Stream]:
    stream = Stream(tmp_path / "log.sqlite", classifier)
    yield stream
    stream.log.close()


@pytest.fixture
def reference(tmp_path: Path, classifier: Classifier) -> Iterator[Stream]:
    """A stream whose dataset has had its settings from the beginning."""
    stream = Stream(tmp_path / "reference.sqlite", classifier)
    stream.put_settings(label_map=LABEL_MAP)
    yield stream
    stream.log.close()


def test_sentences_of_a_dataset_that_no_model_fits_are_stored_and_not_judged(
    tmp_path: Path, broken_classifier: Classifier
) -> None:
    stream = Stream(tmp_path / "log.sqlite", broken_classifier)
    sentences = make_drug_sentences(40, start=1)
    stream.send(*sentences)
    stream.run()
    assert stream.read(TOPICS.scores) == stream.read(TOPICS.review) == stream.read(TOPICS.dead_letters) == []
    assert [record.value for record in stream.read(TOPICS.waiting)] == [
        record.value for record in stream.read(TOPICS.sentences)
    ]
    counts = stream.read_counts()
    assert counts.waiting == 40
    assert counts.labels == {
        label: sum(label in sentence["labels"] for sentence in sentences) for label in ("B-DRUG", "I-DRUG", "B-DOSE")
    }
    assert stream.read_statistics() == {}
    stream.log.close()


@pytest.mark.parametrize("batch_records", [1, 3, 16, 128])
def test_stored_sentences_are_judged_as_if_the_dataset_had_had_its_model_before(
    stream: Stream, reference: Stream, batch_records: int
) -> None:
    """Assessments with positions and thresholds, and the statistics, are the same to the bit."""
    first, second = make_drug_sentences(40, start=1), make_drug_sentences(25, start=41)
    stream.send(*first)
    stream.run(batch_records=batch_records)
    stream.put_settings(label_map=LABEL_MAP)
    stream.send(*second)  # they arrive before the stored ones are judged, and wait behind them
    stream.run(batch_records=batch_records)
    reference.send(*first, *second)
    reference.run()
    assert stream.read_scores() == reference.read_scores()
    assert len(stream.read_scores()) == 65
    assert stream.read_statistics() == reference.read_statistics()
    assert (stream.count_stored(), stream.read_counts().waiting) == (0, 0)
    assert stream.list_dead_letters() == []


@pytest.mark.parametrize("refused", range(8))
def test_a_commit_that_is_refused_changes_nothing(stream: Stream, reference: Stream, refused: int) -> None:
    class RefusingSession(SqliteWorkerSession):
        commits = 0

        def commit(self, result: BatchResult) -> None:
            self.commits += 1
            if self.commits == refused + 1:
                self._next_offset = None
                raise CommitRefused("on purpose")
            super().commit(result)

    sentences = make_drug_sentences(12, start=1)
    stream.send(*sentences)
    stream.run(RefusingSession, batch_records=3)
    stream.put_settings(label_map=LABEL_MAP)
    stream.send(*make_drug_sentences(6, start=13))
    stream.run(RefusingSession, batch_records=3)
    reference.send(*sentences, *make_drug_sentences(6, start=13))
    reference.run()
    assert stream.read_scores() == reference.read_scores()
    assert stream.read_statistics() == reference.read_statistics()


def test_a_misspelt_label_in_a_dataset_that_fits_is_a_dead_letter(stream: Stream) -> None:
    known = [{**TYPO, "labels": ["B-LOC"], "id": str(number)} for number in range(MIN_KNOWN_RATIO)]
    stream.send(*known, TYPO)
    stream.run()
    assert stream.list_dead_letters() == ["labels"]
    assert len(stream.read_scores()) == len(known)
    assert stream.read(TOPICS.waiting) == []


def test_a_dataset_that_turns_out_to_fit_is_judged_and_the_misspelt_label_is_a_dead_letter(stream: Stream) -> None:
    known = [{**TYPO, "labels": ["B-LOC"], "id": str(number)} for number in range(MIN_KNOWN_RATIO + 1)]
    stream.send(TYPO, *known)
    stream.run()
    assert stream.list_dead_letters() == ["labels"]
    [letter] = stream.read(TOPICS.dead_letters)
    [original, *_] = stream.read(TOPICS.sentences)
    assert (letter.key, letter.value) == (original.key, original.value)
    assert [assessment.id for assessment in stream.read_scores()] == [str(number) for number in range(len(known))]
    assert stream.count_stored() == 0


@pytest.mark.parametrize("settings", [{"label_set": ["DRUG"], "label_map": {"DRUG": "MISC"}}, {"scheme": "io"}])
def test_a_released_sentence_with_a_label_that_has_no_class_is_a_dead_letter(
    stream: Stream, settings: dict[str, Any]
) -> None:
    stream.send(*make_drug_sentences(4, start=1))
    stream.run()
    assert stream.count_stored() == 4
    stream.put_settings(**settings, **({} if "label_set" in settings else {"label_set": ["PER"]}))
    stream.run()
    assert stream.count_stored() == 0
    assert len(stream.read_scores()) + len(stream.list_dead_letters()) == 4
    assert set(stream.list_dead_letters()) == {"labels"}


def test_a_change_that_leaves_labels_without_a_class_releases_nothing(stream: Stream) -> None:
    stream.send(*make_drug_sentences(20, start=1))
    stream.run()
    stream.put_settings(label_map={"DRUG": "MISC"})
    stream.run()
    assert (stream.count_stored(), stream.read_scores()) == (20, [])


def test_unscored_labels_need_no_model(stream: Stream) -> None:
    stream.put_settings(unmapped="unscored")
    stream.send(*make_drug_sentences(3, start=1))
    stream.run()
    assert len(stream.read_scores()) == 3
    assert stream.read(TOPICS.waiting) == []


def test_a_deletion_closes_the_item_at_once_and_is_released_in_its_turn(stream: Stream) -> None:
    stream.send(*make_drug_sentences(2, start=1), {"id": "1", "dataset": "med", "deleted": True, "revision": 1})
    stream.run()
    assert [assessment.reason for assessment in parse_assessments(stream.read(TOPICS.review))] == ["deleted"]
    assert stream.count_stored() == 3
    stream.put_settings(label_map=LABEL_MAP)
    stream.run()
    assert [(assessment.id, assessment.reason) for assessment in stream.read_scores() if assessment.id == "1"][-1] == (
        "1",
        "deleted",
    )
    assert stream.count_stored() == 0


def test_sentences_with_probabilities_never_wait(stream: Stream) -> None:
    with_probabilities = {
        "tokens": ["a"],
        "labels": ["B-DRUG"],
        "dataset": "med",
        "id": "p",
        "probabilities": {"classes": ["O", "B-DRUG"], "words": [[0.2, 0.8]]},
    }
    stream.send(*make_drug_sentences(2, start=1), with_probabilities)
    stream.run()
    assert [assessment.id for assessment in stream.read_scores()] == ["p"]
    assert stream.count_stored() == 2


def test_other_datasets_are_judged_while_one_waits_and_stay_out_of_its_release(stream: Stream) -> None:
    stream.send(*make_drug_sentences(3, start=1), *make_drug_sentences(3, start=1, dataset="bio"))
    stream.send({**TYPO, "labels": ["B-LOC"], "dataset": "news"})
    stream.run()
    assert [assessment.dataset for assessment in stream.read_scores()] == ["news"]
    stream.put_settings(label_map=LABEL_MAP)
    stream.run()
    assert {assessment.dataset for assessment in stream.read_scores()} == {"news", "med"}
    assert (stream.count_stored(), stream.read_counts("bio").waiting) == (3, 3)
    put_settings(stream.log, TOPICS, name="bio", label_map=LABEL_MAP)
    stream.run()
    assert sum(assessment.dataset == "bio" for assessment in stream.read_scores()) == 3
    assert stream.count_stored() == 0


def test_a_sentence_without_an_id_has_the_same_one_when_it_is_released(stream: Stream, reference: Stream) -> None:
    nameless = [{name: value for name, value in one.items() if name != "id"} for one in make_drug_sentences(3, start=1)]
    stream.send(*nameless)
    stream.run()
    stream.put_settings(label_map=LABEL_MAP)
    stream.run()
    reference.send(*nameless)
    reference.run()
    assert [assessment.id for assessment in stream.read_scores()] == [
        assessment.id for assessment in reference.read_scores()
    ]


def test_stored_sentences_that_are_gone_do_not_hold_up_the_dataset(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    stream.send(*make_drug_sentences(3, start=1))
    stream.run()
    stream.log.append([Output(TOPICS.waiting, record.key, None) for record in stream.read(TOPICS.waiting)])
    stream.put_settings(label_map=LABEL_MAP)
    stream.send(*make_drug_sentences(2, start=11))
    stream.run()
    assert "3 stored sentences of dataset med are not in the waiting topic any more" in caplog.text
    assert [assessment.id for assessment in stream.read_scores()] == ["11", "12"]
    assert stream.read_counts().waiting == 0


class LateFollower(SqliteFollower):
    """Shows records one call later than they are committed, as Kafka does."""

    polls = 0

    def poll(self) -> Sequence[Record]:
        self.polls += 1
        return super().poll() if self.polls % 2 else ()


class BusySession(SqliteWorkerSession):
    """Another sentence arrives during each of the first batches."""

    sent = 99
    opened = 0

    def follow_partition(self, topic: str, partition: int) -> LateFollower:
        self.opened += 1
        return LateFollower(self, topic, end_offset=self._database.fetch_next_offset(topic))

    def commit(self, result: BatchResult) -> None:
        super().commit(result)
        if self.sent < 119:
            self.sent += 1
            send(self, TOPICS, make_drug_sentences(1, start=self.sent))


def test_sentences_that_arrive_during_a_release_do_not_make_it_begin_again(
    stream: Stream, classifier: Classifier
) -> None:
    """To read all that waits again takes long, and meanwhile more arrives."""
    stream.send(*make_drug_sentences(5, start=1))
    stream.run()
    stream.put_settings(label_map=LABEL_MAP)
    stream.send(*make_drug_sentences(1, start=99))
    session = BusySession(stream.path, TOPICS)
    run_worker(session, TOPICS, classifier, batch_records=1)
    assert [int(each.id or 0) for each in stream.read_scores()] == [*range(1, 6), *range(99, 120)]
    assert stream.count_stored() == 0
    assert session.opened == 1


def test_the_counts_are_part_of_the_state_of_the_partition(stream: Stream) -> None:
    stream.send(*make_drug_sentences(3, start=1))
    stream.run()
    keys = [parse_arrivals_key(record.key or b"") for record in stream.read(TOPICS.state)]
    assert [key for key in keys if key] == [(0, "med")]
    with closing(SqliteWorkerSession(stream.path, TOPICS)) as session:
        [assignment] = session.poll_rebalance().assigned
    assert any(parse_arrivals_key(key) == (0, "med") for key in assignment.state)


def test_a_dataset_that_waits_counts_towards_the_limit_and_stays_known(stream: Stream, classifier: Classifier) -> None:
    stream.send(*make_drug_sentences(1, start=1))
    stream.run()
    registry = DatasetRegistry(make_pool(classifier), max_datasets=1, min_words=1, prior_words=0)
    registry.register_existing(read_state(stream.log, TOPICS).snapshot.datasets)
    assert registry.get_judge("med").settings == DatasetSettings(name="med")


def test_the_log_says_once_that_a_dataset_waits_and_once_that_it_does_not_any_more(
    stream: Stream, classifier: Classifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stream.send(*make_drug_sentences(20, start=1))
    worker = run_worker(SqliteWorkerSession(stream.path, TOPICS), TOPICS, classifier, batch_records=4)
    assert [each.sentences for each in worker.waiting] == [20]
    assert worker.status.degraded["waiting"].startswith("20 sentences of med wait for a model: ")
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 1
    assert "of med wait for a model: labels without a class are 'B-DOSE' (4), 'B-DRUG' (4)" in lines[0]
    caplog.clear()
    stream.put_settings(label_map=LABEL_MAP)
    worker = run_worker(SqliteWorkerSession(stream.path, TOPICS), TOPICS, classifier, batch_records=4)
    assert worker.status.degraded["waiting"] == ""
    assert worker.waiting == ()
    messages = [record.getMessage() for record in caplog.records]
    assert sum("that waited for a model are being judged" in message for message in messages) == 1
    assert messages[-1] == "no sentences of med wait for a model any more"
