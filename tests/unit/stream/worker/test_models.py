"""Batches of several models, and datasets whose model is missing."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from service.contracts import Assessment, DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.errors import MissingModelError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.protocol import Record, RecordBatch, ReleasedRecords, StoredRecord
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.runtime.worker import RunToEndWorker
from service.stream.state.reader import read_state
from service.stream.state.snapshot import StateSnapshot
from service.stream.worker.batch_processor import BatchProcessor
from tests.support.command_harness import make_sentences
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model
from tests.support.waiting_datasets import put_settings, send

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.protocol import Output
    from service.stream.worker.batch_processor import ProcessedBatch

TOPICS = Topics()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("default"), "wordpiece")))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def make_records(datasets: list[str], *, partition: int = 0) -> list[Record]:
    return [
        Record(TOPICS.sentences, partition, offset, None, json_bytes({**sentence, "dataset": dataset}), (), 1_000)
        for offset, (sentence, dataset) in enumerate(zip(make_sentences(len(datasets)), datasets, strict=True))
    ]


def json_bytes(value: dict[str, object]) -> bytes:
    return json.dumps(value).encode()


def process(classifier: Classifier, models: Path, batch: RecordBatch, *settings: DatasetSettings) -> ProcessedBatch:
    pool = make_pool(classifier, models)
    datasets = DatasetRegistry(pool, min_words=1, prior_words=0)
    for one in settings:
        datasets.put(one)
    return BatchProcessor(pool, datasets, TOPICS, publish_scores=True).process(batch, StateSnapshot())


def read_scores(outputs: list[Output]) -> list[Assessment]:
    return [
        Assessment.model_validate_json(output.value or b"").model_copy(update={"scored_at": None})
        for output in outputs
        if output.topic == TOPICS.scores
    ]


def test_each_model_runs_its_sentences_in_batches_of_their_own(classifier: Classifier, models: Path) -> None:
    folder = ModelFolder.load(make_model(models / "med", "wordpiece", seed=1))
    med = DatasetSettings(name="med", version=1, model="med")
    records = make_records(["med", "news", "news", "med", "med", "news"])
    mixed = process(classifier, models, RecordBatch({0: records}), med)
    scores = read_scores(list(mixed.result.outputs))
    assert [score.position.offset for score in scores if score.position] == list(range(6)), "in the order of offsets"
    alone = [
        read_scores(list(process(classifier, models, RecordBatch({0: chosen}), med).result.outputs))
        for chosen in ([records[0], *records[3:5]], [*records[1:3], records[5]])
    ]
    assert [score for score in scores if score.dataset == "med"] == alone[0]
    assert [score for score in scores if score.dataset == "news"] == alone[1]
    assert {score.model.fingerprint for score in alone[0]} == {folder.fingerprint}
    assert {score.model.fingerprint for score in alone[1]} == {classifier.folder.fingerprint}


def test_a_batch_ends_before_the_first_record_whose_model_is_missing(classifier: Classifier, models: Path) -> None:
    med = DatasetSettings(name="med", version=1, model="med")
    first = make_records(["news", "news", "med", "news"])
    broken = [Record(TOPICS.sentences, 0, 4, None, b"not JSON"), Record(TOPICS.sentences, 1, 0, None, b"not JSON")]
    second = [broken[1], *(make_records(["news"] * 3, partition=1)[1:])]
    processed = process(classifier, models, RecordBatch({0: [*first, broken[0]], 1: second}, lease="lease"), med)
    assert processed.result.batch.next_offsets == {0: 2, 1: 3}
    assert processed.result.batch.lease == "lease"
    assert set(processed.result.state) == {0, 1}
    (stop,) = processed.stopped
    assert (stop.partition, stop.offset, stop.dataset) == (0, 2, "med")
    assert "needs the model 'med'" in stop.reason
    topics = [output.topic for output in processed.result.outputs]
    assert topics.count(TOPICS.dead_letters) == 1, "only that of partition 1: the other one is read again"
    assert topics.count(TOPICS.scores) == 4
    assert not processed.snapshot.count_sentences_by_dataset()["med"]


def test_a_partition_without_a_record_to_commit_is_left_out(classifier: Classifier, models: Path) -> None:
    med = DatasetSettings(name="med", version=1, model="med")
    processed = process(classifier, models, RecordBatch({0: make_records(["med", "news"])}), med)
    assert processed.result.batch.records == {}
    assert (processed.result.outputs, processed.result.state) == ([], {})
    assert [stop.offset for stop in processed.stopped] == [0]


def test_a_model_that_can_not_be_loaded_stops_the_partition_too(classifier: Classifier, models: Path) -> None:
    graph = ModelFolder.load(make_model(models / "med", "wordpiece", seed=1)).graph
    assert graph is not None
    graph.write_bytes(b"not a graph")
    med = DatasetSettings(name="med", version=1, model="med")
    processed = process(classifier, models, RecordBatch({0: make_records(["news", "med"])}), med)
    assert processed.result.batch.next_offsets == {0: 1}
    assert [stop.offset for stop in processed.stopped] == [1]
    assert len(read_scores(list(processed.result.outputs))) == 1, "nothing is judged twice"


def test_released_records_whose_model_has_gone_stay_stored(classifier: Classifier, models: Path) -> None:
    med = DatasetSettings(name="med", version=1, model="med")
    stored = [StoredRecord(b"key", "med", record) for record in make_records(["med", "med"])]
    new = [Record(TOPICS.sentences, 0, 7, None, make_records(["news"])[0].value, (), 1_000)]
    batch = RecordBatch({0: new}, partitions=frozenset({0}), released={0: ReleasedRecords(stored)})
    processed = process(classifier, models, batch, med)
    assert processed.result.batch.released == {}
    assert processed.result.batch.next_offsets == {0: 8}
    assert processed.stopped == ()
    assert {output.topic for output in processed.result.outputs} <= {TOPICS.scores, TOPICS.review}


def test_a_worker_that_runs_to_the_end_does_not_wait_for_a_model(
    classifier: Classifier, models: Path, tmp_path: Path
) -> None:
    log = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    put_settings(log, TOPICS, model="med")
    send(
        log,
        TOPICS,
        [{**sentence, "dataset": name} for sentence, name in zip(make_sentences(2), ("news", "med"), strict=True)],
    )
    pool = make_pool(classifier, models)
    datasets = DatasetRegistry(pool, min_words=1, prior_words=0)
    session = SqliteWorkerSession(tmp_path / "log.sqlite", TOPICS)
    worker = RunToEndWorker(session, BatchProcessor(pool, datasets, TOPICS), datasets, TOPICS, poll_timeout=0.0)
    with pytest.raises(
        MissingModelError, match="partition 0 waits at offset 1: the dataset 'med' needs the model 'med'"
    ):
        worker.run(threading.Event())
    assert read_state(log, TOPICS).positions == {0: 1}
    log.close()
