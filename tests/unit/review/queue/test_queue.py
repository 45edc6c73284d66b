from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import Because, Claim
from service.errors import InvalidInput
from service.log.protocol import Output
from service.review.messages import build_claim_message
from service.review.queue.figures.recall import RecallEstimate, estimate_recall
from service.review.queue.filters import QueuePosition, build_page_query
from service.review.queue.queue import QueueFilter, ReviewQueue
from tests.support.review_queue import (
    NOW,
    TOPICS,
    QueueHarness,
    make_assessment,
    make_decision_output,
    make_review_output,
    make_scored_output,
    make_settings_output,
    minutes_after_now,
)

if TYPE_CHECKING:
    import sqlite3

    from service.review.queue.criteria import Criterion


def claim(sentence_id: str, reviewer: str, minutes: float | None) -> Output:
    until = None if minutes is None else minutes_after_now(minutes)
    return build_claim_message(TOPICS, Claim(id=sentence_id, reviewer=reviewer, until=until))


# -- the newest revision -----------------------------------------------------------------------------------------------


def test_the_worst_comes_first(harness: QueueHarness) -> None:
    harness.write(make_scored_output("b", 0.2), make_scored_output("c", 0.3), make_scored_output("a", 0.1))
    assert harness.list_ids() == ["a", "b", "c"]
    page = harness.queue.get_page(QueueFilter(), limit=10, now=NOW)
    assert [item.rank for item in page.items] == [item.priority for item in page.items]
    assert page.next is None


def test_the_highest_revision_wins_whatever_arrives_last(harness: QueueHarness) -> None:
    harness.write(
        make_scored_output("a", 0.1, revision=5),
        make_scored_output("a", 0.4, revision=7),
        make_scored_output("a", 0.2, revision=6),
    )
    assert harness.get_item("a").revision == 7
    assert harness.list_ids() == ["a"]


def test_the_same_revision_sent_again_replaces(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), make_scored_output("a", 0.4))
    assert harness.get_item("a").score == 0.4


@pytest.mark.parametrize("reason", ["update", "deleted"])
def test_an_update_or_a_deletion_closes(harness: QueueHarness, reason: str) -> None:
    harness.write(
        make_scored_output("a", 0.1), make_review_output(make_assessment("a", reason=reason, revision=1, update=True))
    )
    assert harness.list_ids() == []
    assert harness.list_ids(state="closed") == ["a"]
    assert (harness.get_item("a").state, harness.get_item("a").closed_by) == ("closed", reason)
    assert harness.queue.count_items() == {"open": 0, "adjudication": 0, "decided": 0, "closed": 1}


def test_an_older_revision_does_not_open_an_item_that_an_update_closed(harness: QueueHarness) -> None:
    harness.write(
        make_review_output(make_assessment("a", reason="update", revision=2, update=True)),
        make_scored_output("a", 0.1, revision=1),
    )
    assert harness.get_item("a").state == "closed"


def test_a_new_revision_opens_again_and_old_decisions_do_not_count(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), make_decision_output("a", "ok"))
    assert harness.get_item("a").state == "decided"
    harness.write(make_scored_output("a", 0.2, revision=1))
    assert harness.get_item("a").state == "open"
    assert harness.get_item("a").decisions == ()
    harness.write(make_decision_output("a", "ok"))  # about revision 0 still
    assert harness.get_item("a").state == "open"
    harness.write(make_decision_output("a", "ok", revision=1))
    assert harness.get_item("a").state == "decided"


def test_a_decision_may_arrive_before_its_item(harness: QueueHarness) -> None:
    harness.write(make_decision_output("a", "error", revision=3))
    assert harness.queue.get_item("default", "a") is None
    harness.write(make_scored_output("a", 0.1, revision=3))
    assert harness.get_item("a").state == "decided"


