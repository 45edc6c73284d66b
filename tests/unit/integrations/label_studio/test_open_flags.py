"""The open flags of a project's tasks, from the records of the review and decision topics."""

from __future__ import annotations

from typing import Any

from service.contracts import Claim
from service.integrations.label_studio.open_flags import TaskState
from service.log.protocol import Output, Record
from service.review.messages import build_claim_message
from tests.unit.integrations.label_studio.review_messages import (
    TOPICS,
    make_decision,
    make_flagged,
    make_task_deletion,
)


def to_records(*messages: Output) -> list[Record]:
    return [
        Record(message.topic, 0, offset, message.key, message.value, message.headers)
        for offset, message in enumerate(messages)
    ]


def test_other_decisions_and_claims_are_left_alone() -> None:
    task_state = TaskState(3, "trips")
    task_state.apply_assessments([Record(TOPICS.review, 0, 0, None, make_flagged().value)])
    claim = build_claim_message(TOPICS, Claim(dataset="trips", id="label-studio:41", reviewer="kim"))
    other_dataset = make_decision("ok", dataset="others")
    elsewhere = (other_dataset.key, other_dataset.value)
    unread = (b"trips/label-studio:41/kim", b"not json")
    for key, value in ((claim.key, claim.value), elsewhere, unread, (b"odd", b"{}"), (None, None)):
        assert task_state.apply_decisions([Record(TOPICS.decisions, 0, 0, key, value)]) == []
    unknown = make_decision("ok", number=99)
    assert task_state.apply_decisions([Record(TOPICS.decisions, 0, 0, unknown.key, unknown.value)]) == []
    assert len(task_state.list_open_flags(7)) == 1


def test_with_an_overlap_only_settled_decisions_count() -> None:
    task_state = TaskState(3, "trips", {"trips": 2})
    task_state.apply_assessments(to_records(make_flagged()))

    def decide(*messages: Output) -> list[bool]:
        task_state.apply_decisions(to_records(*messages))
        return [flag.confirmed for flag in task_state.list_open_flags(7)]

    assert decide(make_decision("ok")) == [False]  # one of two
    assert decide(make_decision("error", reviewer="lee")) == [False]  # they differ
    assert decide(make_decision("error", reviewer="mia", adjudication=True)) == [True]
    assert decide(make_decision("ok", reviewer="mia", adjudication=True)) == []


def test_an_older_revision_that_arrives_late_changes_nothing() -> None:
    task_state = TaskState(3, None)
    older = make_flagged(flags=(), suspects=(), reason="update", revision=0)
    assert task_state.apply_assessments(to_records(make_flagged(), older)) == [7]
    assert [flag.assessment.revision for flag in task_state.list_open_flags(7)] == [1]


def test_an_older_revision_that_arrives_after_the_deletion_changes_nothing() -> None:
    """Although the deletion does not name its task."""
    task_state = TaskState(3, None)
    bare: dict[str, Any] = {"flags": (), "suspects": (), "tokens": (), "labels": (), "meta": {"format": "label-studio"}}
    deleted = make_flagged(revision=5, deleted=True, reason="deleted", **bare)
    task_state.apply_assessments(to_records(deleted, make_flagged()))
    assert task_state.deleted_ids == {"label-studio:41"}
    assert task_state.list_open_flags(7) == []


def test_an_erased_task_deletion_opens_the_flags_again() -> None:
    """As in the review queue: nothing is left of the deletion."""
    task_state = TaskState(3, None)
    assert task_state.apply_assessments(to_records(make_flagged(), make_task_deletion(7))) == [7]
    assert task_state.list_open_flags(7) == []
    erased = Output(TOPICS.review, b"trips/label-studio:task:7", None)
    assert task_state.apply_assessments(to_records(erased)) == [7]
    assert len(task_state.list_open_flags(7)) == 1


def test_a_task_deletion_of_another_dataset_changes_nothing() -> None:
    task_state = TaskState(3, "trips")
    task_state.apply_assessments(to_records(make_flagged()))
    erased = Output(TOPICS.review, b"others/label-studio:task:7", None)
    assert task_state.apply_assessments(to_records(erased)) == []
    assert len(task_state.list_open_flags(7)) == 1
