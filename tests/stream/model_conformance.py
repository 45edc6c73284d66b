"""What workers do without the model of a dataset, on every log."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.stream.state.reader import read_state
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.stream.steps import read_topic, wait_until
from tests.support.command_harness import make_sentences
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model
from tests.support.waiting_datasets import parse_assessments, put_settings, send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from service.contracts import Assessment
    from service.log.protocol import Log, WorkerSession
    from service.stream.state.snapshot import StateSnapshot
    from tests.stream.conformance import LogUnderTest

PARTITION = 0
BEFORE, WAITING, AFTER = 6, 7, 5  # records of partition 0: before the first of the dataset, of it, and after


def make_input() -> list[dict[str, Any]]:
    """Sentences of other datasets surround those of the dataset `med`."""
    datasets = ["news"] * BEFORE + ["med"] * WAITING + ["news"] * AFTER
    sentences = make_sentences(len(datasets))
    return [
        {**sentence, "id": str(number), "dataset": dataset}
        for number, (sentence, dataset) in enumerate(zip(sentences, datasets, strict=True))
    ]


def read_results(log: Log, topics: Topics) -> tuple[list[Assessment], StateSnapshot]:
    """Everything that partition 0 has brought, without times and names of topics."""
    assessments = [
        assessment.model_copy(update={"position": None})
        for assessment in parse_assessments(read_topic(log, topics.scores))
        if assessment.dataset != "other"
    ]
    return sorted(assessments, key=lambda assessment: int(assessment.id or 0)), read_state(log, topics).snapshot


class ModelConformance:
    @pytest.fixture(scope="class")
    def classifier(self, tmp_path_factory: pytest.TempPathFactory) -> Classifier:
        return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("default"), "wordpiece")))

    @pytest.fixture
    def model(self, tmp_path: Path) -> ModelFolder:
        """The model of the dataset, outside the registry."""
        return ModelFolder.load(make_model(tmp_path / "brought", "wordpiece", seed=1))

    @pytest.fixture
    def models(self, tmp_path: Path) -> Path:
        return tmp_path / "models"

    @contextmanager
    def running(self, session: WorkerSession, topics: Topics, classifier: Classifier, models: Path) -> Iterator[Worker]:
        pool = make_pool(classifier, models)
        datasets = DatasetRegistry(pool, min_words=1, prior_words=0)
        processor = BatchProcessor(pool, datasets, topics, publish_scores=True)
        worker = Worker(session, processor, datasets, topics, batch_records=8, poll_timeout=0.1)
        stop = threading.Event()
        thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
        thread.start()
        try:
            yield worker
        finally:
            stop.set()
            thread.join(120)
        assert not thread.is_alive()

    def read_position(self, log: LogUnderTest) -> int | None:
        return read_state(log.open_log(), log.topics).positions.get(PARTITION)

    def wait_for_condition(self, worker: Worker, text: str) -> str:
        wait_until(lambda: text in worker.status.conditions["models"], f"the worker waits: {text}")
        return worker.status.conditions["models"]

    def set_up(self, log: LogUnderTest, model: ModelFolder) -> None:
        writer = log.open_log()
        put_settings(writer, log.topics, model="med-v1", model_fingerprint=model.fingerprint)
        send(writer, log.topics, make_input())

    def judge_with_the_model(
        self, tmp_path: Path, classifier: Classifier, model: ModelFolder
    ) -> tuple[list[Assessment], StateSnapshot]:
        """The results of a worker that has the model from the start."""
        topics, models = Topics(), tmp_path / "models-of-reference"
        shutil.copytree(model.path, models / "med-v1")
        session = SqliteWorkerSession(tmp_path / "reference.sqlite", topics)
        put_settings(session, topics, model="med-v1", model_fingerprint=model.fingerprint)
        send(session, topics, make_input())
        with self.running(session, topics, classifier, models) as worker:
            wait_until(lambda: worker.counts.records == BEFORE + WAITING + AFTER, "everything is judged")
        reader = SqliteWorkerSession(tmp_path / "reference.sqlite", topics)
        results = read_results(reader, topics)
        reader.close()
        return results

    def test_a_missing_model_stops_its_partition_until_it_appears(
        self, log: LogUnderTest, tmp_path: Path, classifier: Classifier, model: ModelFolder, models: Path
    ) -> None:
        expected = self.judge_with_the_model(tmp_path, classifier, model)
        self.set_up(log, model)
        with self.running(log.open_session(), log.topics, classifier, models) as worker:
            condition = self.wait_for_condition(worker, "has no model")
            assert f"partition 0 waits at offset {BEFORE}: the dataset 'med' needs the model 'med-v1'" in condition
            assert f"(fingerprint {model.fingerprint[:12]})" in condition
            assert str(models) in condition
            assert not worker.status.ready
            wait_until(lambda: self.read_position(log) == BEFORE, "what stands before it is committed")
            assert worker.lag()[PARTITION] == WAITING + AFTER

            for partition in range(1, log.partitions):
                others = [{**sentence, "dataset": "other"} for sentence in make_sentences(6)]
                send(log.open_log(), log.topics, others, first_partition=partition)
            n_others = 6 * (log.partitions - 1)
            wait_until(lambda: worker.counts.records == BEFORE + n_others, "other partitions go on")
            assert worker.paused == {PARTITION}

            wrong = ModelFolder.load(make_model(tmp_path / "wrong", "wordpiece", seed=2))
            shutil.copytree(wrong.path, models / "med-v1")
            condition = self.wait_for_condition(worker, wrong.fingerprint[:12])
            assert model.fingerprint[:12] in condition
            assert self.read_position(log) == BEFORE

            shutil.rmtree(models / "med-v1")
            shutil.copytree(model.path, models / "med-v1")
            wait_until(lambda: worker.counts.records == BEFORE + WAITING + AFTER + n_others, "everything is judged")
            wait_until(lambda: worker.status.ready, "the worker is ready again")
        assert read_topic(log.open_log(), log.topics.dead_letters) == []
        assessments, snapshot = read_results(log.open_log(), log.topics)
        assert assessments == expected[0]
        for key in expected[1].keys:
            stats = (each.get_partitions(key)[PARTITION].snapshot() for each in (snapshot, expected[1]))
            assert next(stats) == next(stats)

    def test_another_worker_continues_at_the_record_that_waits(
        self, log: LogUnderTest, tmp_path: Path, classifier: Classifier, model: ModelFolder, models: Path
    ) -> None:
        expected = self.judge_with_the_model(tmp_path, classifier, model)
        self.set_up(log, model)
        with self.running(log.open_session(), log.topics, classifier, tmp_path / "none") as worker:
            self.wait_for_condition(worker, "has no model")
        shutil.copytree(model.path, models / "med-v1")
        with self.running(log.open_session(), log.topics, classifier, models) as worker:
            wait_until(lambda: worker.counts.records == WAITING + AFTER, "the rest is judged")
        assert read_results(log.open_log(), log.topics)[0] == expected[0]

    def test_a_partition_continues_when_the_dataset_gets_another_model(
        self, log: LogUnderTest, classifier: Classifier, model: ModelFolder, models: Path
    ) -> None:
        self.set_up(log, model)
        with self.running(log.open_session(), log.topics, classifier, models) as worker:
            self.wait_for_condition(worker, "has no model")
            put_settings(log.open_log(), log.topics, version=2)
            wait_until(lambda: worker.counts.records == BEFORE + WAITING + AFTER, "everything is judged")
        assessments, _ = read_results(log.open_log(), log.topics)
        assert {assessment.model.fingerprint for assessment in assessments} == {classifier.folder.fingerprint}
