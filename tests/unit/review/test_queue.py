from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import Claim
from service.errors import InvalidInput, SettingsError, StateError
from service.log.protocol import Output
from service.review.decisions import claim_output
from service.review.queue.filters import Place, page_query
from service.review.queue.queue import Queue, QueueFilter
from service.review.queue.recall import RecallEstimate, recall_estimate
from tests.review_desk import (
    NOW,
    TOPICS,
    Desk,
    assessment,
    decided,
    decision,
    later,
    review,
    settings,
)

if TYPE_CHECKING:
    from pathlib import Path


def claim(identity: str, reviewer: str, minutes: float | None) -> Output:
    until = None if minutes is None else later(minutes)
    return claim_output(TOPICS, Claim(id=identity, reviewer=reviewer, until=until))


def scored(identity: str, p: float, **fields: Any) -> Output:
    return review(assessment(identity, p=(0.95, p, 0.97), **fields))


# -- the newest revision -----------------------------------------------------------------------------------------------


def test_the_worst_comes_first(desk: Desk) -> None:
    desk.write(scored("b", 0.2), scored("c", 0.3), scored("a", 0.1))
    assert desk.ids() == ["a", "b", "c"]
    page = desk.queue.page(QueueFilter(), limit=10, now=NOW)
    assert [item.rank for item in page.items] == [item.priority for item in page.items]
    assert page.next is None


def test_the_highest_revision_wins_and_an_older_one_that_comes_late_does_not(desk: Desk) -> None:
    desk.write(scored("a", 0.1, revision=5), scored("a", 0.4, revision=7), scored("a", 0.2, revision=6))
    assert desk.item("a").revision == 7
    assert desk.ids() == ["a"]


def test_the_same_revision_sent_again_replaces(desk: Desk) -> None:
    desk.write(scored("a", 0.1), scored("a", 0.4))
    assert desk.item("a").score == 0.4


@pytest.mark.parametrize("reason", ["update", "deleted"])
def test_an_update_or_a_deletion_closes(desk: Desk, reason: str) -> None:
    desk.write(scored("a", 0.1), review(assessment("a", reason=reason, revision=1, update=True)))
    assert desk.ids() == []
    assert desk.ids(state="closed") == ["a"]
    assert (desk.item("a").state, desk.item("a").closed_by) == ("closed", reason)
    assert desk.queue.counts() == {"open": 0, "decided": 0, "closed": 1}


def test_an_older_revision_does_not_open_what_an_update_closed(desk: Desk) -> None:
    desk.write(review(assessment("a", reason="update", revision=2, update=True)), scored("a", 0.1, revision=1))
    assert desk.item("a").state == "closed"


def test_a_new_revision_opens_again_and_old_decisions_do_not_count(desk: Desk) -> None:
    desk.write(scored("a", 0.1), decision("a", "ok"))
    assert desk.item("a").state == "decided"
    desk.write(scored("a", 0.2, revision=1))
    assert desk.item("a").state == "open"
    assert desk.item("a").decisions == ()
    desk.write(decision("a", "ok"))  # about revision 0 still
    assert desk.item("a").state == "open"
    desk.write(decision("a", "ok", revision=1))
    assert desk.item("a").state == "decided"


def test_a_decision_may_come_before_its_item(desk: Desk) -> None:
    desk.write(decision("a", "error", revision=3))
    assert desk.queue.item("default", "a") is None
    desk.write(scored("a", 0.1, revision=3))
    assert desk.item("a").state == "decided"


def test_an_item_that_was_erased_is_gone(desk: Desk) -> None:
    desk.write(scored("a/b", 0.1), decision("a/b", "ok"))
    desk.write(Output(TOPICS.review, b"default/a/b", None), Output(TOPICS.decisions, b"default/a%2Fb/ann", None))
    assert desk.queue.item("default", "a/b") is None
    assert desk.queue.overview("default").verdicts == {"error": 0, "ok": 0, "unsure": 0}
    assert desk.queue.precision() == []


