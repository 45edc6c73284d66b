"""Decisions about many items: what each item gets, and which items are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import Claim, Decision, EntitySpan, Flag, SuspectSpan
from service.labels import LabelMap, Scheme
from service.review.bulk import BulkScope, LeftOut, PlannedDecision, find_obstacle, plan_decision
from service.review.messages import build_claim_message
from service.review.suggested_labels import accept_suggestions
from tests.support.review_queue import (
    NOW,
    TOPICS,
    QueueHarness,
    decide_item,
    make_assessment,
    make_review_output,
    make_settings_output,
    minutes_after_now,
)

if TYPE_CHECKING:
    from service.review.bulk import BulkAction
    from service.review.items import ReviewItem

NAMED = BulkScope(named=True)
FILTERED = BulkScope(named=False)


def build_label_map(scheme: Scheme = Scheme.IOB2) -> LabelMap:
    return LabelMap.build(
        ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"],
        model_scheme=Scheme.IOB2,
        dataset_labels=None,
        dataset_scheme=scheme,
    )


def make_flag(index: int, given: str, suggested: str) -> Flag:
    return Flag(
        index=index,
        token=f"word{index}",
        given=given,
        suggested=suggested,
        p_given=0.1,
        p_suggested=0.9,
        threshold=0.5,
    )


def make_suspect(kind: str, given: tuple[int, int, str] | None, suggested: tuple[int, int, str] | None) -> SuspectSpan:
    spans = [
        None if span is None else EntitySpan(start=span[0], end=span[1], type=span[2]) for span in (given, suggested)
    ]
    return SuspectSpan.model_validate(
        {"kind": kind, "given_span": spans[0], "suggested_span": spans[1], "confidence": 0.9}
    )


def put_item(harness: QueueHarness, sentence_id: str = "1", **fields: Any) -> ReviewItem:
    harness.write(make_review_output(make_assessment(sentence_id, **fields)))
    return harness.get_item(sentence_id)


def put_retyped_item(harness: QueueHarness, sentence_id: str = "1", **fields: Any) -> ReviewItem:
    """LOC that should be ORG, in two words."""
    return put_item(
        harness,
        sentence_id,
        p=(0.1, 0.2, 0.9),
        labels=("B-LOC", "I-LOC", "O"),
        flags=(make_flag(0, "B-LOC", "B-ORG"), make_flag(1, "I-LOC", "I-ORG")),
        suspects=(make_suspect("type", (0, 2, "LOC"), (0, 2, "ORG")),),
        **fields,
    )


def plan(item: ReviewItem, action: BulkAction, scope: BulkScope = NAMED) -> PlannedDecision | LeftOut:
    return plan_decision(item, action, scope, reviewer="ann", label_map=build_label_map(), now=NOW)


def plan_reason(item: ReviewItem, action: BulkAction, scope: BulkScope = NAMED) -> str:
    left_out = plan(item, action, scope)
    assert isinstance(left_out, LeftOut), left_out
    assert left_out.detail
    return left_out.reason


# -- the labels of an accepted item ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "labels", "suspects", "accepted"),
    [
        # A missed entity beside one that is kept as it is.
        (Scheme.IOB2, "B-PER O O", [("missed", None, (1, 3, "ORG"))], "B-PER B-ORG I-ORG"),
        # A spurious one.
        (Scheme.IOB2, "B-PER I-PER O", [("spurious", (0, 2, "PER"), None)], "O O O"),
        # One entity that is two: both suspects share it.
        (
            Scheme.IOB2,
            "B-ORG I-ORG I-ORG",
            [("type", (0, 3, "ORG"), (0, 2, "LOC")), ("boundary", (0, 3, "ORG"), (2, 3, "ORG"))],
            "B-LOC I-LOC B-ORG",
        ),
        # A longer entity takes in a neighbour that is in doubt as well.
        (
            Scheme.IOB2,
            "B-LOC B-ORG O",
            [("type", (0, 1, "LOC"), (0, 3, "ORG")), ("boundary", (1, 2, "ORG"), (0, 3, "ORG"))],
            "B-ORG I-ORG I-ORG",
        ),
        # The spelling of the sentence: E- and S- for L- and U-.
        (Scheme.BILUO, "S-PER O O", [("missed", None, (1, 3, "ORG"))], "S-PER B-ORG E-ORG"),
        (Scheme.IO, "I-PER O O", [("missed", None, (1, 3, "ORG"))], "I-PER I-ORG I-ORG"),
        # In IOB1 a neighbour of the same type needs a B-.
        (Scheme.IOB1, "O I-ORG O", [("missed", None, (0, 1, "ORG"))], "I-ORG B-ORG O"),
        # A label that breaks the scheme and is not in doubt stays as the annotator wrote it.
        (Scheme.IOB2, "I-PER O O", [("missed", None, (2, 3, "ORG"))], "I-PER O B-ORG"),
    ],
)
def test_accepting_writes_the_suggested_entities_in_the_scheme(
    harness: QueueHarness,
    scheme: Scheme,
    labels: str,
    suspects: list[tuple[str, tuple[int, int, str] | None, tuple[int, int, str] | None]],
    accepted: str,
) -> None:
    given = tuple(labels.split())
    spans = tuple(make_suspect(*suspect) for suspect in suspects)
    assessment = make_assessment("1").model_copy(
        update={"labels": given, "flags": (), "suspects": spans, "worst": None}
    )
    harness.write(make_review_output(assessment))
    assert accept_suggestions(harness.get_item("1"), scheme) == tuple(accepted.split())


def test_a_flagged_word_outside_of_every_entity_in_doubt_gets_its_label(harness: QueueHarness) -> None:
    item = put_item(harness, labels=("O", "I-PER", "O"), p=(0.9, 0.1, 0.9), flags=(make_flag(1, "I-PER", "B-PER"),))
    assert accept_suggestions(item, Scheme.IOB2) == ("O", "B-PER", "O")


# -- what an item gets -------------------------------------------------------------------------------------------------


def test_each_action_makes_the_decision_that_a_reviewer_would_make(harness: QueueHarness) -> None:
    item = put_retyped_item(harness)
    cases: list[tuple[BulkAction, str, tuple[str, ...] | None]] = [
        ("accept", "error", ("B-ORG", "I-ORG", "O")),
        ("ok", "ok", None),
        ("unsure", "unsure", None),
    ]
    for action, verdict, labels in cases:
        planned = plan(item, action)
        assert isinstance(planned, PlannedDecision)
        expected = {"dataset": "default", "id": "1", "reviewer": "ann", "verdict": verdict, "labels": labels}
        assert planned.decision == Decision.model_validate(expected)
        (doubt,) = planned.doubts
        assert (doubt.words, doubt.given, doubt.suggested) == (("word0", "word1"), "LOC", "ORG")


def test_items_of_others_and_items_that_are_done_are_left_out(harness: QueueHarness) -> None:
    decided = put_retyped_item(harness, "decided")
    harness.write(decide_item(decided, "ok", reviewer="bob"))
    assert plan_reason(harness.get_item("decided"), "accept") == "decided"
    harness.write(make_review_output(make_assessment("closed", reason="update")))
    assert plan_reason(harness.get_item("closed"), "ok") == "closed"
    put_retyped_item(harness, "claimed")
    claim = Claim(dataset="default", id="claimed", reviewer="bob", until=minutes_after_now(5))
    harness.write(build_claim_message(TOPICS, claim))
    assert plan_reason(harness.get_item("claimed"), "ok") == "claimed"
    own = Claim(dataset="default", id="own", reviewer="ann", until=minutes_after_now(5))
    put_retyped_item(harness, "own")
    harness.write(build_claim_message(TOPICS, own))
    assert isinstance(plan(harness.get_item("own"), "ok"), PlannedDecision)


def test_unsure_items_can_be_decided_together(harness: QueueHarness) -> None:
    item = put_retyped_item(harness)
    harness.write(decide_item(item, "unsure", reviewer="bob"), decide_item(item, "unsure"))
    assert isinstance(plan(harness.get_item("1"), "ok"), PlannedDecision)


def test_an_item_with_other_doubts_is_left_out(harness: QueueHarness) -> None:
    cell = BulkScope(named=False, given="LOC", suggested="ORG")
    assert isinstance(plan(put_retyped_item(harness), "accept", cell), PlannedDecision)
    in_full = BulkScope(named=False, given="B-LOC", suggested="B-ORG")
    assert isinstance(plan(harness.get_item("1"), "accept", in_full), PlannedDecision)
    two = put_item(
        harness,
        "2",
        p=(0.1, 0.2, 0.9),
        labels=("B-LOC", "B-PER", "O"),
        flags=(make_flag(0, "B-LOC", "B-ORG"), make_flag(1, "B-PER", "O")),
    )
    assert plan_reason(two, "accept", cell) == "other_doubts"
    assert plan_reason(two, "ok", cell) == "other_doubts"
    assert isinstance(plan(two, "unsure", cell), PlannedDecision)
    assert isinstance(plan(two, "accept"), PlannedDecision)
    missed = BulkScope(named=False, kind="missed")
    assert plan_reason(harness.get_item("1"), "accept", missed) == "other_doubts"


def test_items_of_a_control_sample_must_be_selected_one_by_one(harness: QueueHarness) -> None:
    """Decisions about sentences that nobody has looked at would falsify the recall. Flagged ones are left out as well, so
    that what is left out does not name the control sentences.
    """
    harness.write(make_settings_output(name="default", control_share=0.5, version=1))
    put_retyped_item(harness, "flagged")
    put_item(harness, "control", reason="control")
    for sentence_id in ("flagged", "control"):
        assert plan_reason(harness.get_item(sentence_id), "ok", FILTERED) == "control_sample"
        assert isinstance(plan(harness.get_item(sentence_id), "ok", NAMED), PlannedDecision)


def test_nothing_to_accept_and_labels_that_may_not_be_written(harness: QueueHarness) -> None:
    same = put_item(harness, flags=(), suspects=(), worst=None)
    assert plan_reason(same, "accept") == "no_suggestion"
    unknown = put_item(harness, "2", flags=(make_flag(1, "B-PER", "B-GHOST"),))
    left_out = plan(unknown, "accept")
    assert isinstance(left_out, LeftOut)
    assert left_out.reason == "invalid"
    assert "'B-GHOST' is not a label of default" in left_out.detail
    assert "GHOST" not in build_label_map().build_writer().types


# -- applying and undoing ----------------------------------------------------------------------------------------------


def test_a_decision_in_force_is_no_obstacle_to_itself(harness: QueueHarness) -> None:
    item = put_retyped_item(harness)
    planned = plan(item, "accept")
    assert isinstance(planned, PlannedDecision)
    decision = planned.decision
    harness.write(decide_item(item, "error", labels=decision.labels))
    assert find_obstacle(harness.get_item("1"), decision, label_map=None) is None
    other = decision.model_copy(update={"verdict": "ok", "labels": None})
    obstacle = find_obstacle(harness.get_item("1"), other, label_map=None)
    assert obstacle is not None
    assert obstacle.reason == "decided"


def test_undo_withdraws_the_decision_it_is_about_and_no_later_one(harness: QueueHarness) -> None:
    item = put_retyped_item(harness)
    undo = Decision(dataset="default", id="1", reviewer="ann", verdict="ok", decided_at=NOW, withdrawn=True)
    assert find_obstacle(item, undo, label_map=None) is None  # the queue has not read the decision yet
    harness.write(decide_item(item, "unsure", decided_at=minutes_after_now(-5)))
    assert find_obstacle(harness.get_item("1"), undo, label_map=None) is None  # it shows the one before
    harness.write(decide_item(item, "ok"))
    assert find_obstacle(harness.get_item("1"), undo, label_map=None) is None
    harness.write(decide_item(harness.get_item("1"), "unsure", decided_at=minutes_after_now(1)))
    obstacle = find_obstacle(harness.get_item("1"), undo, label_map=None)
    assert obstacle is not None
    assert obstacle.reason == "decided"
    without_time = undo.model_copy(update={"decided_at": None})
    assert find_obstacle(harness.get_item("1"), without_time, label_map=None) is None  # as a single one


def test_an_item_that_was_annotated_again_is_left_out(harness: QueueHarness) -> None:
    decision = Decision(dataset="default", id="1", revision=0, reviewer="ann", verdict="ok")
    again = put_retyped_item(harness, revision=1)
    for change in ({}, {"withdrawn": True}):
        obstacle = find_obstacle(again, decision.model_copy(update=change), label_map=None)
        assert obstacle is not None
        assert obstacle.reason == "changed"
