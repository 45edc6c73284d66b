"""Memories in the state: one per stats key and partition, exact after any restart, and ignored by earlier releases."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from service.contracts import DatasetSettings, LabelledSentence
from service.datasets.registry import DatasetRegistry
from service.errors import NewerStateError, StateError
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.log.codec import parse_memory_key, parse_state_key, to_memory_key
from service.log.protocol import Output
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.statistics.memory import memory as memory_module
from service.stream.state.memories import HISTORY, RECENT, MemoryDraft, MemoryRecord, PartitionMemory
from service.stream.state.reader import apply_state_record, check_memories, read_state, read_state_record
from service.stream.state.snapshot import StateSnapshot, StatsKey
from service.stream.state.view import StateView
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.support.command_harness import make_sentences
from tests.support.model_pools import make_pool
from tests.support.one_pass import OnePass
from tests.support.partitions import Partitions
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.judging.judge import Judge

TOPICS = Topics()
NEWS = StatsKey("news", "key/0")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece")))


@pytest.fixture(autouse=True)
def small_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations of 10 and 4 sentences, so that a short stream has many."""
    monkeypatch.setattr(memory_module, "FORM_GENERATION", 10)
    monkeypatch.setattr(memory_module, "TEMPLATE_GENERATION", 4)


def build_registry(classifier: Classifier, **settings: object) -> DatasetRegistry:
    registry = DatasetRegistry(make_pool(classifier), min_words=1, prior_words=0)
    registry.put(DatasetSettings.model_validate({"name": "news", "version": 1, **settings}))
    return registry


def make_values(n: int, *, seed: int) -> list[bytes]:
    sentences = make_sentences(n, seed=seed, dataset="news")
    return [json.dumps({**sentence, "id": f"{seed}-{index}"}).encode() for index, sentence in enumerate(sentences)]


def run_one_pass(classifier: Classifier, judge: Judge, values: Sequence[bytes]) -> OnePass:
    one_pass = OnePass(judge)
    for value in values:
        sentence = LabelledSentence.model_validate_json(value)
        [words] = classifier.infer([sentence.tokens])
        assert isinstance(words, WordProbs)
        one_pass.add(sentence, words)
    return one_pass


def test_a_partition_has_the_memory_of_one_pass_however_it_was_batched(classifier: Classifier) -> None:
    registry = build_registry(classifier)
    judge = registry.get_judge("news")
    values = {0: make_values(75, seed=1), 1: make_values(43, seed=2)}
    partitions = Partitions(classifier, registry)
    position = {0: 0, 1: 0}
    for size, commit in [(1, True), (17, False), (17, True), (30, True), (2, False), (40, True)]:
        batch = {
            partition: part
            for partition, own in values.items()
            if (part := own[position[partition] : position[partition] + size])
        }
        partitions.process(batch, commit=commit)
        if commit:
            position = {partition: position[partition] + len(batch.get(partition, ())) for partition in position}
            partitions.restart()
    for partition, own in values.items():
        one_pass = run_one_pass(classifier, judge, own)
        memory = partitions.snapshot.get_memories(judge)[partition]
        assert memory.get_tables() == one_pass.memory
        assert partitions.snapshot.get_partitions(StatsKey.from_judge(judge))[partition].get_total() == (
            one_pass.stats.get_total()
        )


def test_a_history_is_written_only_when_it_has_changed(classifier: Classifier) -> None:
    registry = build_registry(classifier)
    partitions = Partitions(classifier, registry)
    for value in make_values(35, seed=1):
        partitions.process({0: [value]})
    parts = [key[3] for key in map(parse_memory_key, partitions.written) if key is not None]
    assert (parts.count(RECENT), parts.count(HISTORY)) == (35, 3)


def test_documents_have_no_history_and_off_has_nothing(classifier: Classifier) -> None:
    for mode, expected in (("documents", {RECENT}), ("off", set())):
        registry = build_registry(classifier, memory=mode)
        partitions = Partitions(classifier, registry)
        partitions.process({0: make_values(30, seed=1)})
        parts = {key[3] for key in map(parse_memory_key, partitions.written) if key is not None}
        assert parts == expected