# -- decisions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["error", "ok", "unsure"])
def test_a_decision_takes_the_item_out_and_withdrawn_it_opens_again(desk: Desk, verdict: str) -> None:
    desk.write(scored("a", 0.1), decision("a", verdict))
    assert desk.ids() == []
    assert [one.verdict for one in desk.item("a").decisions] == [verdict]
    desk.write(decision("a", verdict, withdrawn=True))
    assert desk.ids() == ["a"]
    assert desk.item("a").decisions == ()
    desk.write(Output(TOPICS.decisions, b"default/a/ann", None))
    assert desk.ids() == ["a"]


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
    desk: Desk, first: dict[str, Any], second: dict[str, Any], agreement: str | None
) -> None:
    desk.write(scored("a", 0.1), decision("a", **first))
    assert desk.item("a").agreement is None
    desk.write(decision("a", **second, reviewer="bob"))
    assert desk.item("a").agreement == agreement


def test_the_last_word_of_a_reviewer_counts(desk: Desk) -> None:
    desk.write(scored("a", 0.1), decision("a", "ok"), decision("a", "error"))
    assert [one.verdict for one in desk.item("a").decisions] == ["error"]


# -- claims ------------------------------------------------------------------------------------------------------------


def test_a_claim_hides_the_item_from_others_until_its_time_is_up(desk: Desk) -> None:
    desk.write(scored("a", 0.1), scored("b", 0.2), claim("a", "ann", 10))
    assert desk.ids(reviewer="bob") == ["b"]
    assert desk.ids(reviewer="ann") == desk.ids() == ["a", "b"]
    assert (desk.item("a").claimed_by, desk.item("a").claimed_until) == ("ann", later(10))
    assert desk.ids(reviewer="bob", now=later(11)) == ["a", "b"]
    found = desk.queue.item("default", "a", now=later(11))
    assert found is not None
    assert (found.claimed_by, found.claimed_until) == (None, None)


def test_a_claim_can_be_let_go_and_prolonged(desk: Desk) -> None:
    desk.write(scored("a", 0.1), claim("a", "ann", 10), claim("a", "ann", 20))
    assert desk.ids(reviewer="bob", now=later(15)) == []
    desk.write(claim("a", "ann", None))
    assert desk.ids(reviewer="bob") == ["a"]


def test_of_two_who_claim_at_once_all_replicas_name_the_same(desk: Desk) -> None:
    desk.write(scored("a", 0.1), claim("a", "bob", 11), claim("a", "ann", 10))
    assert desk.item("a").claimed_by == "bob"
    assert (desk.ids(reviewer="bob"), desk.ids(reviewer="ann"), desk.ids(reviewer="eve")) == (["a"], [], [])
    desk.write(claim("a", "bob", 20))  # prolonged: still the first
    assert desk.item("a").claimed_by == "bob"
    desk.write(claim("a", "bob", None))
    assert desk.item("a").claimed_by == "ann"


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_numbers_are_added_up_once_until_something_changes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    estimate = recall_estimate

    def count(db: sqlite3.Connection, dataset: str) -> RecallEstimate:
        asked.append(dataset)
        return estimate(db, dataset)

    monkeypatch.setattr("service.review.queue.queue.recall_estimate", count)
    desk.write(scored("a", 0.1), scored("b", 0.2))
    assert [desk.queue.recall_estimate("default").flagged for _ in range(3)] == [2, 2, 2]
    assert desk.queue.recall_estimate("other").flagged == 0
    assert asked == ["default", "other"]
    desk.queue.counts_by_dataset()["default"]["open"] = 99  # what somebody does with them is theirs
    assert desk.queue.counts_by_dataset()["default"]["open"] == 2
    desk.write(scored("c", 0.3))
    assert desk.queue.recall_estimate("default").flagged == 3
    assert desk.queue.counts_by_dataset()["default"]["open"] == 3


