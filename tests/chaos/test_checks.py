"""The checks of the chaos tests must see each fault they are there for: topics that are right, then spoilt one by one."""

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
from tests.chaos.messages import DATASETS, MAX_WORDS, GeneratedMessage, generate_messages
from tests.chaos.plan import BROKER_FAULTS, LONG_PROFILES, N_WORKERS, SHORT_PROFILES, FaultKind, plan_faults
from tests.chaos.reading import ConsumedMessage, TopicDump
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.plan import RunProfile

TOPICS = Topics()
N = 400
PARTITIONS = 2


class Case(NamedTuple):
    checker: TopicChecker
    made: dict[int, GeneratedMessage]
    logs: TopicDumps

    def problems(self, **changed: TopicDump) -> str:
        found = self.checker.check(replace(self.logs, **changed), self.made, self.made)
        return "\n".join(found)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """What a worker that nothing happens to makes of messages in two partitions."""
    folder = make_model(tmp_path_factory.mktemp("tiny"), "wordpiece", poison="fails", manifest={"invariant": "exact"})
    classifier = Classifier(ModelFolder.load(folder))
    made = list(itertools.islice(generate_messages(1, classifier), N))
    sent: dict[int, list[Record]] = {0: [], 1: []}
    for one in made:
        partition = one.serial % PARTITIONS
        offset = len(sent[partition])
        sent[partition].append(Record(TOPICS.sentences, partition, offset, one.key, one.value, one.headers, 1000))
    datasets = DatasetRegistry(classifier.folder, min_words=1, prior_words=0)
    for settings in DATASETS:
        datasets.put(settings)
    assessor = BatchProcessor(classifier, datasets, TOPICS, max_words=MAX_WORDS, publish_scores=True)
    work, _ = assessor.process(RecordBatch(sent), StateSnapshot())
    state = [
        Output(TOPICS.state, key, value, partition=partition)
        for partition, values in work.state.items()
        for key, value in {**values, to_position_key(partition): to_position_value(len(sent[partition]))}.items()
    ]
    outputs = [*work.outputs, *state]
    logs = TopicDumps(
        TopicDump(tuple(_message(record) for records in sent.values() for record in records), {0: N // 2, 1: N // 2}),
        *(_topic(outputs, name) for name in (TOPICS.review, TOPICS.scores, TOPICS.dead_letters, TOPICS.state)),
    )
    return Case(TopicChecker(classifier, min_words=1, prior_words=0), {one.serial: one for one in made}, logs)


def _message(record: Record) -> ConsumedMessage:
    return ConsumedMessage(
        record.topic, record.partition, record.offset, record.key, record.value, record.headers, record.timestamp_ms
    )


def _topic(outputs: list[Output], name: str) -> TopicDump:
    chosen = [output for output in outputs if output.topic == name]
    messages = [
        ConsumedMessage(name, output.partition or 0, offset, output.key, output.value, output.headers, 1000)
        for offset, output in enumerate(chosen)
    ]
    return TopicDump(tuple(messages), {})


def _spoilt(
    topic: TopicDump,
    choose: Callable[[ConsumedMessage], bool],
    change: Callable[[ConsumedMessage], list[ConsumedMessage]],
) -> TopicDump:
    """The first message that is chosen, changed."""
    at = next(index for index, message in enumerate(topic.messages) if choose(message))
    return replace(topic, messages=(*topic.messages[:at], *change(topic.messages[at]), *topic.messages[at + 1 :]))


def _any(_: ConsumedMessage) -> bool:
    return True


def _edited(field: str, value: object) -> Callable[[ConsumedMessage], list[ConsumedMessage]]:
    return lambda message: [
        replace(message, value=json.dumps({**json.loads(message.value or b""), field: value}).encode())
    ]


def _because(reason: str) -> Callable[[ConsumedMessage], bool]:
    return lambda message: json.loads(message.value or b"")["reason"] == reason


def test_what_an_undisturbed_worker_writes_is_right(case: Case) -> None:
    assert case.problems() == ""
    reasons = {json.loads(message.value or b"")["reason"] for message in case.logs.scores.messages}
    assert reasons == {"flagged", "update", "deleted", "control", "scored"}
    stages = {one.stage for one in case.made.values()}
    assert stages == {None, "decode", "validate", "labels", "too_long", "inference"}
    assert len(case.logs.review.messages) < len(case.logs.scores.messages) / 2 < N / 2


@pytest.mark.parametrize("name", ["review", "scores", "dead_letters"])
def test_doubled_and_missing_messages_are_seen(case: Case, name: str) -> None:
    topic = getattr(case.logs, name)
    said = name.replace("_", " ")
    assert f"{said} holds more than once" in case.problems(**{name: _spoilt(topic, _any, lambda one: [one, one])})
    assert f"{said} lacks" in case.problems(**{name: _spoilt(topic, _any, lambda _: [])})


def test_a_quiet_sentence_in_the_review_topic_is_seen(case: Case) -> None:
    quiet = next(message for message in case.logs.scores.messages if _because("scored")(message))
    review = replace(case.logs.review, messages=(*case.logs.review.messages, quiet))
    assert "review holds what does not belong there" in case.problems(review=review)


@pytest.mark.parametrize(
    ("reason", "field", "value", "told"),
    [
        ("flagged", "flags", [], "judged again"),
        ("flagged", "thresholds", {}, "judged again"),
        ("flagged", "labels", ["O"], "other labels"),
        ("scored", "reason", "flagged", "must say scored"),
        ("update", "reason", "scored", "must say update"),
        ("control", "reason", "scored", "must say control"),
        ("deleted", "reason", "update", "is deleted"),
        ("flagged", "id", "another", "is assessed as"),
    ],
)
def test_an_assessment_that_does_not_follow_is_seen(
    case: Case, reason: str, field: str, value: object, told: str
) -> None:
    scores = _spoilt(case.logs.scores, _because(reason), _edited(field, value))
    assert told in case.problems(scores=scores)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: [replace(one, value=(one.value or b"") + b" ")], "byte for byte"),
        (lambda one: [replace(one, key=b"other")], "byte for byte"),
        (lambda one: [replace(one, headers=(("serial", b"x"), *one.headers[1:]))], "byte for byte"),
    ],
)
def test_a_changed_dead_letter_is_seen(
    case: Case, change: Callable[[ConsumedMessage], list[ConsumedMessage]], told: str
) -> None:
    assert told in case.problems(dead_letters=_spoilt(case.logs.dead_letters, _any, change))


