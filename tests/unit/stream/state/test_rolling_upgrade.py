"""Workers of two releases on one log, one after the other: neither may misread or lose what the other has learned."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from service.datasets.registry import DatasetRegistry
from service.errors import NewerStateError, StateError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.codec import parse_state_key
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.statistics.class_stats import CLASS_STATS_FORMAT
from service.statistics.histogram import HISTOGRAM_FORMAT
from service.statistics.running import RUNNING_STATS_FORMAT
from service.statistics.snapshots import SnapshotFormat
from service.stream.state.view import StateView
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from service.statistics.running import RunningStats

TOPICS = Topics()
FORMATS = {
    "service.statistics.running.RUNNING_STATS_FORMAT": RUNNING_STATS_FORMAT,
    "service.statistics.class_stats.CLASS_STATS_FORMAT": CLASS_STATS_FORMAT,
    "service.statistics.histogram.HISTOGRAM_FORMAT": HISTOGRAM_FORMAT,
}


class NewerFormat(SnapshotFormat):
    """The format of a release to come: it writes a field that this release does not know."""

    def write(self, fields: Mapping[str, object]) -> dict[str, object]:
        return super().write({**fields, "quantiles": [1, 2, 3]})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("tiny"), "wordpiece")


@pytest.fixture(scope="module")
def classifier(model: Path) -> Classifier:
    return Classifier(ModelFolder.load(model))


def build_newer(older: SnapshotFormat, *, min_reader: int) -> NewerFormat:
    return NewerFormat(
        older.name,
        version=older.version + 1,
        fields=older.fields,
        optional=(*older.optional, "quantiles"),
        min_reader=min_reader,
    )


@contextmanager
def newer_release(name: str, *, min_reader: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name, build_newer(FORMATS[name], min_reader=min_reader))
        yield


class Log:
    """A log in a file, and workers that run on it until everything is read."""

    def __init__(self, path: Path, classifier: Classifier) -> None:
        self.path = path
        self._classifier = classifier

    def send(self, n: int, *, seed: int) -> None:
        self.append(*(json.dumps(sentence).encode() for sentence in make_sentences(n, seed=seed)))

    def append(self, *values: bytes) -> None:
        log = SqliteLog(self.path, TOPICS)
        log.append([Output(TOPICS.sentences, None, value) for value in values])
        log.close()

    def build_registry(self) -> DatasetRegistry:
        return DatasetRegistry(make_pool(self._classifier), max_datasets=4, min_words=1, prior_words=0)

    def run_worker(self) -> RunningStats:
        stop = threading.Event()

        class OnceWorker(Worker):
            def step(self) -> int:
                n_records = super().step()
                if not n_records:
                    stop.set()
                return n_records

        registry = self.build_registry()
        processor = BatchProcessor(make_pool(self._classifier), registry, TOPICS)
        session = SqliteWorkerSession(self.path, TOPICS)
        worker = OnceWorker(session, processor, registry, TOPICS, poll_timeout=0.0)
        worker.run(stop)
        return worker.snapshot.get_stats(registry.get_judge("default"))

    def read_state_values(self) -> list[dict[str, Any]]:
        log = SqliteLog(self.path, TOPICS)
        records = [record for record in log.read(TOPICS.state, 0, 1_000) if parse_state_key(record.key or b"")]
        log.close()
        return [json.loads(record.value or b"") for record in records]


@pytest.mark.parametrize("name", FORMATS)
def test_releases_share_a_log_when_the_newer_one_only_adds_fields(
    tmp_path: Path, classifier: Classifier, name: str
) -> None:
    mixed, plain = (Log(tmp_path / f"{kind}.sqlite", classifier) for kind in ("mixed", "plain"))
    for turn in range(4):  # the older release, the newer one, and both again
        for log in (mixed, plain):
            log.send(10, seed=turn)
        expected = plain.run_worker()
        if turn % 2:
            with newer_release(name, min_reader=1):
                learned = mixed.run_worker()
        else:
            learned = mixed.run_worker()
        assert learned == expected
        assert ("quantiles" in json.dumps(mixed.read_state_values()[-1])) is bool(turn % 2)
    assert plain.run_worker().histogram.total == 40


@pytest.mark.parametrize("name", FORMATS)
def test_an_older_worker_stops_at_state_that_needs_a_newer_one_and_changes_nothing(
    tmp_path: Path, classifier: Classifier, name: str
) -> None:
    log = Log(tmp_path / "log.sqlite", classifier)
    log.send(10, seed=0)
    log.run_worker()
    log.send(10, seed=1)
    next_version = FORMATS[name].version + 1
    with newer_release(name, min_reader=next_version):
        learned = log.run_worker()
    before = log.read_state_values()
    log.send(10, seed=2)
    with pytest.raises(NewerStateError, match=f"version {next_version}, which a newer labelwatch wrote") as stopped:
        log.run_worker()
    message = str(stopped.value)
    assert f"the statistics of dataset default in {TOPICS.state} need a newer labelwatch" in message
    assert '["stats",0,"default",' in message
    assert "Upgrade this process to the release that wrote them, or roll back: stop the newer workers" in message
    assert log.read_state_values() == before
    with newer_release(name, min_reader=next_version):
        assert log.run_worker().histogram.total == learned.histogram.total + 10


def test_a_view_keeps_the_last_statistics_that_its_release_can_read(tmp_path: Path, classifier: Classifier) -> None:
    log = Log(tmp_path / "log.sqlite", classifier)
    log.send(10, seed=0)
    learned = log.run_worker()
    reader = SqliteLog(log.path, TOPICS)
    view = StateView(reader, TOPICS, log.build_registry())
    while view.step():
        pass
    log.send(10, seed=1)
    with newer_release("service.statistics.running.RUNNING_STATS_FORMAT", min_reader=2):
        log.run_worker()
    while view.step():
        pass
    assert view.get_stats("default") == learned
    assert "Upgrade this process" in (view.state_error or "")
    view.close()
    reader.close()


def test_the_worker_command_ends_with_a_code_of_its_own(
    tmp_path: Path, model: Path, classifier: Classifier, capfd: pytest.CaptureFixture[str]
) -> None:
    """A supervisor such as systemd can be set not to start the worker again."""
    harness = CommandHarness(tmp_path, model, capfd=capfd)
    log = Log(harness.log_path, classifier)
    log.send(10, seed=0)
    with newer_release("service.statistics.histogram.HISTOGRAM_FORMAT", min_reader=2):
        log.run_worker()
    result = harness.run("worker", "--once")
    assert result.code == 78
    assert "labelwatch: the statistics of dataset default in labelwatch.state need a newer labelwatch" in result.err
    assert "Traceback" not in result.err
    check = harness.run("check")
    assert "Upgrade this process to the release that wrote them" in check.out


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ({"version": 2, "min_reader": 0}, "from 1 to 2, it is 0"),
        ({"version": 2, "min_reader": 3}, "from 1 to 2, it is 3"),
        ({"version": 2, "min_reader": "1"}, "from 1 to 2, it is '1'"),
        ({"version": 2, "min_reader": 1}, "lacks bins"),
    ],
)
def test_a_reader_checks_what_a_newer_release_declares(head: dict[str, object], problem: str) -> None:
    with pytest.raises(StateError, match=problem):
        HISTOGRAM_FORMAT.read(head)


def test_statistics_are_written_as_the_first_release_reads_them() -> None:
    """0.1.0 refuses fields that it does not know, so `min_reader` is written only where it differs from the version."""
    for snapshot_format in FORMATS.values():
        assert snapshot_format.write({"a": 1}) == {"version": 1, "a": 1}
