from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import Claim
from service.errors import InvalidInput, SettingsError, StateError
from service.log.protocol import Output
from service.review.messages import build_claim_message
from service.review.projection.queue_file import QueueFile
from service.review.queue.filters import QueuePosition, build_page_query
from service.review.queue.queue import QueueFilter, ReviewQueue
from service.review.queue.recall import RecallEstimate, estimate_recall
from tests.support.review_queue import (
    NOW,
    TOPICS,
    MemoryLog,
    QueueHarness,
    decide_item,
    make_assessment,
    make_decision_output,
    make_review_output,
    make_settings_output,
    minutes_after_now,
)

if TYPE_CHECKING:
    from pathlib import Path


def claim(identity: str, reviewer: str, minutes: float | None) -> Output:
    until = None if minutes is None else minutes_after_now(minutes)
    return build_claim_message(TOPICS, Claim(id=identity, reviewer=reviewer, until=until))


def scored(identity: str, p: float, **fields: Any) -> Output:
    return make_review_output(make_assessment(identity, p=(0.95, p, 0.97), **fields))


# -- the newest revision -----------------------------------------------------------------------------------------------


def test_the_worst_comes_first(desk: QueueHarness) -> None:
    desk.write(scored("b", 0.2), scored("c", 0.3), scored("a", 0.1))
    assert desk.list_ids() == ["a", "b", "c"]
    page = desk.queue.get_page(QueueFilter(), limit=10, now=NOW)
    assert [item.rank for item in page.items] == [item.priority for item in page.items]
    assert page.next is None


def test_the_highest_revision_wins_and_an_older_one_that_comes_late_does_not(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1, revision=5), scored("a", 0.4, revision=7), scored("a", 0.2, revision=6))
    assert desk.get_item("a").revision == 7
    assert desk.list_ids() == ["a"]


def test_the_same_revision_sent_again_replaces(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), scored("a", 0.4))
    assert desk.get_item("a").score == 0.4


@pytest.mark.parametrize("reason", ["update", "deleted"])
def test_an_update_or_a_deletion_closes(desk: QueueHarness, reason: str) -> None:
    desk.write(scored("a", 0.1), make_review_output(make_assessment("a", reason=reason, revision=1, update=True)))
    assert desk.list_ids() == []
    assert desk.list_ids(state="closed") == ["a"]
    assert (desk.get_item("a").state, desk.get_item("a").closed_by) == ("closed", reason)
    assert desk.queue.count_items() == {"open": 0, "decided": 0, "closed": 1}


def test_an_older_revision_does_not_open_what_an_update_closed(desk: QueueHarness) -> None:
    desk.write(
        make_review_output(make_assessment("a", reason="update", revision=2, update=True)), scored("a", 0.1, revision=1)
    )
    assert desk.get_item("a").state == "closed"


def test_a_new_revision_opens_again_and_old_decisions_do_not_count(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), make_decision_output("a", "ok"))
    assert desk.get_item("a").state == "decided"
    desk.write(scored("a", 0.2, revision=1))
    assert desk.get_item("a").state == "open"
    assert desk.get_item("a").decisions == ()
    desk.write(make_decision_output("a", "ok"))  # about revision 0 still
    assert desk.get_item("a").state == "open"
    desk.write(make_decision_output("a", "ok", revision=1))
    assert desk.get_item("a").state == "decided"


def test_a_decision_may_come_before_its_item(desk: QueueHarness) -> None:
    desk.write(make_decision_output("a", "error", revision=3))
    assert desk.queue.get_item("default", "a") is None
    desk.write(scored("a", 0.1, revision=3))
    assert desk.get_item("a").state == "decided"


def test_an_item_that_was_erased_is_gone(desk: QueueHarness) -> None:
    desk.write(scored("a/b", 0.1), make_decision_output("a/b", "ok"))
    desk.write(Output(TOPICS.review, b"default/a/b", None), Output(TOPICS.decisions, b"default/a%2Fb/ann", None))
    assert desk.queue.get_item("default", "a/b") is None
    assert desk.queue.build_overview("default").verdicts == {"error": 0, "ok": 0, "unsure": 0}
    assert desk.queue.compute_pair_precision() == []


