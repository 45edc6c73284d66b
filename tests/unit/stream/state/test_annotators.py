"""Sums of annotators in the state: exact after any restart and batching, bounded, and ignored by earlier releases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import DatasetSettings, LabelledSentence
from service.datasets.registry import DatasetRegistry
from service.errors import StateError
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.log.codec import parse_annotator_key, parse_state_key, to_annotator_key
from service.log.topics import Topics
from service.statistics.annotators.sums import OTHER_ANNOTATORS, AnnotatorSums
from service.statistics.running import RunningStats
from service.stream.state.annotators import AnnotatorDraft, AnnotatorRecord, sum_partitions
from service.stream.state.reader import read_state_record
from service.stream.state.snapshot import StatsKey
from tests.support.command_harness import make_sentences
from tests.support.model_pools import make_pool
from tests.support.one_pass import OnePass
from tests.support.partitions import Partitions
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.judging.judge import Judge

TOPICS = Topics()
NAMES = ("kim", "lee", "a/b", "Żółć", OTHER_ANNOTATORS, "")
ARRIVED_AT = datetime.fromtimestamp(1, UTC)  # of the records of `Partitions`
NEWS = StatsKey("news", "abc/0")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece")))


def build_registry(classifier: Classifier) -> DatasetRegistry:
    registry = DatasetRegistry(make_pool(classifier), min_words=1, prior_words=0)
    registry.put(DatasetSettings(name="news", version=1))
    return registry


def make_values(names: Sequence[str], *, seed: int) -> list[bytes]:
    sentences = make_sentences(len(names), seed=seed, dataset="news")
    days = [f"19{60 + index % 10}-0{1 + index % 9}-11T00:00:00Z" for index in range(len(names))]
    return [
        json.dumps({**sentence, "annotator": name or None, "annotated_at": day}).encode()
        for sentence, name, day in zip(sentences, names, days, strict=True)
    ]


def run_one_pass(classifier: Classifier, judge: Judge, values: Sequence[bytes], *, limit: int) -> OnePass:
    one_pass = OnePass(judge, max_annotators=limit)
    for value in values:
        sentence = LabelledSentence.model_validate_json(value)
        [words] = classifier.infer([sentence.tokens])
        assert isinstance(words, WordProbs)
        one_pass.add(sentence, words, arrived_at=ARRIVED_AT)
    return one_pass


names_of_partition = st.lists(st.sampled_from(NAMES), max_size=25)


@settings(deadline=None, max_examples=40)
@given(
    first=names_of_partition,
    second=names_of_partition,
    sizes=st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=8),
    limit=st.integers(0, 4),
)
def test_a_partition_has_the_sums_of_one_pass_however_it_was_batched(
    classifier: Classifier, first: list[str], second: list[str], sizes: list[tuple[int, bool]], limit: int
) -> None:
    registry = build_registry(classifier)
    judge = registry.get_judge("news")
    key = StatsKey.from_judge(judge)
    values = {0: make_values(first, seed=1), 1: make_values(second, seed=2)}
    partitions = Partitions(classifier, registry, max_annotators=limit)
    position = {0: 0, 1: 0}
    for size, commit in [*sizes, (25, True)]:  # the last one reads what is left
        batch = {
            partition: part
            for partition, own in values.items()
            if (part := own[position[partition] : position[partition] + size])
        }
        partitions.process(batch, commit=commit)
        if commit:
            position = {partition: position[partition] + len(batch.get(partition, ())) for partition in position}
            partitions.restart()
    one_pass = {p: run_one_pass(classifier, judge, own, limit=limit).annotators for p, own in values.items()}
    assert partitions.snapshot.annotators.get(key, {}) == {p: sums for p, sums in one_pass.items() if sums}
    total = sum_partitions(partitions.snapshot.annotators, "news")
    assert sum(sums.totals.sentences for sums in total.values()) == len([name for name in first + second if name])
    for sums in one_pass.values():
        assert len(sums.keys() - {OTHER_ANNOTATORS}) <= limit
    assert total == sum_partitions({key: dict(reversed(one_pass.items()))}, "news", judge.stats_key)


def test_only_the_annotators_of_a_batch_are_written(classifier: Classifier) -> None:
    partitions = Partitions(classifier, build_registry(classifier))
    partitions.process({0: make_values(["kim", "lee"], seed=1)})
    partitions.written.clear()
    partitions.process({0: make_values(["lee"], seed=2)})
    written = [parsed[3] for key in partitions.written if (parsed := parse_annotator_key(key))]
    assert written == ["lee"]


def test_keys_of_annotators_are_not_those_of_statistics() -> None:
    for name in ("kim", "a/b/", OTHER_ANNOTATORS, 'quo"te'):
        key = to_annotator_key(3, "news", "abc/0", name)
        assert parse_annotator_key(key) == (3, "news", "abc/0", name)
        assert parse_state_key(key) is None
        assert read_state_record(TOPICS.state, key, None) == AnnotatorRecord(3, NEWS, name, None)
        assert read_state_record(TOPICS.state, key, b"not read", skip={3}) is None
        assert AnnotatorRecord(3, NEWS, name, None).to_key() == key
    with pytest.raises(StateError, match="is not a dataset name"):
        read_state_record(TOPICS.state, to_annotator_key(3, "No Name", "abc/0", "kim"), b"{}")
    with pytest.raises(StateError, match=r"of dataset news in labelwatch\.state can't be read.*lacks sentences"):
        read_state_record(TOPICS.state, to_annotator_key(3, "news", "abc/0", "kim"), b'{"version": 1}')


def test_earlier_releases_read_the_record_as_empty_statistics() -> None:
    """0.1.0 takes every key of this form for statistics."""
    snapshot = json.loads(AnnotatorSums().to_json())
    stats = RunningStats.restore(snapshot)
    assert stats.histogram.total == 0
    assert not stats.buckets


def test_a_tombstone_and_a_cleared_partition_leave_nothing() -> None:
    draft = AnnotatorDraft({})
    for partition, name in ((0, "kim"), (0, "lee"), (1, "kim")):
        draft.apply(AnnotatorRecord(partition, NEWS, name, AnnotatorSums()))
    before = draft.to_mapping()
    assert AnnotatorDraft(before).to_mapping() is before
    draft = AnnotatorDraft(before)
    draft.apply(AnnotatorRecord(0, NEWS, "kim", None))
    assert {partition: set(sums) for partition, sums in draft.to_mapping()[NEWS].items()} == {0: {"lee"}, 1: {"kim"}}
    draft.clear_partition(0)
    draft.clear_partition(1)
    assert draft.to_mapping() == {}
    assert before[NEWS].keys() == {0, 1}