def test_a_restart_changes_nothing_whatever_modes_a_dataset_had(classifier: Classifier) -> None:
    registry = build_registry(classifier)
    kept, restarted = Partitions(classifier, registry), Partitions(classifier, registry)
    modes = ("auto", "documents", "auto", "auto", "off", "auto")
    sizes = (35, 3, 1, 21, 7, 12)  # the third step leaves the history of the first one in the topic
    for version, (mode, size) in enumerate(zip(modes, sizes, strict=True), 2):
        registry.put(DatasetSettings.model_validate({"name": "news", "version": version, "memory": mode}))
        for partitions in (kept, restarted):
            partitions.process({0: make_values(size, seed=version)})
        restarted.restart()
        judge = registry.get_judge("news")
        tables = [each.snapshot.get_memories(judge)[0].get_tables() for each in (kept, restarted)]
        assert tables[0] is not None
        assert tables[0] == tables[1], mode


def test_a_new_epoch_starts_with_an_empty_memory(classifier: Classifier) -> None:
    registry = build_registry(classifier)
    partitions = Partitions(classifier, registry)
    partitions.process({0: make_values(12, seed=1)})
    registry.put(DatasetSettings(name="news", version=2, epoch=1))
    judge = registry.get_judge("news")
    assert partitions.snapshot.get_memories(judge) == {}
    partitions.process({0: make_values(5, seed=2)})
    memory = partitions.snapshot.get_memories(judge)[0].get_tables()
    assert memory is not None
    assert memory.sentences == 5


def test_a_sentence_that_becomes_a_dead_letter_is_not_remembered(classifier: Classifier) -> None:
    registry = build_registry(classifier, unmapped="reject", label_set=["PER", "LOC"])
    judge = registry.get_judge("news")
    partitions = Partitions(classifier, registry)
    good = json.dumps({"dataset": "news", "id": "1", "tokens": ["Oslo"], "labels": ["B-LOC"]}).encode()
    bad = json.dumps({"dataset": "news", "id": "2", "tokens": ["Rome"], "labels": ["B-GOD"]}).encode()
    partitions.process({0: [good, bad, good]})
    memory = partitions.snapshot.get_memories(judge)[0].get_tables()
    assert memory is not None
    assert memory.sentences == 2
    assert memory.forms.current.keys == ["Oslo"]


def test_a_worker_restores_its_memory_and_the_view_reads_it(tmp_path: Path, classifier: Classifier) -> None:
    values = make_values(60, seed=3)
    judge = build_registry(classifier).get_judge("news")
    for part in (values[:23], values[23:]):
        session = SqliteWorkerSession(tmp_path / "log.sqlite", TOPICS)
        session.append([Output(TOPICS.sentences, None, value) for value in part])
        registry = build_registry(classifier)
        worker = Worker(
            session, BatchProcessor(make_pool(classifier), registry, TOPICS), registry, TOPICS, poll_timeout=0.0
        )
        worker.apply_rebalance()
        while worker.step():
            pass
        session.close()
    expected = run_one_pass(classifier, judge, values).memory
    log = SqliteWorkerSession(tmp_path / "log.sqlite", TOPICS)
    view = StateView(log, TOPICS, build_registry(classifier))
    while view.step():
        pass
    assert view.get_context("news").memories == [expected]
    assert read_state(log, TOPICS).snapshot.get_memories(judge)[0].get_tables() == expected
    off = StateView(log, TOPICS, build_registry(classifier, memory="off"))
    while off.step():
        pass
    assert off.get_context("news").memories == []
    documents = StateView(log, TOPICS, build_registry(classifier, memory="documents"))
    while documents.step():
        pass
    assert expected is not None
    assert documents.get_context("news").memories == [replace(expected, history=None)]
    for each in (view, off, documents):
        each.close()
    log.close()


def make_records(partitions: Partitions) -> dict[str, tuple[bytes, bytes]]:
    return {parsed[3]: (key, value) for key, value in partitions.committed.items() if (parsed := parse_memory_key(key))}