def test_an_erased_item_is_removed(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a/b", 0.1), make_decision_output("a/b", "ok"))
    harness.write(Output(TOPICS.review, b"default/a/b", None), Output(TOPICS.decisions, b"default/a%2Fb/ann", None))
    assert harness.queue.get_item("default", "a/b") is None
    assert harness.queue.build_overview("default").verdicts == {"error": 0, "ok": 0, "unsure": 0}
    assert harness.queue.compute_pair_precision() == []


# -- decisions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["error", "ok", "unsure"])
def test_a_decision_removes_the_item_from_the_queue_and_a_withdrawal_returns_it(
    harness: QueueHarness, verdict: str
) -> None:
    harness.write(make_scored_output("a", 0.1), make_decision_output("a", verdict))
    assert harness.list_ids() == []
    assert [decision.verdict for decision in harness.get_item("a").decisions] == [verdict]
    harness.write(make_decision_output("a", verdict, withdrawn=True))
    assert harness.list_ids() == ["a"]
    assert harness.get_item("a").decisions == ()
    harness.write(Output(TOPICS.decisions, b"default/a/ann", None))
    assert harness.list_ids() == ["a"]


@pytest.mark.parametrize(
    ("first", "second", "agreement"),
    [
        ({"verdict": "error"}, {"verdict": "error"}, "agree"),
        ({"verdict": "ok"}, {"verdict": "error"}, "differ"),
        ({"verdict": "ok"}, {"verdict": "unsure"}, None),
        ({"verdict": "ok"}, {"verdict": "ok", "withdrawn": True}, None),
        ({"verdict": "error", "labels": ["O", "O", "O"]}, {"verdict": "error"}, "agree"),
        (
            {"verdict": "error", "labels": ["O", "O", "O"]},
            {"verdict": "error", "labels": ["O", "B-LOC", "O"]},
            "differ",
        ),
    ],
)
def test_two_reviewers_agree_or_differ(
    harness: QueueHarness, first: dict[str, Any], second: dict[str, Any], agreement: str | None
) -> None:
    harness.write(make_scored_output("a", 0.1), make_decision_output("a", **first))
    assert harness.get_item("a").agreement is None
    harness.write(make_decision_output("a", **second, reviewer="bob"))
    assert harness.get_item("a").agreement == agreement


def test_the_last_decision_of_a_reviewer_counts(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), make_decision_output("a", "ok"), make_decision_output("a", "error"))
    assert [decision.verdict for decision in harness.get_item("a").decisions] == ["error"]


# -- claims ------------------------------------------------------------------------------------------------------------


def test_a_claim_hides_the_item_from_others_until_it_ends(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), make_scored_output("b", 0.2), claim("a", "ann", 10))
    assert harness.list_ids(reviewer="bob") == ["b"]
    assert harness.list_ids(reviewer="ann") == harness.list_ids() == ["a", "b"]
    assert (harness.get_item("a").claimed_by, harness.get_item("a").claimed_until) == ("ann", minutes_after_now(10))
    assert harness.list_ids(reviewer="bob", now=minutes_after_now(11)) == ["a", "b"]
    item = harness.queue.get_item("default", "a", now=minutes_after_now(11))
    assert item is not None
    assert (item.claimed_by, item.claimed_until) == (None, None)


def test_a_claim_can_be_released_and_prolonged(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), claim("a", "ann", 10), claim("a", "ann", 20))
    assert harness.list_ids(reviewer="bob", now=minutes_after_now(15)) == []
    harness.write(claim("a", "ann", None))
    assert harness.list_ids(reviewer="bob") == ["a"]


def test_of_two_claims_the_first_counts(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), claim("a", "bob", 11), claim("a", "ann", 10))
    assert harness.get_item("a").claimed_by == "bob"
    assert (harness.list_ids(reviewer="bob"), harness.list_ids(reviewer="ann"), harness.list_ids(reviewer="eve")) == (
        ["a"],
        [],
        [],
    )
    harness.write(claim("a", "bob", 20))  # prolonged: still the first
    assert harness.get_item("a").claimed_by == "bob"
    harness.write(claim("a", "bob", None))
    assert harness.get_item("a").claimed_by == "ann"


# -- counts ----------------------------------------------------------------------------------------------------------


