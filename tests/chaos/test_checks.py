"""The checks of the chaos runs find every kind of fault: correct topics pass, and each corrupted one fails."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest

from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.codec import to_position_key, to_position_value
from service.log.protocol import Output, Record, RecordBatch
from service.log.topics import Topics
from service.stream.state.snapshot import StateSnapshot
from service.stream.worker.batch_processor import BatchProcessor
from tests.chaos.checks import TopicChecker, TopicDumps, find_longest_stall
from tests.chaos.messages import (
    DATASETS,
    MAX_WORDS,
    SECOND_MODEL,
    GeneratedMessage,
    generate_messages,
    make_second_model,
)
from tests.chaos.plan import (
    BROKER_FAULTS,
    LONG_PROFILES,
    N_WORKERS,
    NETWORK_FAULTS,
    SHORT_PROFILES,
    FaultKind,
    plan_faults,
)
from tests.chaos.reading import ConsumedMessage, TopicDump
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.plan import RunProfile

TOPICS = Topics()
MESSAGES = 400
PARTITIONS = 2


class Case(NamedTuple):
    checker: TopicChecker
    sent: dict[int, GeneratedMessage]
    dumps: TopicDumps

    def problems(self, **changed: TopicDump) -> str:
        return "\n".join(self.checker.check(replace(self.dumps, **changed), self.sent, self.sent))


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The topics that an undisturbed worker writes for messages in two partitions."""
    folder = make_model(tmp_path_factory.mktemp("tiny"), "wordpiece", poison="fails", manifest={"invariant": "exact"})
    registry = tmp_path_factory.mktemp("registry")
    named = {SECOND_MODEL: Classifier(ModelFolder.load(make_second_model(registry)))}
    classifier = Classifier(ModelFolder.load(folder))
    messages = list(itertools.islice(generate_messages(1, classifier), MESSAGES))
    records: dict[int, list[Record]] = {0: [], 1: []}
    for message in messages:
        partition = message.serial % PARTITIONS
        offset = len(records[partition])
        records[partition].append(
            Record(TOPICS.sentences, partition, offset, message.key, message.value, message.headers, 1000)
        )
    pool = make_pool(classifier, registry)
    datasets = DatasetRegistry(pool, min_words=1, prior_words=0)
    for settings in DATASETS:
        datasets.put(settings)
    processor = BatchProcessor(pool, datasets, TOPICS, max_words=MAX_WORDS, publish_scores=True)
    result = processor.process(RecordBatch(records), StateSnapshot()).result
    state = [
        Output(TOPICS.state, key, value, partition=partition)
        for partition, values in result.state.items()
        for key, value in {**values, to_position_key(partition): to_position_value(len(records[partition]))}.items()
    ]
    outputs = [*result.outputs, *state]
    dumps = TopicDumps(
        TopicDump(
            tuple(_to_message(record) for each in records.values() for record in each),
            {0: MESSAGES // 2, 1: MESSAGES // 2},
        ),
        *(_make_dump(outputs, name) for name in (TOPICS.review, TOPICS.scores, TOPICS.dead_letters, TOPICS.state)),
    )
    return Case(
        TopicChecker(classifier, named, min_words=1, prior_words=0),
        {message.serial: message for message in messages},
        dumps,
    )


def _to_message(record: Record) -> ConsumedMessage:
    return ConsumedMessage(
        record.topic, record.partition, record.offset, record.key, record.value, record.headers, record.timestamp_ms
    )


def _make_dump(outputs: list[Output], name: str) -> TopicDump:
    selected = [output for output in outputs if output.topic == name]
    messages = [
        ConsumedMessage(name, output.partition or 0, offset, output.key, output.value, output.headers, 1000)
        for offset, output in enumerate(selected)
    ]
    return TopicDump(tuple(messages), {})


def _corrupt(
    topic: TopicDump,
    choose: Callable[[ConsumedMessage], bool],
    change: Callable[[ConsumedMessage], list[ConsumedMessage]],
) -> TopicDump:
    """Changes the first message that is chosen."""
    first = next(index for index, message in enumerate(topic.messages) if choose(message))
    return replace(
        topic, messages=(*topic.messages[:first], *change(topic.messages[first]), *topic.messages[first + 1 :])
    )


def _any(_: ConsumedMessage) -> bool:
    return True


def _edit(field: str, value: object) -> Callable[[ConsumedMessage], list[ConsumedMessage]]:
    return lambda message: [
        replace(message, value=json.dumps({**json.loads(message.value or b""), field: value}).encode())
    ]


def _has_reason(reason: str) -> Callable[[ConsumedMessage], bool]:
    return lambda message: json.loads(message.value or b"")["reason"] == reason


def test_the_topics_of_an_undisturbed_worker_pass(case: Case) -> None:
    assert case.problems() == ""
    reasons = {json.loads(message.value or b"")["reason"] for message in case.dumps.scores.messages}
    assert reasons == {"flagged", "update", "deleted", "control", "scored"}
    stages = {message.stage for message in case.sent.values()}
    assert stages == {None, "decode", "validate", "labels", "too_long", "inference"}
    assert len(case.dumps.review.messages) < len(case.dumps.scores.messages) / 2 < MESSAGES / 2


@pytest.mark.parametrize("name", ["review", "scores", "dead_letters"])
def test_duplicate_and_missing_messages_are_found(case: Case, name: str) -> None:
    topic = getattr(case.dumps, name)
    title = name.replace("_", " ")
    doubled = _corrupt(topic, _any, lambda message: [message, message])
    assert f"{title} contains more than once" in case.problems(**{name: doubled})
    assert f"{title} lacks" in case.problems(**{name: _corrupt(topic, _any, lambda _: [])})


def test_a_sentence_that_is_not_flagged_in_the_review_topic_is_found(case: Case) -> None:
    unflagged = next(message for message in case.dumps.scores.messages if _has_reason("scored")(message))
    review = replace(case.dumps.review, messages=(*case.dumps.review.messages, unflagged))
    assert "review contains by mistake" in case.problems(review=review)


@pytest.mark.parametrize(
    ("reason", "field", "value", "problem"),
    [
        ("flagged", "flags", [], "judged again"),
        ("flagged", "thresholds", {}, "judged again"),
        ("flagged", "labels", ["O"], "other labels"),
        ("scored", "reason", "flagged", "must say scored"),
        ("update", "reason", "scored", "must say update"),
        ("control", "reason", "scored", "must say control"),
        ("deleted", "reason", "update", "is deleted"),
        ("flagged", "id", "another", "is assessed as"),
        ("flagged", "settings_version", 7, "version 7 of the settings, which was never sent"),
    ],
)
def test_an_inconsistent_assessment_is_found(case: Case, reason: str, field: str, value: object, problem: str) -> None:
    scores = _corrupt(case.dumps.scores, _has_reason(reason), _edit(field, value))
    assert problem in case.problems(scores=scores)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda letter: [replace(letter, value=(letter.value or b"") + b" ")], "byte for byte"),
        (lambda letter: [replace(letter, key=b"other")], "byte for byte"),
        (lambda letter: [replace(letter, headers=(("serial", b"x"), *letter.headers[1:]))], "byte for byte"),
    ],
)
def test_a_changed_dead_letter_is_found(
    case: Case, change: Callable[[ConsumedMessage], list[ConsumedMessage]], problem: str
) -> None:
    assert problem in case.problems(dead_letters=_corrupt(case.dumps.dead_letters, _any, change))