def test_one_part_in_a_sum_is_seen(case: Case) -> None:
    def more(message: ConsumedMessage) -> list[ConsumedMessage]:
        snapshot = json.loads(message.value or b"")
        sums = snapshot["buckets"][""]["sums"]
        sums[next(k for k, value in enumerate(sums) if value)] += 1
        return [replace(message, value=json.dumps(snapshot).encode())]

    problems = case.problems(state=_spoilt(case.logs.state, lambda one: b"stats" in (one.key or b""), more))
    assert "where one pass gives" in problems
    assert "not those of one pass" in problems


def test_a_position_before_the_end_and_lost_statistics_are_seen(case: Case) -> None:
    behind = _spoilt(
        case.logs.state,
        lambda one: one.key == to_position_key(1),
        lambda one: [replace(one, value=to_position_value(N // 2 - 1))],
    )
    assert "the input ends at" in case.problems(state=behind)
    lost = _spoilt(case.logs.state, lambda one: b"news" in (one.key or b""), lambda _: [])
    assert "of one pass" in case.problems(state=lost).replace("one pass gives", "of one pass")


def test_an_acknowledged_message_that_is_gone_is_seen(case: Case) -> None:
    assert "are not in the input" in case.problems(
        sentences=replace(case.logs.sentences, messages=case.logs.sentences.messages[1:])
    )


def test_a_standstill_is_the_longest_wait_with_something_to_read() -> None:
    arrived = (1000, 2000, 50_000)
    sentences = TopicDump(
        tuple(ConsumedMessage("in", 0, offset, None, b"", (), at) for offset, at in enumerate(arrived)),
        {0: len(arrived)},
    )
    assert find_longest_stall(sentences, {0: [(1500, 1), (9500, 2), (50_100, 3)]})[:2] == (7.5, 0)
    assert find_longest_stall(sentences, {0: [(1500, 1), (2100, 2), (53_000, 3)]}).seconds == 3.0
    assert find_longest_stall(sentences, {0: [(1500, 1), (9500, 2)]}, [(0, 4000), (9000, 20_000)]).seconds == 5.0


@pytest.mark.parametrize("shape", [*SHORT_PROFILES.values(), *LONG_PROFILES.values()])
def test_a_plan_follows_from_its_seed(shape: RunProfile) -> None:
    faults = plan_faults(3, shape)
    assert faults == plan_faults(3, shape) != plan_faults(4, shape)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert {kind: sum(fault.kind is kind for fault in faults) for kind in shape.faults} == shape.faults
    for fault in faults:
        assert 0 <= fault.at <= shape.window
        assert fault.target in (range(1, shape.brokers + 1) if fault.kind in BROKER_FAULTS else range(N_WORKERS))
        if fault.kind is FaultKind.FREEZE:
            assert fault.seconds * 1000 > max(shape.timeouts.poll, shape.timeouts.session)