def test_counts_are_computed_once_per_version(harness: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def estimate(db: sqlite3.Connection, dataset: str) -> RecallEstimate:
        computed.append(dataset)
        return estimate_recall(db, dataset)

    monkeypatch.setattr("service.review.queue.queue.estimate_recall", estimate)
    harness.write(make_scored_output("a", 0.1), make_scored_output("b", 0.2))
    assert [harness.queue.estimate_recall("default").flagged for _ in range(3)] == [2, 2, 2]
    assert harness.queue.estimate_recall("other").flagged == 0
    assert computed == ["default", "other"]
    assert harness.queue.count_items_by_dataset()["default"]["open"] == 2
    harness.write(make_scored_output("c", 0.3))
    assert harness.queue.estimate_recall("default").flagged == 3
    assert harness.queue.count_items_by_dataset()["default"]["open"] == 3


# -- pages and filters -------------------------------------------------------------------------------------------------


def test_a_cursor_stays_valid_while_items_are_decided_and_arrive(harness: QueueHarness) -> None:
    harness.write(*(make_scored_output(f"s{n:02}", 0.01 * (n + 1)) for n in range(30)))
    first = harness.queue.get_page(QueueFilter(), limit=10, now=NOW)
    assert first.next is not None
    harness.write(*(make_decision_output(f"s{n:02}", "ok") for n in (3, 9, 10, 15)), make_scored_output("new", 0.001))
    second = harness.queue.get_page(QueueFilter(), limit=10, after=first.next, now=NOW)
    assert [item.id for item in second.items] == [f"s{n}" for n in (11, 12, 13, 14, 16, 17, 18, 19, 20, 21)]


@pytest.mark.parametrize("limit", [1, 2, 7, 30, 100])
def test_pages_have_each_item_once_even_with_equal_ranks(harness: QueueHarness, limit: int) -> None:
    harness.write(
        *(make_scored_output(f"s{n}", 0.5) for n in range(15)),
        *(make_scored_output(f"s{n}", 0.5, dataset="other") for n in range(15)),
    )
    pages = harness.list_ids(limit=limit)
    assert pages == sorted(f"s{n}" for n in range(15)) * 2


@pytest.mark.parametrize("limit", [0, 201, -1])
def test_the_size_of_a_page_is_limited(harness: QueueHarness, limit: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        harness.queue.get_page(QueueFilter(), limit=limit)
    assert caught.value.field == "limit"


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "é", "W10", "WzEsMl0", "bnVsbA", "' OR 1=1 --", "W1siYSIsMSwiYSIsImEiXQ", "WzEsTmFOLCJhIiwiYiJd"],
)
def test_an_invalid_cursor_is_refused(harness: QueueHarness, cursor: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        harness.queue.get_page(QueueFilter(), limit=5, after=cursor)
    assert caught.value.field == "after"


def test_cursors_keep_positions_to_the_bit() -> None:
    position = QueuePosition(0.1 + 0.2, 5e-324, "d", "ü/\x00'")
    assert QueuePosition.from_cursor(position.to_cursor()) == position


def test_filters(harness: QueueHarness) -> None:
    harness.write(
        make_scored_output("a", 0.1, annotator="zoe", suggested="B-ORG", batch="7"),
        make_scored_output("b", 0.2, annotator="max", suggested="O"),
        make_scored_output("c", 0.3, annotator="zoe", labels=("O", "B-LOC", "O"), suggested="I-ORG"),
        make_scored_output("d", 0.4, dataset="other"),
    )
    assert harness.list_ids(dataset="other") == ["d"]
    assert harness.list_ids(annotator="zoe") == ["a", "c"]
    assert harness.list_ids(given="PER") == harness.list_ids(given="B-PER") == ["a", "b", "d"]
    assert harness.list_ids(suggested="ORG") == ["a", "c", "d"]
    assert harness.list_ids(suggested="B-ORG") == ["a", "d"]
    assert harness.list_ids(given="PER", suggested="ORG", dataset="default") == ["a"]
    assert harness.list_ids(given="LOC", suggested="I-ORG") == ["c"]
    assert harness.list_ids(given="LOC", suggested="PER") == harness.list_ids(given="nothing") == []
    assert harness.list_ids(given="PER", annotator="max") == ["b"]
    assert harness.list_ids(batch="7") == harness.list_ids(batch="7", annotator="zoe") == ["a"]
    assert harness.list_ids(batch="8") == []


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        QueueFilter(state="done")  # type: ignore[arg-type]  # as a query would say it
    assert caught.value.field == "state"


def test_filters_by_decision(harness: QueueHarness) -> None:
    harness.write(
        *(make_scored_output(name, 0.1 * (number + 1)) for number, name in enumerate("abcde")),
        make_decision_output("a", "error"),
        make_decision_output("b", "unsure"),
        make_decision_output("b", "ok", reviewer="bob"),
        make_decision_output("c", "ok"),
        make_decision_output("d", "ok"),
        make_decision_output("d", "ok", withdrawn=True),
    )
    assert harness.list_ids(verdict="ok", state="decided") == ["b", "c"]
    assert harness.list_ids(verdict="unsure", state="all") == ["b"]
    assert harness.list_ids(decided_by="bob", state="all") == ["b"]
    assert harness.list_ids(decided_by="ann", state="all") == ["a", "b", "c"]
    assert harness.list_ids(decided_by="ann", verdict="ok", state="all") == ["c"]
    assert harness.list_ids(verdict="ok") == []  # an open item has no decision in force
    harness.write(make_scored_output("c", 0.3, revision=1))
    assert harness.list_ids(verdict="ok", state="all") == ["b"]  # the decision was about the annotation before


def test_a_filter_by_model(harness: QueueHarness) -> None:
    other = {"name": "other", "fingerprint": "beef"}
    harness.write(make_scored_output("a", 0.1), make_scored_output("b", 0.2, model=other))
    assert harness.list_ids(model="other") == ["b"]
    assert harness.list_ids(model="tiny") == ["a"]
    assert harness.list_ids(model="none") == []


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize(
    "filters",
    [{"annotator": "zoe"}, {"q": "zoe"}, {"decided_by": "zoe"}, {"annotator": "zoe", "q": "zoe", "decided_by": "zoe"}],
)
def test_a_common_and_a_rare_criterion_select_the_same_items(
    harness: QueueHarness, common: bool, filters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.review.queue.criteria.MAX_RARE_ITEMS", 0 if common else 10_000)
    for number in range(20):
        name = ("zoe", "max")[number % 2]
        harness.write(
            make_scored_output(f"s{number:02}", 0.01 * (number + 1), annotator=name, tokens=("a", name, "b")),
            make_decision_output(f"s{number:02}", reviewer=name),
            make_decision_output(f"s{number:02}", reviewer="third"),
        )
    assert harness.list_ids(**filters, state="all", limit=3) == [f"s{number:02}" for number in range(0, 20, 2)]


HOSTILE = ["'; DROP TABLE items; --", '"', "<script>alert(1)</script>", "\x00", "%", "日本/ü", "a" * 500]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(harness: QueueHarness, text: str) -> None:
    assessment = make_assessment(text, annotator=text[:200]).model_copy(update={"tokens": (text, text, text)})
    harness.write(
        make_review_output(assessment),
        make_decision_output(text, "ok", reviewer=text[:100], note=text),
        claim(text, text[:100], 5),
    )
    item = harness.get_item(text)
    assert item.tokens == (text, text, text)
    assert (item.state, item.decisions[0].reviewer) == ("decided", text[:100])
    assert harness.list_ids(annotator=text[:200], state="all", limit=1) == [text]
    assert harness.list_ids(given=text, suggested=text) == []
    assert harness.queue.build_overview("default").annotators[0].annotator == text[:200]


def explain(queue: ReviewQueue, queue_filter: QueueFilter, *, after: bool = True, rare: Criterion | None = None) -> str:
    cursor = QueuePosition(0.5, 0.5, "default", "x").to_cursor() if after else None
    query, values = build_page_query(queue_filter, limit=50, after=cursor, now=0.0, rare=rare)
    with queue.file.read_transaction() as db:
        return "\n".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("queue_filter", "index"),
    [
        (QueueFilter(), "items_in_order"),
        (QueueFilter(state="decided"), "items_in_order"),
        (QueueFilter(dataset="default"), "items_of_dataset"),
        (QueueFilter(dataset="default", reviewer="ann"), "items_of_dataset"),
        (QueueFilter(reviewer="ann", given="PER", annotator="zoe"), "items_in_order"),
    ],
)
def test_a_page_is_read_from_an_index_without_sorting(
    harness: QueueHarness, queue_filter: QueueFilter, index: str, after: bool
) -> None:
    harness.catch_up()
    steps = explain(harness.queue, queue_filter, after=after)
    assert f"SEARCH items USING COVERING INDEX {index}" in steps or f"SEARCH items USING INDEX {index}" in steps
    assert "TEMP B-TREE" not in steps
    assert "SCAN" not in steps


def test_a_rare_facet_is_looked_up(harness: QueueHarness) -> None:
    queue_filter = QueueFilter(given="PER", dataset="default")
    steps = explain(harness.queue, queue_filter, rare=queue_filter.criteria[0])
    assert "SEARCH facets USING PRIMARY KEY (facet=?)" in steps
    assert "SEARCH items USING INTEGER PRIMARY KEY" in steps


def test_a_rare_word_is_looked_up(harness: QueueHarness) -> None:
    queue_filter = QueueFilter(q="Madrid", dataset="default")
    steps = explain(harness.queue, queue_filter, rare=queue_filter.criteria[0])
    assert "SCAN texts VIRTUAL TABLE" in steps
    assert "SEARCH items USING INTEGER PRIMARY KEY" in steps


def test_a_verdict_is_looked_up_in_an_index(harness: QueueHarness) -> None:
    queue_filter = QueueFilter(verdict="unsure", state="decided")
    steps = explain(harness.queue, queue_filter, rare=queue_filter.criteria[0])
    assert "USING COVERING INDEX decisions_by_verdict" in steps


def test_what_earlier_words_say_is_shown_unless_the_item_is_blind(harness: QueueHarness) -> None:
    evidence = Because(index=1, kind="mentions", words=7, sentences=200, by_type={"ORG": 6.0}, speaks="against")
    harness.write(make_scored_output("a", 0.1, because=(evidence,)))
    assert harness.get_item("a").because == (evidence,)
    harness.write(make_settings_output(name="default", control_share=0.1, version=1))
    assert harness.get_item("a").because == ()
    harness.write(make_decision_output("a", "ok"))
    assert harness.get_item("a").because == (evidence,)