def test_who_opens_a_new_file_finds_its_tables(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no moment of its making does the file stand there without them."""
    desk.write(scored("a", 0.1))
    seen: list[object] = []
    connect = Queue._connect

    def look(queue: Queue, path: Path) -> sqlite3.Connection:
        made = connect(queue, path)
        if queue.path.exists():
            with closing(sqlite3.connect(queue.path)) as other:
                seen.append(other.execute("SELECT count(*) FROM items").fetchone()[0])
        else:
            seen.append("none")
        return made

    monkeypatch.setattr(Queue, "_connect", look)
    desk.queue.path.unlink()
    desk.read()
    assert seen == ["none", 0]
    assert desk.ids() == ["a"]
    assert sorted(path.name for path in desk.queue.path.parent.glob("*.new*")) == []


# -- pages and filters -------------------------------------------------------------------------------------------------


def test_a_cursor_holds_while_items_are_decided_and_come(desk: Desk) -> None:
    desk.write(*(scored(f"s{n:02}", 0.01 * (n + 1)) for n in range(30)))
    first = desk.queue.page(QueueFilter(), limit=10, now=NOW)
    assert first.next is not None
    desk.write(*(decision(f"s{n:02}", "ok") for n in (3, 9, 10, 15)), scored("new", 0.001))
    second = desk.queue.page(QueueFilter(), limit=10, after=first.next, now=NOW)
    assert [item.id for item in second.items] == [f"s{n}" for n in (11, 12, 13, 14, 16, 17, 18, 19, 20, 21)]


@pytest.mark.parametrize("limit", [1, 2, 7, 30, 100])
def test_pages_hold_each_item_once_also_where_ranks_are_equal(desk: Desk, limit: int) -> None:
    desk.write(*(scored(f"s{n}", 0.5) for n in range(15)), *(scored(f"s{n}", 0.5, dataset="other") for n in range(15)))
    pages = desk.ids(limit=limit)
    assert pages == sorted(f"s{n}" for n in range(15)) * 2


@pytest.mark.parametrize("limit", [0, 201, -1])
def test_a_page_has_its_limits(desk: Desk, limit: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        desk.queue.page(QueueFilter(), limit=limit)
    assert caught.value.field == "limit"


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "é", "W10", "WzEsMl0", "bnVsbA", "' OR 1=1 --", "W1siYSIsMSwiYSIsImEiXQ", "WzEsTmFOLCJhIiwiYiJd"],
)
def test_what_is_no_cursor_is_refused(desk: Desk, cursor: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        desk.queue.page(QueueFilter(), limit=5, after=cursor)
    assert caught.value.field == "after"


def test_cursors_read_back_to_the_bit() -> None:
    place = Place(0.1 + 0.2, 5e-324, "d", "ü/\x00'")
    assert Place.at(place.cursor()) == place


def test_filters(desk: Desk) -> None:
    desk.write(
        scored("a", 0.1, annotator="zoe", suggested="B-ORG"),
        scored("b", 0.2, annotator="max", suggested="O"),
        scored("c", 0.3, annotator="zoe", labels=("O", "B-LOC", "O"), suggested="I-ORG"),
        scored("d", 0.4, dataset="other"),
    )
    assert desk.ids(dataset="other") == ["d"]
    assert desk.ids(annotator="zoe") == ["a", "c"]
    assert desk.ids(given="PER") == desk.ids(given="B-PER") == ["a", "b", "d"]
    assert desk.ids(suggested="ORG") == ["a", "c", "d"]
    assert desk.ids(suggested="B-ORG") == ["a", "d"]
    assert desk.ids(given="PER", suggested="ORG", dataset="default") == ["a"]
    assert desk.ids(given="LOC", suggested="I-ORG") == ["c"]
    assert desk.ids(given="LOC", suggested="PER") == desk.ids(given="nothing") == []
    assert desk.ids(given="PER", annotator="max") == ["b"]


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        QueueFilter(state="done")  # type: ignore[arg-type]  # as a query would say it
    assert caught.value.field == "state"


@pytest.mark.parametrize("common", [False, True])
def test_a_common_facet_and_a_rare_one_give_the_same(desk: Desk, common: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.review.queue.queue.RARE", 0 if common else 10_000)
    desk.write(*(scored(f"s{n:02}", 0.01 * (n + 1), annotator=("zoe", "max")[n % 2]) for n in range(20)))
    assert desk.ids(annotator="zoe", limit=3) == [f"s{n:02}" for n in range(0, 20, 2)]


HOSTILE = ["'; DROP TABLE items; --", '"', "<script>alert(1)</script>", "\x00", "%", "日本/ü", "a" * 500]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(desk: Desk, text: str) -> None:
    said = assessment(text, annotator=text[:200]).model_copy(update={"tokens": (text, text, text)})
    desk.write(review(said), decision(text, "ok", reviewer=text[:100], note=text), claim(text, text[:100], 5))
    item = desk.item(text)
    assert item.tokens == (text, text, text)
    assert (item.state, item.decisions[0].reviewer) == ("decided", text[:100])
    assert desk.ids(annotator=text[:200], state="all", limit=1) == [text]
    assert desk.ids(given=text, suggested=text) == []
    assert desk.queue.overview("default").annotators[0].annotator == text[:200]


def plan(queue: Queue, wanted: QueueFilter, *, after: bool = True, rare: str | None = None) -> str:
    cursor = Place(0.5, 0.5, "default", "x").cursor() if after else None
    query, values = page_query(wanted, limit=50, after=cursor, now=0.0, rare=rare)
    with queue.reading() as db:
        return "\n".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (QueueFilter(), "items_in_order"),
        (QueueFilter(state="decided"), "items_in_order"),
        (QueueFilter(dataset="default"), "items_of_dataset"),
        (QueueFilter(dataset="default", reviewer="ann"), "items_of_dataset"),
        (QueueFilter(reviewer="ann", given="PER", annotator="zoe"), "items_in_order"),
    ],
)
def test_a_page_is_read_from_an_index_without_sorting(desk: Desk, wanted: QueueFilter, index: str, after: bool) -> None:
    steps = plan(desk.queue, wanted, after=after)
    assert f"SEARCH items USING COVERING INDEX {index}" in steps or f"SEARCH items USING INDEX {index}" in steps
    assert "TEMP B-TREE" not in steps
    assert "SCAN" not in steps


def test_a_rare_facet_is_looked_up(desk: Desk) -> None:
    wanted = QueueFilter(given="PER", dataset="default")
    steps = plan(desk.queue, wanted, rare=wanted.facets[0])
    assert "SEARCH facets USING PRIMARY KEY (facet=?)" in steps
    assert "SEARCH items USING INTEGER PRIMARY KEY" in steps


# -- the file ----------------------------------------------------------------------------------------------------------


def test_two_processes_do_not_share_a_file(tmp_path: Path) -> None:
    first = Queue(tmp_path / "queue.sqlite")
    with pytest.raises(SettingsError, match="a file of its own"):
        Queue(tmp_path / "queue.sqlite")
    first.close()
    Queue(tmp_path / "queue.sqlite").close()


def test_a_file_of_another_time_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "queue.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"not a database")
    queue = Queue(path)
    assert queue.counts() == {"open": 0, "decided": 0, "closed": 0}
    queue.close()
    queue.close()
    with pytest.raises(StateError, match="closed"):
        queue.counts()


def test_a_file_that_is_deleted_is_built_again(desk: Desk) -> None:
    desk.write(scored("a", 0.1), scored("b", 0.2), decision("a", "ok"))
    desk.queue.path.unlink()
    desk.read()
    desk.read()
    assert desk.ids() == ["b"]
    assert desk.queue.path.exists()


def test_changes_can_be_waited_for(desk: Desk) -> None:
    desk.write(scored("a", 0.1))
    before = desk.queue.version
    desk.read()
    assert desk.queue.version == before
    desk.write(decision("a", "ok"))
    assert desk.queue.version > before


# -- sums --------------------------------------------------------------------------------------------------------------


def test_precision_by_pair_and_method_survives_the_correction(desk: Desk) -> None:
    desk.write(scored("a", 0.1), scored("b", 0.2), scored("c", 0.3, suggested="O"))
    desk.write(
        decided(desk.item("a"), "error", words=[1]),
        decided(desk.item("b"), "ok"),
        decided(desk.item("c"), "error", words=[0]),  # wrong, but not where it was doubted
    )
    found = {(pair.given, pair.suggested): (pair.right, pair.decided) for pair in desk.queue.precision()}
    assert found == {("PER", "ORG"): (1, 2), ("PER", "O"): (0, 1)}
    desk.write(review(assessment("a", reason="update", revision=1, update=True)))
    assert desk.item("a").state == "closed"
    assert {(pair.given, pair.suggested): pair.precision for pair in desk.queue.precision()} == {
        ("PER", "ORG"): 0.5,
        ("PER", "O"): 0.0,
    }


def test_reviewers_who_are_even_say_nothing(desk: Desk) -> None:
    desk.write(scored("a", 0.1), decision("a", "ok"), decision("a", "error", reviewer="bob"))
    assert desk.queue.precision() == []
    desk.write(decision("a", "error", reviewer="cem"))
    assert [(pair.right, pair.decided) for pair in desk.queue.precision()] == [(1, 1)]


def test_the_overview_adds_up(desk: Desk) -> None:
    desk.write(
        settings(name="default", control_share=0.5),
        *(scored(f"s{n}", 0.1 * (n + 1), annotator=("zoe", None)[n % 2]) for n in range(6)),
        scored("x", 0.1, dataset="other", scored_at=later(24 * 60)),
        review(assessment("c", reason="control")),
    )
    desk.write(decided(desk.item("s0"), "error"), decided(desk.item("s1"), "ok"), decided(desk.item("s2"), "unsure"))
    found = desk.queue.overview("default")
    assert found.counts == {"open": 4, "decided": 3, "closed": 0}
    assert found.verdicts == {"error": 1, "ok": 1, "unsure": 1}
    assert found.precision == 0.5
    (day,) = found.days
    assert (day.day, day.flagged, day.controls, day.decided, day.errors, day.precision) == (
        "2024-05-31",
        6,
        1,
        2,
        1,
        0.5,
    )
    assert sum(step.items for step in found.scores) == 7  # the control too, while it waits
    assert (found.scores[0].low, found.scores[-1].high) == (0.0, 1.0)
    (confusion,) = found.confusions
    assert (confusion.given, confusion.suggested, confusion.items, confusion.decided, confusion.right) == (
        "PER",
        "ORG",
        7,
        2,
        1,
    )
    assert [(one.annotator, one.items, one.decided, one.errors) for one in found.annotators] == [
        (None, 4, 1, 0),
        ("zoe", 3, 1, 1),
    ]
    everything = desk.queue.overview()
    assert [day.day for day in everything.days] == ["2024-05-31", "2024-06-01"]
    assert desk.queue.counts_by_dataset()["other"] == {"open": 1, "decided": 0, "closed": 0}
    assert desk.queue.overview("nobody").counts == {"open": 0, "decided": 0, "closed": 0}


def test_scores_outside_0_and_1_have_bins_too(desk: Desk) -> None:
    desk.write(scored("a", 0.1, score=-7.5), scored("b", 0.1, score=2.0))
    bins = desk.queue.overview("default").scores
    assert (bins[0].low, bins[0].items, bins[-1].items) == (-7.5, 1, 1)


def test_scores_near_0_and_1_are_told_apart(desk: Desk) -> None:
    for name, score in (("a", 0.0), ("b", 5e-5), ("c", 2e-4), ("d", 0.1), ("e", 0.9995), ("f", 1.0)):
        desk.write(scored(name, 0.1, score=score))
    bins = desk.queue.overview("default").scores
    assert {one.low: one.items for one in bins if one.items} == {0.0: 2, 1e-4: 1, 0.1: 1, 0.999: 2}
    assert [one.high for one in bins[:-1]] == [one.low for one in bins[1:]]