# -- decisions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["error", "ok", "unsure"])
def test_a_decision_takes_the_item_out_and_withdrawn_it_opens_again(desk: QueueHarness, verdict: str) -> None:
    desk.write(scored("a", 0.1), make_decision_output("a", verdict))
    assert desk.list_ids() == []
    assert [one.verdict for one in desk.get_item("a").decisions] == [verdict]
    desk.write(make_decision_output("a", verdict, withdrawn=True))
    assert desk.list_ids() == ["a"]
    assert desk.get_item("a").decisions == ()
    desk.write(Output(TOPICS.decisions, b"default/a/ann", None))
    assert desk.list_ids() == ["a"]


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
    desk: QueueHarness, first: dict[str, Any], second: dict[str, Any], agreement: str | None
) -> None:
    desk.write(scored("a", 0.1), make_decision_output("a", **first))
    assert desk.get_item("a").agreement is None
    desk.write(make_decision_output("a", **second, reviewer="bob"))
    assert desk.get_item("a").agreement == agreement


def test_the_last_word_of_a_reviewer_counts(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), make_decision_output("a", "ok"), make_decision_output("a", "error"))
    assert [one.verdict for one in desk.get_item("a").decisions] == ["error"]


# -- claims ------------------------------------------------------------------------------------------------------------


def test_a_claim_hides_the_item_from_others_until_its_time_is_up(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), scored("b", 0.2), claim("a", "ann", 10))
    assert desk.list_ids(reviewer="bob") == ["b"]
    assert desk.list_ids(reviewer="ann") == desk.list_ids() == ["a", "b"]
    assert (desk.get_item("a").claimed_by, desk.get_item("a").claimed_until) == ("ann", minutes_after_now(10))
    assert desk.list_ids(reviewer="bob", now=minutes_after_now(11)) == ["a", "b"]
    found = desk.queue.get_item("default", "a", now=minutes_after_now(11))
    assert found is not None
    assert (found.claimed_by, found.claimed_until) == (None, None)


def test_a_claim_can_be_let_go_and_prolonged(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), claim("a", "ann", 10), claim("a", "ann", 20))
    assert desk.list_ids(reviewer="bob", now=minutes_after_now(15)) == []
    desk.write(claim("a", "ann", None))
    assert desk.list_ids(reviewer="bob") == ["a"]