def test_a_worker_stops_at_a_memory_that_it_cannot_read(classifier: Classifier) -> None:
    partitions = Partitions(classifier, build_registry(classifier))
    partitions.process({0: make_values(30, seed=1)})
    for part, problem in ((RECENT, "lacks"), (HISTORY, "lacks")):
        key, _ = make_records(partitions)[part]
        draft = StateSnapshot().start_draft()
        for each, value in {**partitions.committed, key: b'{"version": 1}'}.items():
            record = read_state_record(TOPICS.state, each, value)
            assert record is not None
            apply_state_record(draft, TOPICS.state, record)
        with pytest.raises(StateError, match=f"of dataset news in labelwatch.state can't be read.*{problem}"):
            check_memories(draft, TOPICS.state, 0)
        check_memories(draft, TOPICS.state, 1)


@pytest.mark.parametrize("part", [RECENT, HISTORY])
def test_a_worker_says_that_a_memory_needs_a_newer_release(classifier: Classifier, part: str) -> None:
    partitions = Partitions(classifier, build_registry(classifier))
    partitions.process({0: make_values(30, seed=1)})
    key, value = make_records(partitions)[part]
    newer = json.dumps({**json.loads(value), "version": 9, "min_reader": 9}).encode()
    draft = StateSnapshot().start_draft()
    for each, stored in {**partitions.committed, key: newer}.items():
        record = read_state_record(TOPICS.state, each, stored)
        assert record is not None
        apply_state_record(draft, TOPICS.state, record)
    with pytest.raises(NewerStateError, match=r"of dataset news in labelwatch\.state need a newer labelwatch"):
        check_memories(draft, TOPICS.state, 0)


def test_a_view_judges_without_a_memory_that_it_cannot_read(classifier: Classifier, tmp_path: Path) -> None:
    session = SqliteWorkerSession(tmp_path / "log.sqlite", TOPICS)
    judge = build_registry(classifier).get_judge("news")
    session.append([Output(TOPICS.state, to_memory_key(0, "news", judge.stats_key, RECENT), b"not JSON")])
    view = StateView(session, TOPICS, build_registry(classifier))
    while view.step():
        pass
    assert view.get_context("news").memories == []
    view.close()
    session.close()


def test_keys_of_memories_are_not_those_of_statistics() -> None:
    for part in (RECENT, HISTORY):
        key = to_memory_key(3, "news", "abc/0", part)
        assert parse_memory_key(key) == (3, "news", "abc/0", part)
        assert parse_state_key(key) is None
        assert read_state_record(TOPICS.state, key, None) == MemoryRecord(3, StatsKey("news", "abc/0"), part, None)
        assert read_state_record(TOPICS.state, key, b"{}", skip={3}) is None
    for broken, problem in (
        (to_memory_key(3, "news", "abc/0", "else"), "'else' is not a part of a memory"),
        (to_memory_key(3, "No Name", "abc/0", RECENT), "is not a dataset name"),
    ):
        with pytest.raises(StateError, match=problem):
            read_state_record(TOPICS.state, broken, b"{}")


def test_a_history_is_unpacked_once_for_all_commits_that_leave_it_as_it_is(classifier: Classifier) -> None:
    partitions = Partitions(classifier, build_registry(classifier))
    view, histories = PartitionMemory(), []
    for seed, n_values in enumerate((30, 1, 1, 12)):  # the last ones end a generation
        partitions.written.clear()
        partitions.process({0: make_values(n_values, seed=seed)})
        for part, (key, value) in make_records(partitions).items():
            if key in partitions.written:
                view = view.with_record(MemoryRecord(0, NEWS, part, value)) or view
        tables = view.get_tables()
        assert tables is not None
        assert tables.history is not None
        assert tables.history.generations == (4 if n_values == 12 else 3)
        histories.append(tables.history)
    assert histories[0] is histories[1] is histories[2]
    assert histories[3] is not histories[0]


def test_a_tombstone_of_both_parts_leaves_nothing(classifier: Classifier) -> None:
    partitions = Partitions(classifier, build_registry(classifier))
    partitions.process({0: make_values(30, seed=1), 1: make_values(3, seed=2)})
    before = partitions.snapshot.memories
    draft = MemoryDraft(before)
    (key,) = before
    for part in (RECENT, HISTORY):
        draft.apply(MemoryRecord(0, key, part, None))
    assert draft.to_mapping()[key].keys() == {1}
    draft.clear_partition(1)
    assert draft.to_mapping() == {}
    assert before[key].keys() == {0, 1}, "the snapshot stays as it was"
