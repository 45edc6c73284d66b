"""When decisions settle an item: the overlap, disagreement, adjudication, and who may decide."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from service.contracts import Decision
from service.errors import ConflictError, InvalidInput
from service.review.items import MAX_SHOWN_DECISIONS, ReviewItem
from service.review.settlement import MAX_REVIEWERS_PER_ITEM, check_reviewer, settle
from tests.support.review_queue import MODEL, NOW

LEFT, RIGHT = ("O", "B-LOC", "O"), ("O", "B-ORG", "O")


def make_decision(reviewer: str, verdict: str = "error", **fields: Any) -> Decision:
    about = {"id": "a", "reviewer": reviewer, "verdict": verdict, "decided_at": NOW, **fields}
    return Decision.model_validate(about)


def make_item(*decisions: Decision, state: str = "open", **fields: Any) -> ReviewItem:
    return ReviewItem.model_validate(
        {
            "dataset": "default",
            "id": "a",
            "revision": 0,
            "state": state,
            "rank": 0.1,
            "tokens": ("a", "b", "c"),
            "labels": ("O", "B-PER", "O"),
            "model": MODEL,
            "method": "worst-token",
            "token_score": "self-confidence",
            "decisions": [decision.model_dump() for decision in decisions],
            "decision_count": len(decisions),
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("decisions", "overlap", "state", "counted"),
    [
        ([], 1, "open", []),
        ([("ann", "unsure", {})], 1, "decided", ["ann"]),
        ([("ann", "ok", {}), ("bob", "error", {})], 1, "decided", ["ann", "bob"]),
        ([("ann", "ok", {})], 2, "open", []),
        ([("ann", "ok", {}), ("bob", "ok", {})], 2, "decided", ["ann", "bob"]),
        ([("ann", "ok", {}), ("bob", "ok", {})], 3, "open", []),
        ([("ann", "ok", {}), ("bob", "error", {})], 2, "adjudication", []),
        ([("ann", "ok", {}), ("bob", "unsure", {})], 2, "adjudication", []),
        ([("ann", "unsure", {}), ("bob", "unsure", {})], 2, "adjudication", []),
        ([("ann", "error", {"labels": LEFT}), ("bob", "error", {"labels": LEFT})], 2, "decided", ["ann", "bob"]),
        ([("ann", "error", {"labels": LEFT}), ("bob", "error", {"labels": RIGHT})], 2, "adjudication", []),
        ([("ann", "error", {"labels": LEFT}), ("bob", "error", {})], 2, "decided", ["ann", "bob"]),
        ([("ann", "error", {"words": (1, 0)}), ("bob", "error", {"words": (0, 1)})], 2, "decided", ["ann", "bob"]),
        ([("ann", "error", {"words": (1,)}), ("bob", "error", {"words": (0,)})], 2, "adjudication", []),
        ([("ann", "ok", {}), ("bob", "ok", {}), ("cyd", "error", {})], 2, "adjudication", []),
    ],
)
def test_the_overlap_says_when_an_item_is_settled(
    decisions: list[tuple[str, str, dict[str, Any]]], overlap: int, state: str, counted: list[str]
) -> None:
    settlement = settle([make_decision(name, verdict, **more) for name, verdict, more in decisions], overlap)
    assert (settlement.state, [each.reviewer for each in settlement.counted]) == (state, counted)


def test_an_adjudication_counts_in_place_of_all_others() -> None:
    ann, bob = make_decision("ann", "ok"), make_decision("bob", "error")
    first = make_decision("cyd", "ok", adjudication=True)
    last = make_decision("bob", "error", adjudication=True, decided_at=NOW + timedelta(seconds=1))
    unsure = make_decision("dan", "unsure", adjudication=True, decided_at=NOW + timedelta(seconds=2))
    undated = make_decision("eve", "error", adjudication=True, decided_at=None)
    for overlap in (1, 2, 5):
        assert settle([ann, bob, first], overlap) == ("decided", (first,))
        assert settle([first, ann, unsure, bob, last, undated], overlap) == ("decided", (last,))
    assert settle([ann, bob, unsure], 2) == ("adjudication", ())


def test_of_too_many_reviewers_the_first_to_decide_count() -> None:
    """A later decision never displaces an earlier one, whatever the names are."""
    early = [make_decision(f"z{number:02}", "ok") for number in range(MAX_REVIEWERS_PER_ITEM)]
    late = [make_decision(f"a{number:02}", "error", decided_at=NOW + timedelta(seconds=1)) for number in range(30)]
    assert settle([*late, *reversed(early)], 1).counted == tuple(early)


def test_of_too_many_reviewers_at_the_same_time_the_first_by_name_count() -> None:
    names = [f"r{number:03}" for number in range(2 * MAX_REVIEWERS_PER_ITEM)]
    settlement = settle([make_decision(name, "ok") for name in reversed(names)], 1)
    assert [each.reviewer for each in settlement.counted] == names[:MAX_REVIEWERS_PER_ITEM]


def test_of_too_many_adjudications_the_last_counts() -> None:
    names = [f"r{number:03}" for number in range(2 * MAX_REVIEWERS_PER_ITEM)]
    adjudications = [
        make_decision(name, adjudication=True, decided_at=NOW + timedelta(seconds=second))
        for second, name in enumerate(names)
    ]
    assert settle(adjudications, 2).counted == (adjudications[-1],)


# -- who may decide ----------------------------------------------------------------------------------------------------


def test_anyone_may_decide_about_an_open_item_and_change_the_own_decision() -> None:
    ann = make_decision("ann", "ok")
    check_reviewer(make_item(overlap=2), ann)
    check_reviewer(make_item(ann, state="decided"), make_decision("bob"))  # a second opinion, with an overlap of 1
    check_reviewer(make_item(ann, make_decision("bob"), state="adjudication", overlap=2), ann)


@pytest.mark.parametrize("state", ["adjudication", "decided"])
def test_an_item_with_all_its_decisions_takes_no_more(state: str) -> None:
    item = make_item(make_decision("ann", "ok"), make_decision("bob"), state=state, overlap=2)
    with pytest.raises(ConflictError, match="has its 2 decisions: send `adjudication` true"):
        check_reviewer(item, make_decision("cyd"))
    check_reviewer(item, make_decision("cyd", adjudication=True))
    check_reviewer(item, make_decision("cyd", withdrawn=True))


def test_who_has_decided_does_not_adjudicate() -> None:
    item = make_item(make_decision("ann", "ok"), make_decision("bob"), state="adjudication", overlap=2)
    own = make_decision("ann", adjudication=True)
    with pytest.raises(ConflictError, match="'ann' has decided about it") as error:
        check_reviewer(item, own)
    assert error.value.field == "adjudication"
    check_reviewer(item, own, may_adjudicate_own=True)


def test_an_adjudication_needs_a_verdict_and_all_decisions() -> None:
    with pytest.raises(InvalidInput, match="decide error or ok"):
        check_reviewer(make_item(state="adjudication"), make_decision("cyd", "unsure", adjudication=True))
    with pytest.raises(ConflictError, match="has 1 of 2 decisions"):
        check_reviewer(make_item(decision_count=1, overlap=2), make_decision("cyd", adjudication=True))


def test_reviewers_per_item_are_limited() -> None:
    shown = [make_decision(f"r{number:03}", "ok") for number in range(MAX_SHOWN_DECISIONS)]
    item = make_item(*shown, state="decided", decision_count=MAX_REVIEWERS_PER_ITEM)
    with pytest.raises(ConflictError, match=f"{MAX_REVIEWERS_PER_ITEM} reviewers have decided"):
        check_reviewer(item, make_decision("zoe"))
    check_reviewer(item, make_decision("r003"))