def test_the_smallest_change_of_a_sum_is_found(case: Case) -> None:
    def increase(message: ConsumedMessage) -> list[ConsumedMessage]:
        snapshot = json.loads(message.value or b"")
        sums = snapshot["buckets"][""]["sums"]
        sums[next(index for index, value in enumerate(sums) if value)] += 1
        return [replace(message, value=json.dumps(snapshot).encode())]

    problems = case.problems(
        state=_corrupt(case.dumps.state, lambda message: b"stats" in (message.key or b""), increase)
    )
    assert "one pass gives" in problems
    assert "not those of one pass" in problems


def test_a_position_before_the_end_and_lost_statistics_are_found(case: Case) -> None:
    behind = _corrupt(
        case.dumps.state,
        lambda message: message.key == to_position_key(1),
        lambda message: [replace(message, value=to_position_value(MESSAGES // 2 - 1))],
    )
    assert "the input ends at" in case.problems(state=behind)
    lost = _corrupt(case.dumps.state, lambda message: b"news" in (message.key or b""), lambda _: [])
    problems = case.problems(state=lost)
    assert "one pass gives" in problems or "not those of one pass" in problems


def test_a_lost_acknowledged_message_is_found(case: Case) -> None:
    assert "are not in the input" in case.problems(
        sentences=replace(case.dumps.sentences, messages=case.dumps.sentences.messages[1:])
    )


def test_a_stall_is_the_longest_time_without_a_commit_while_there_are_messages() -> None:
    arrived = (1000, 2000, 50_000)
    sentences = TopicDump(
        tuple(
            ConsumedMessage("in", 0, offset, None, b"", (), timestamp_ms) for offset, timestamp_ms in enumerate(arrived)
        ),
        {0: len(arrived)},
    )
    assert find_longest_stall(sentences, {0: [(1500, 1), (9500, 2), (50_100, 3)]})[:2] == (7.5, 0)
    assert find_longest_stall(sentences, {0: [(1500, 1), (2100, 2), (53_000, 3)]}).seconds == 3.0
    assert find_longest_stall(sentences, {0: [(1500, 1), (9500, 2)]}, [(0, 4000), (9000, 20_000)]).seconds == 5.0


@pytest.mark.parametrize("profile", [*SHORT_PROFILES.values(), *LONG_PROFILES.values()])
def test_a_plan_follows_from_its_seed(profile: RunProfile) -> None:
    faults = plan_faults(3, profile)
    assert faults == plan_faults(3, profile) != plan_faults(4, profile)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert {kind: sum(fault.kind is kind for fault in faults) for kind in profile.faults} == profile.faults
    for fault in faults:
        assert 0 <= fault.at <= profile.window
        brokers = fault.kind in BROKER_FAULTS | NETWORK_FAULTS
        assert fault.target in (range(1, profile.brokers + 1) if brokers else range(N_WORKERS))
        assert (fault.jump != 0) == (fault.kind is FaultKind.CLOCK)
        if fault.kind is FaultKind.FREEZE:
            assert fault.seconds * 1000 > max(profile.timeouts.poll, profile.timeouts.session)


def test_lost_and_changed_sums_of_annotators_are_found(case: Case) -> None:
    def is_annotator(message: ConsumedMessage) -> bool:
        return (message.key or b"").startswith(b'["annotator"')

    for state in (
        _corrupt(case.dumps.state, is_annotator, lambda _: []),
        _corrupt(case.dumps.state, is_annotator, _edit("sentences", 1_000)),
    ):
        assert "the sums of annotators" in case.problems(state=state)
