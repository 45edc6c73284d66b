"""Which decisions count for the agreement of reviewers."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from service.review.agreement import compare_answers, measure_agreement
from service.review.queue.figures import reviewer_agreement
from tests.support.review_queue import (
    TOPICS,
    decide_item,
    dump_rebuilt_queue,
    make_assessment,
    make_decision_output,
    make_review_output,
    make_scored_output,
    make_settings_output,
)

if TYPE_CHECKING:
    from tests.support.review_queue import QueueHarness

GIVEN, TOWN = ("O", "B-PER", "O"), ("O", "B-LOC", "O")


def decide(name: str, reviewer: str, verdict: str, **more: Any) -> Any:
    return make_decision_output(name, verdict, reviewer=reviewer, **more)


@pytest.fixture
def double(harness: QueueHarness) -> QueueHarness:
    harness.write(
        make_settings_output(name="default", overlap=2, version=1),
        *(make_scored_output(name, 0.1) for name in ("a", "b", "c", "d")),
    )
    return harness


def test_complete_items_count_with_the_labels_that_each_reviewer_finds_right(double: QueueHarness) -> None:
    double.write(
        decide("a", "ann", "ok"),
        decide("a", "bob", "error", labels=TOWN),
        decide("b", "ann", "error", labels=TOWN),
        decide("b", "cyd", "error", labels=TOWN),
        decide("c", "ann", "ok"),  # open: it is hidden
        decide("d", "ann", "error"),  # no corrected labels: no answer
        decide("d", "bob", "ok"),
        decide("a", "dan", "ok", adjudication=True),  # not independent
    )
    report = double.queue.build_agreement_report("default")
    assert (report.overlap, report.items, report.unanswered) == (2, 2, 1)
    differ, same = compare_answers(GIVEN, TOWN), compare_answers(TOWN, TOWN)
    assert report.overall == measure_agreement([[differ], [same]])
    assert {(pair.first, pair.second): (pair.items, pair.f1) for pair in report.pairs} == {
        ("ann", "bob"): (1, 0.0),
        ("ann", "cyd"): (1, 1.0),
    }
    figures = double.queue.measure_agreement("default")
    assert (figures.kappa, figures.kappa_low) == (report.overall.kappa, None)


def test_a_sentence_that_is_annotated_again_still_counts(double: QueueHarness) -> None:
    shown = make_assessment("a")
    about = {"shown": {"labels": GIVEN}}
    double.write(decide("a", "ann", "ok", **about), decide("a", "bob", "ok", **about))
    double.write(make_review_output(shown.model_copy(update={"revision": 1, "reason": "update", "update": True})))
    assert double.queue.build_agreement_report("default").items == 1
    double.write(decide("a", "bob", "ok", withdrawn=True, **about))
    assert double.queue.build_agreement_report("default").items == 0


def decide_as_api(harness: QueueHarness, name: str, reviewer: str, verdict: str, **more: Any) -> None:
    item = harness.queue.get_item("default", name, viewer=reviewer)
    assert item is not None
    harness.write(decide_item(item, verdict, reviewer=reviewer, **more))


def read_answers(harness: QueueHarness, name: str = "a") -> dict[str, list[str]]:
    with harness.queue.file.read_transaction() as db:
        rows = db.execute("SELECT reviewer, labels FROM answers WHERE id = ?", (name,)).fetchall()
    return {reviewer: json.loads(labels) for reviewer, labels in rows}


def test_a_decision_that_is_changed_when_others_are_shown_counts_as_it_was(double: QueueHarness) -> None:
    decide_as_api(double, "a", "ann", "error", labels=("O", "O", "O"))
    decide_as_api(double, "a", "ann", "ok")  # blind: the last answer counts
    decide_as_api(double, "a", "bob", "error", labels=TOWN)
    before = double.queue.build_agreement_report("default")
    assert (before.items, before.overall.f1) == (1, 0.0)
    for _ in range(2):
        decide_as_api(double, "a", "ann", "error", labels=TOWN)  # now they agree, and the item is decided
        item = double.queue.get_item("default", "a")
        assert item is not None
        assert (item.state, item.agreement) == ("decided", "agree")
        assert double.queue.build_agreement_report("default") == before
    assert read_answers(double) == {"ann": list(GIVEN), "bob": list(TOWN)}


def test_answers_that_are_withdrawn_or_given_again_when_others_are_shown_count_as_they_were(
    double: QueueHarness,
) -> None:
    decide_as_api(double, "a", "ann", "ok")
    decide_as_api(double, "a", "bob", "error", labels=TOWN)
    expected = {"ann": list(GIVEN), "bob": list(TOWN)}
    decide_as_api(double, "a", "ann", "ok", withdrawn=True)
    assert double.list_ids(state="open") == ["a", "b", "c", "d"]
    assert read_answers(double) == expected, "what did not suit must not disappear"
    decide_as_api(double, "a", "cyd", "error", labels=TOWN)  # cyd could see both answers before
    assert read_answers(double) == expected
    decide_as_api(double, "a", "bob", "error", withdrawn=True)
    decide_as_api(double, "a", "ann", "error", labels=TOWN)
    assert read_answers(double) == expected


def test_with_an_overlap_of_one_a_second_opinion_counts_as_it_was_given(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1))
    decide_as_api(harness, "a", "ann", "ok")
    decide_as_api(harness, "a", "bob", "error", labels=TOWN)
    decide_as_api(harness, "a", "ann", "error", labels=TOWN)
    assert read_answers(harness) == {"ann": list(GIVEN), "bob": list(TOWN)}


def test_with_an_overlap_of_one_second_opinions_count(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), decide("a", "ann", "ok"), decide("a", "bob", "error", labels=TOWN))
    assert harness.queue.build_agreement_report("default").overall.f1 == 0.0
    assert harness.queue.build_agreement_report("nobody").pairs == ()


def test_pairs_and_answers_are_bounded(double: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ann", "bob", "cyd", "dan")
    double.write(*(decide("a", name, "ok") for name in names), *(decide("b", name, "ok") for name in names[:2]))
    monkeypatch.setattr(reviewer_agreement, "MAX_PAIRS", 2)
    report = double.queue.build_agreement_report("default")
    assert [(pair.first, pair.second) for pair in report.pairs] == [("ann", "bob"), ("ann", "cyd")]
    assert report.more_pairs == len(list(combinations(names, 2))) - 2
    assert report.truncated is False
    monkeypatch.setattr(reviewer_agreement, "MAX_ANSWERS", 4)
    double.write(decide("b", "cyd", "unsure"))
    report = double.queue.build_agreement_report("default")
    assert (report.items, report.truncated) == (1, True)


def test_a_rebuilt_queue_has_the_same_agreement(double: QueueHarness) -> None:
    double.write(decide("a", "ann", "ok"), decide("a", "bob", "error", labels=TOWN))
    rebuilt = dump_rebuilt_queue(double.log.reader(seed=3, most=2), TOPICS)
    assert double.queue.build_agreement_report("default").model_dump_json() in rebuilt["agreement"]