def test_of_two_who_claim_at_once_all_replicas_name_the_same(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), claim("a", "bob", 11), claim("a", "ann", 10))
    assert desk.get_item("a").claimed_by == "bob"
    assert (desk.list_ids(reviewer="bob"), desk.list_ids(reviewer="ann"), desk.list_ids(reviewer="eve")) == (
        ["a"],
        [],
        [],
    )
    desk.write(claim("a", "bob", 20))  # prolonged: still the first
    assert desk.get_item("a").claimed_by == "bob"
    desk.write(claim("a", "bob", None))
    assert desk.get_item("a").claimed_by == "ann"


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_numbers_are_added_up_once_until_something_changes(desk: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    estimate = estimate_recall

    def count(db: sqlite3.Connection, dataset: str) -> RecallEstimate:
        asked.append(dataset)
        return estimate(db, dataset)

    monkeypatch.setattr("service.review.queue.queue.estimate_recall", count)
    desk.write(scored("a", 0.1), scored("b", 0.2))
    assert [desk.queue.estimate_recall("default").flagged for _ in range(3)] == [2, 2, 2]
    assert desk.queue.estimate_recall("other").flagged == 0
    assert asked == ["default", "other"]
    desk.queue.count_items_by_dataset()["default"]["open"] = 99  # what somebody does with them is theirs
    assert desk.queue.count_items_by_dataset()["default"]["open"] == 2
    desk.write(scored("c", 0.3))
    assert desk.queue.estimate_recall("default").flagged == 3
    assert desk.queue.count_items_by_dataset()["default"]["open"] == 3


def test_who_opens_a_new_file_finds_its_tables(desk: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no moment of its making does the file stand there without them."""
    desk.write(scored("a", 0.1))
    seen: list[object] = []
    connect = QueueFile._connect

    def look(file: QueueFile, path: Path) -> sqlite3.Connection:
        made = connect(file, path)
        if file.path.exists():
            with closing(sqlite3.connect(file.path)) as other:
                seen.append(other.execute("SELECT count(*) FROM items").fetchone()[0])
        else:
            seen.append("none")
        return made

    monkeypatch.setattr(QueueFile, "_connect", look)
    desk.queue.file.path.unlink()
    desk.catch_up()
    assert seen == ["none", 0]
    assert desk.list_ids() == ["a"]
    assert sorted(path.name for path in desk.queue.file.path.parent.glob("*.new*")) == []


# -- pages and filters -------------------------------------------------------------------------------------------------


def test_a_cursor_holds_while_items_are_decided_and_come(desk: QueueHarness) -> None:
    desk.write(*(scored(f"s{n:02}", 0.01 * (n + 1)) for n in range(30)))
    first = desk.queue.get_page(QueueFilter(), limit=10, now=NOW)
    assert first.next is not None
    desk.write(*(make_decision_output(f"s{n:02}", "ok") for n in (3, 9, 10, 15)), scored("new", 0.001))
    second = desk.queue.get_page(QueueFilter(), limit=10, after=first.next, now=NOW)
    assert [item.id for item in second.items] == [f"s{n}" for n in (11, 12, 13, 14, 16, 17, 18, 19, 20, 21)]


@pytest.mark.parametrize("limit", [1, 2, 7, 30, 100])
def test_pages_hold_each_item_once_also_where_ranks_are_equal(desk: QueueHarness, limit: int) -> None:
    desk.write(*(scored(f"s{n}", 0.5) for n in range(15)), *(scored(f"s{n}", 0.5, dataset="other") for n in range(15)))
    pages = desk.list_ids(limit=limit)
    assert pages == sorted(f"s{n}" for n in range(15)) * 2


@pytest.mark.parametrize("limit", [0, 201, -1])
def test_a_page_has_its_limits(desk: QueueHarness, limit: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        desk.queue.get_page(QueueFilter(), limit=limit)
    assert caught.value.field == "limit"


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "é", "W10", "WzEsMl0", "bnVsbA", "' OR 1=1 --", "W1siYSIsMSwiYSIsImEiXQ", "WzEsTmFOLCJhIiwiYiJd"],
)
def test_what_is_no_cursor_is_refused(desk: QueueHarness, cursor: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        desk.queue.get_page(QueueFilter(), limit=5, after=cursor)
    assert caught.value.field == "after"


def test_cursors_read_back_to_the_bit() -> None:
    place = QueuePosition(0.1 + 0.2, 5e-324, "d", "ü/\x00'")
    assert QueuePosition.from_cursor(place.to_cursor()) == place


def test_filters(desk: QueueHarness) -> None:
    desk.write(
        scored("a", 0.1, annotator="zoe", suggested="B-ORG"),
        scored("b", 0.2, annotator="max", suggested="O"),
        scored("c", 0.3, annotator="zoe", labels=("O", "B-LOC", "O"), suggested="I-ORG"),
        scored("d", 0.4, dataset="other"),
    )
    assert desk.list_ids(dataset="other") == ["d"]
    assert desk.list_ids(annotator="zoe") == ["a", "c"]
    assert desk.list_ids(given="PER") == desk.list_ids(given="B-PER") == ["a", "b", "d"]
    assert desk.list_ids(suggested="ORG") == ["a", "c", "d"]
    assert desk.list_ids(suggested="B-ORG") == ["a", "d"]
    assert desk.list_ids(given="PER", suggested="ORG", dataset="default") == ["a"]
    assert desk.list_ids(given="LOC", suggested="I-ORG") == ["c"]
    assert desk.list_ids(given="LOC", suggested="PER") == desk.list_ids(given="nothing") == []
    assert desk.list_ids(given="PER", annotator="max") == ["b"]


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        QueueFilter(state="done")  # type: ignore[arg-type]  # as a query would say it
    assert caught.value.field == "state"


@pytest.mark.parametrize("common", [False, True])
def test_a_common_facet_and_a_rare_one_give_the_same(
    desk: QueueHarness, common: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.review.queue.queue.MAX_RARE_ITEMS", 0 if common else 10_000)
    desk.write(*(scored(f"s{n:02}", 0.01 * (n + 1), annotator=("zoe", "max")[n % 2]) for n in range(20)))
    assert desk.list_ids(annotator="zoe", limit=3) == [f"s{n:02}" for n in range(0, 20, 2)]


HOSTILE = ["'; DROP TABLE items; --", '"', "<script>alert(1)</script>", "\x00", "%", "日本/ü", "a" * 500]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(desk: QueueHarness, text: str) -> None:
    said = make_assessment(text, annotator=text[:200]).model_copy(update={"tokens": (text, text, text)})
    desk.write(
        make_review_output(said),
        make_decision_output(text, "ok", reviewer=text[:100], note=text),
        claim(text, text[:100], 5),
    )
    item = desk.get_item(text)
    assert item.tokens == (text, text, text)
    assert (item.state, item.decisions[0].reviewer) == ("decided", text[:100])
    assert desk.list_ids(annotator=text[:200], state="all", limit=1) == [text]
    assert desk.list_ids(given=text, suggested=text) == []
    assert desk.queue.build_overview("default").annotators[0].annotator == text[:200]


def plan(queue: ReviewQueue, wanted: QueueFilter, *, after: bool = True, rare_facet: str | None = None) -> str:
    cursor = QueuePosition(0.5, 0.5, "default", "x").to_cursor() if after else None
    query, values = build_page_query(wanted, limit=50, after=cursor, now=0.0, rare_facet=rare_facet)
    with queue.file.read_transaction() as db:
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
def test_a_page_is_read_from_an_index_without_sorting(
    desk: QueueHarness, wanted: QueueFilter, index: str, after: bool
) -> None:
    steps = plan(desk.queue, wanted, after=after)
    assert f"SEARCH items USING COVERING INDEX {index}" in steps or f"SEARCH items USING INDEX {index}" in steps
    assert "TEMP B-TREE" not in steps
    assert "SCAN" not in steps


def test_a_rare_facet_is_looked_up(desk: QueueHarness) -> None:
    wanted = QueueFilter(given="PER", dataset="default")
    steps = plan(desk.queue, wanted, rare_facet=wanted.facets[0])
    assert "SEARCH facets USING PRIMARY KEY (facet=?)" in steps
    assert "SEARCH items USING INTEGER PRIMARY KEY" in steps


# -- the file ----------------------------------------------------------------------------------------------------------


def test_two_processes_do_not_share_a_file(tmp_path: Path) -> None:
    first = ReviewQueue(tmp_path / "queue.sqlite")
    with pytest.raises(SettingsError, match="give each process its own file"):
        ReviewQueue(tmp_path / "queue.sqlite")
    first.close()
    ReviewQueue(tmp_path / "queue.sqlite").close()


def test_a_file_of_another_time_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "queue.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"not a database")
    queue = ReviewQueue(path)
    assert queue.count_items() == {"open": 0, "decided": 0, "closed": 0}
    queue.close()
    queue.close()
    with pytest.raises(StateError, match="closed"):
        queue.count_items()


def test_a_file_that_is_deleted_is_built_again(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), scored("b", 0.2), make_decision_output("a", "ok"))
    desk.queue.file.path.unlink()
    desk.catch_up()
    desk.catch_up()
    assert desk.list_ids() == ["b"]
    assert desk.queue.file.path.exists()


def test_changes_can_be_waited_for(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1))
    before = desk.queue.version
    desk.catch_up()
    assert desk.queue.version == before
    desk.write(make_decision_output("a", "ok"))
    assert desk.queue.version > before


# -- sums --------------------------------------------------------------------------------------------------------------


def test_precision_by_pair_and_method_survives_the_correction(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), scored("b", 0.2), scored("c", 0.3, suggested="O"))
    desk.write(
        decide_item(desk.get_item("a"), "error", words=[1]),
        decide_item(desk.get_item("b"), "ok"),
        decide_item(desk.get_item("c"), "error", words=[0]),  # wrong, but not where it was doubted
    )
    found = {(pair.given, pair.suggested): (pair.right, pair.decided) for pair in desk.queue.compute_pair_precision()}
    assert found == {("PER", "ORG"): (1, 2), ("PER", "O"): (0, 1)}
    desk.write(make_review_output(make_assessment("a", reason="update", revision=1, update=True)))
    assert desk.get_item("a").state == "closed"
    assert {(pair.given, pair.suggested): pair.precision for pair in desk.queue.compute_pair_precision()} == {
        ("PER", "ORG"): 0.5,
        ("PER", "O"): 0.0,
    }


def test_reviewers_who_are_even_say_nothing(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1), make_decision_output("a", "ok"), make_decision_output("a", "error", reviewer="bob"))
    assert desk.queue.compute_pair_precision() == []
    desk.write(make_decision_output("a", "error", reviewer="cem"))
    assert [(pair.right, pair.decided) for pair in desk.queue.compute_pair_precision()] == [(1, 1)]


def test_the_threshold_history_has_the_last_assessment_of_each_day(desk: QueueHarness) -> None:
    day = 24 * 60
    for identity, minutes, threshold in (("a", 0, 0.5), ("b", 1, 0.6), ("c", 2 * day, 0.7), ("d", day, 0.8)):
        at = minutes_after_now(minutes)
        desk.write(scored(identity, 0.2, scored_at=at, thresholds={"O": threshold, "B-PER": None}))
    desk.write(scored("x", 0.1, dataset="other", scored_at=minutes_after_now(5 * day)))
    points = desk.queue.list_threshold_points("default")
    assert [(point.at, point.thresholds["O"]) for point in points] == [
        (minutes_after_now(1), 0.6),
        (minutes_after_now(day), 0.8),
        (minutes_after_now(2 * day), 0.7),
    ]
    assert points[0].thresholds["B-PER"] is None
    assert desk.queue.list_threshold_points("nobody") == ()


@pytest.mark.parametrize("seed", range(4))
def test_replicas_that_read_partitions_in_another_order_show_the_same_thresholds(seed: int) -> None:
    log = MemoryLog()
    for number in range(12):
        assessment = make_assessment(f"s{number}", thresholds={"O": number / 12}, scored_at=minutes_after_now(number))
        log.append([make_review_output(assessment)])
    with closing(QueueHarness(log.reader(seed=seed, most=1), ReviewQueue(":memory:"))) as replica:
        replica.catch_up()
        (point,) = replica.queue.list_threshold_points("default")
    assert (point.at, point.thresholds) == (minutes_after_now(11), {"O": 11 / 12})


def test_the_threshold_history_is_bounded(desk: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.review.queue.overview.MAX_THRESHOLD_DAYS", 2)
    desk.write(*(scored(f"s-{n}", 0.2, scored_at=minutes_after_now(24 * 60 * n)) for n in range(4)))
    points = desk.queue.list_threshold_points("default")
    assert [point.at for point in points] == [minutes_after_now(24 * 60 * n) for n in (2, 3)]


def test_the_overview_adds_up(desk: QueueHarness) -> None:
    desk.write(
        make_settings_output(name="default", control_share=0.5),
        *(scored(f"s{n}", 0.1 * (n + 1), annotator=("zoe", None)[n % 2]) for n in range(6)),
        scored("x", 0.1, dataset="other", scored_at=minutes_after_now(24 * 60)),
        make_review_output(make_assessment("c", reason="control")),
    )
    desk.write(
        decide_item(desk.get_item("s0"), "error"),
        decide_item(desk.get_item("s1"), "ok"),
        decide_item(desk.get_item("s2"), "unsure"),
    )
    found = desk.queue.build_overview("default")
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
    everything = desk.queue.build_overview()
    assert [day.day for day in everything.days] == ["2024-05-31", "2024-06-01"]
    assert desk.queue.count_items_by_dataset()["other"] == {"open": 1, "decided": 0, "closed": 0}
    assert desk.queue.build_overview("nobody").counts == {"open": 0, "decided": 0, "closed": 0}


def test_scores_outside_0_and_1_have_bins_too(desk: QueueHarness) -> None:
    desk.write(scored("a", 0.1, score=-7.5), scored("b", 0.1, score=2.0))
    bins = desk.queue.build_overview("default").scores
    assert (bins[0].low, bins[0].items, bins[-1].items) == (-7.5, 1, 1)


def test_scores_near_0_and_1_are_told_apart(desk: QueueHarness) -> None:
    for name, score in (("a", 0.0), ("b", 5e-5), ("c", 2e-4), ("d", 0.1), ("e", 0.9995), ("f", 1.0)):
        desk.write(scored(name, 0.1, score=score))
    bins = desk.queue.build_overview("default").scores
    assert {one.low: one.items for one in bins if one.items} == {0.0: 2, 1e-4: 1, 0.1: 1, 0.999: 2}
    assert [one.high for one in bins[:-1]] == [one.low for one in bins[1:]]
