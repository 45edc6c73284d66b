"""One rule for newest revisions, deletions and decisions in force: in memory, and in the tables of the queue."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import Assessment, LabelledSentence, PlatformTask
from service.log.protocol import Output
from service.review.decisions import compute_majority_verdict, resolve_decisions
from service.review.messages import encode_decision_key, iterate_assessments, iterate_decisions
from service.review.queue.queue import ReviewQueue
from service.review.review_state import (
    NewestRevisions,
    ReviewState,
    is_deleted_with_task,
    is_task_deletion,
    supersedes,
)
from tests.support.review_queue import (
    NOW,
    TOPICS,
    MemoryLog,
    QueueHarness,
    make_assessment,
    make_decision_output,
    make_review_output,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import Decision

DATASETS = ("default", "trips")
TASKS = ("7", "8")
REVIEWERS = ("ann", "bob")
SENTENCE_IDS = ("a", "b")
TASK_IDS = tuple(f"label-studio:task:{task}" for task in TASKS)
ALL_IDS = (*SENTENCE_IDS, *TASK_IDS)

# Few keys, so that messages of one history are often about the same sentence.
datasets = st.sampled_from(("default", "default", "default", "trips"))
sentence_ids = st.sampled_from(("a", "a", "b"))
revisions = st.integers(0, 2)


@st.composite
def annotation_outputs(draw: st.DrawFn) -> Output:
    number: str | int | bool | None = draw(st.sampled_from((*TASKS, 7, True, None)))
    reason = draw(st.sampled_from(("flagged", "control", "update", "deleted")))
    assessment = make_assessment(
        draw(sentence_ids),
        dataset=draw(datasets),
        revision=draw(revisions),
        labels=("O", draw(st.sampled_from(("B-PER", "B-LOC"))), "O"),
        reason=reason,
        update=reason == "update",
        meta={"format": "label-studio", "task": number},
    )
    return make_review_output(assessment)


@st.composite
def task_deletion_outputs(draw: st.DrawFn) -> Output:
    task = draw(st.sampled_from(TASKS))
    assessment = make_assessment(
        f"label-studio:task:{task}",
        dataset=draw(datasets),
        revision=draw(revisions),
        reason="deleted",
        meta={"format": "label-studio", "task": task},
    )
    return make_review_output(assessment)


@st.composite
def decision_outputs(draw: st.DrawFn) -> Output:
    verdict = draw(st.sampled_from(("error", "ok", "unsure")))
    corrections = (None, ("O", "B-LOC", "O"), ("O", "O", "O"))
    return make_decision_output(
        draw(sentence_ids),
        verdict,
        dataset=draw(datasets),
        reviewer=draw(st.sampled_from(REVIEWERS)),
        revision=draw(revisions),
        withdrawn=draw(st.sampled_from((False, False, True))),
        labels=draw(st.sampled_from(corrections)) if verdict == "error" else None,
    )


erased_assessments = st.builds(
    lambda dataset, sentence_id: Output(TOPICS.review, f"{dataset}/{sentence_id}".encode(), None),
    datasets,
    st.sampled_from(ALL_IDS),
)
erased_decisions = st.builds(
    lambda dataset, sentence_id, reviewer: Output(
        TOPICS.decisions, encode_decision_key(dataset, sentence_id, reviewer), None
    ),
    datasets,
    sentence_ids,
    st.sampled_from(REVIEWERS),
)
unreadable_records = st.sampled_from((TOPICS.review, TOPICS.decisions)).map(
    lambda topic: Output(topic, b"default/a", b"{")
)
histories = st.lists(
    st.one_of(
        annotation_outputs(),
        task_deletion_outputs(),
        decision_outputs(),
        erased_assessments,
        erased_decisions,
        unreadable_records,
    ),
    min_size=10,
    max_size=40,
)


def read_state(log: MemoryLog) -> ReviewState[Assessment]:
    state: ReviewState[Assessment] = ReviewState()
    for assessment in iterate_assessments(record for record in log.records if record.topic == TOPICS.review):
        state.apply_assessment(assessment)
    for decision in iterate_decisions(record for record in log.records if record.topic == TOPICS.decisions):
        state.apply_decision(decision)
    return state


def describe_decisions(decisions: Iterable[Decision]) -> list[str]:
    return [decision.model_dump_json(exclude={"shown"}) for decision in decisions]


@settings(max_examples=100, deadline=None)
@given(outputs=histories, seed=st.integers(0, 5), batch_size=st.integers(1, 40))
def test_the_queue_and_the_state_in_memory_agree(outputs: list[Output], seed: int, batch_size: int) -> None:
    log = MemoryLog()
    log.append(outputs)
    state = read_state(log)
    with closing(QueueHarness(log.reader(seed=seed, most=batch_size), ReviewQueue(":memory:"))) as harness:
        harness.catch_up()
        for dataset in DATASETS:
            assert harness.queue.get_revisions(dataset, ALL_IDS) == {
                sentence_id: revision
                for sentence_id in ALL_IDS
                if (revision := state.sentences.get_revision(dataset, sentence_id)) is not None
            }
            for sentence_id in ALL_IDS:
                item = harness.queue.get_item(dataset, sentence_id, now=NOW)
                assert (None if item is None else item.state) == state.get_state(dataset, sentence_id)
                if item is None:
                    continue
                assessment = state.sentences.get(dataset, sentence_id)
                assert assessment is not None
                assert item.labels == assessment.labels
                decisions = state.get_decisions(assessment)
                assert describe_decisions(item.decisions) == describe_decisions(decisions)
                assert read_verdict(harness.queue, assessment) == (
                    None if assessment.reason in ("update", "deleted") else compute_majority_verdict(decisions)
                )


def read_verdict(queue: ReviewQueue, assessment: Assessment) -> str | None:
    query = "SELECT verdict FROM outcomes WHERE dataset = ? AND id = ? AND revision = ?"
    with queue.file.read_transaction() as db:
        row = db.execute(query, (assessment.dataset, assessment.id, assessment.revision)).fetchone()
    return None if row is None else str(row[0])


# -- the rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revision", "held", "expected"), [(0, None, True), (1, 0, True), (1, 1, True), (0, 1, False), (-5, -4, False)]
)
def test_the_highest_revision_counts_and_of_equal_ones_the_last(
    revision: int, held: int | None, expected: bool
) -> None:
    assert supersedes(revision, held) is expected


@pytest.mark.parametrize(
    ("revision", "deleted_at", "expected"), [(1, None, False), (1, 1, True), (1, 2, True), (2, 1, False)]
)
def test_a_deleted_task_covers_the_revisions_up_to_its_own(
    revision: int, deleted_at: int | None, expected: bool
) -> None:
    assert is_deleted_with_task(revision, deleted_at) is expected


@pytest.mark.parametrize(
    ("meta", "task"),
    [
        (None, None),
        ({"format": "label-studio"}, None),
        ({"task": "7"}, None),
        ({"format": 3, "task": "7"}, None),
        ({"format": "label-studio", "task": True}, None),
        ({"format": "label-studio", "task": "7"}, PlatformTask("label-studio", "7")),
        ({"format": "label-studio", "task": 7}, PlatformTask("label-studio", "7")),
        ({"format": "argilla", "record": "rec-1"}, PlatformTask("argilla", "rec-1")),
    ],
)
def test_the_task_of_a_sentence(meta: dict[str, object] | None, task: PlatformTask | None) -> None:
    sentence = LabelledSentence.model_validate({"tokens": ["a"], "labels": ["O"], "meta": meta})
    assert PlatformTask.from_sentence(sentence) == task
    if task is not None:
        assert PlatformTask.from_deletion_id(task.deletion_id) == task


def test_only_the_deletion_that_names_its_own_task_is_one_of_a_task() -> None:
    about = {"format": "label-studio", "task": "7"}
    deletion = make_assessment("label-studio:task:7", reason="deleted", meta=about)
    assert is_task_deletion(deletion)
    assert not is_task_deletion(deletion.model_copy(update={"deleted": False}))
    assert not is_task_deletion(deletion.model_copy(update={"id": "label-studio:task:8"}))
    assert not is_task_deletion(deletion.model_copy(update={"meta": None}))


def test_sentences_stay_in_the_order_of_their_first_arrival() -> None:
    newest: NewestRevisions[Assessment] = NewestRevisions()
    for sentence_id, revision in (("b", 0), ("a", 0), ("b", 2), ("b", 1)):
        newest.apply(make_assessment(sentence_id, revision=revision))
    assert [(sentence.id, sentence.revision) for sentence in newest] == [("b", 2), ("a", 0)]


def test_a_correction_counts_where_everybody_who_corrects_agrees() -> None:
    state: ReviewState[Assessment] = ReviewState()
    sentence = make_assessment("a")
    state.apply_assessment(sentence)

    def decide(reviewer: str, verdict: str, labels: tuple[str, ...] | None = None) -> None:
        output = make_decision_output("a", verdict, reviewer=reviewer, labels=labels)
        log = MemoryLog()
        log.append([output])
        for decision in iterate_decisions(log.records):
            state.apply_decision(decision)

    def resolve() -> tuple[str, tuple[str, ...] | None]:
        return resolve_decisions(state.get_decisions(sentence), 3)

    assert resolve() == ("open", None)
    decide("ann", "unsure")
    assert resolve() == ("open", None)
    decide("ann", "error")
    assert resolve() == ("uncorrected", None)
    decide("ann", "error", ("O", "B-LOC"))  # of another length: another program wrote it
    assert resolve() == ("uncorrected", None)
    decide("ann", "error", ("O", "B-LOC", "O"))
    assert resolve() == ("corrected", ("O", "B-LOC", "O"))
    decide("bob", "ok", ("O", "B-PER", "O"))
    assert resolve() == ("differ", None)
    decide("bob", "error", ("O", "O", "O"))
    assert resolve() == ("differ", None)
    decide("bob", "error", ("O", "B-LOC", "O"))
    assert resolve() == ("corrected", ("O", "B-LOC", "O"))
