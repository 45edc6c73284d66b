"""Items that need several decisions: what the queue shows to whom, and how much of many decisions it reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.log.protocol import Output
from service.review.items import MAX_SHOWN_DECISIONS
from service.review.messages import encode_adjudication_key, iterate_assessments, iterate_decisions
from service.review.projection.decisions.decision_tables import read_decisions_in_force
from service.review.projection.decisions.outcomes import update_outcomes
from service.review.projection.summaries import Summaries
from service.review.queue.queue import QueueFilter, ReviewQueue
from service.review.review_state import ReviewState
from service.review.settlement import MAX_REVIEWERS_PER_ITEM, settle
from tests.support.review_queue import (
    NOW,
    TOPICS,
    MemoryLog,
    QueueHarness,
    dump_queue,
    dump_rebuilt_queue,
    make_assessment,
    make_decision_output,
    make_review_output,
    make_scored_output,
    make_settings_output,
    minutes_after_now,
)


@pytest.fixture
def double(harness: QueueHarness) -> QueueHarness:
    """Three items that need two decisions each; ann has decided about the first."""
    harness.write(
        make_settings_output(name="default", overlap=2, version=1),
        *(make_scored_output(name, 0.1 + number / 10) for number, name in enumerate(("a", "b", "c"))),
        make_decision_output("a", "error", reviewer="ann", labels=("O", "B-LOC", "O"), note="a town"),
    )
    return harness


def get_item(harness: QueueHarness, sentence_id: str, viewer: str | None = None) -> Any:
    return harness.queue.get_item("default", sentence_id, viewer=viewer, now=NOW)


def test_a_decision_is_hidden_from_others_until_the_item_has_them_all(double: QueueHarness) -> None:
    for viewer in (None, "bob"):
        item = get_item(double, "a", viewer)
        assert (item.state, item.overlap, item.decision_count) == ("open", 2, 1)
        assert (item.decisions, item.agreement) == ((), None)
    (own,) = get_item(double, "a", "ann").decisions
    assert (own.reviewer, own.note) == ("ann", "a town")
    double.write(make_decision_output("a", "ok", reviewer="bob"))
    item = get_item(double, "a", "cyd")
    assert (item.state, item.agreement) == ("adjudication", "differ")
    assert [each.reviewer for each in item.decisions] == ["ann", "bob"]


def test_filters_and_counts_do_not_reveal_hidden_decisions(double: QueueHarness) -> None:
    hidden: tuple[dict[str, Any], ...] = (
        {"verdict": "error"},
        {"decided_by": "ann"},
        {"verdict": "error", "viewer": "bob"},
    )
    for filters in hidden:
        assert double.list_ids(state="all", **filters) == []
    assert double.list_ids(state="all", verdict="error", viewer="ann") == ["a"]
    overview = double.queue.build_overview("default")
    assert overview.verdicts == {"error": 0, "ok": 0, "unsure": 0}
    assert (overview.precision, overview.counts["open"]) == (None, 3)
    assert [(each.reviewer, each.decisions) for each in overview.reviewers] == [("ann", 1)]
    double.write(make_decision_output("a", "error", reviewer="bob", labels=("O", "B-LOC", "O")))
    assert double.list_ids(state="all", verdict="error") == double.list_ids(state="decided") == ["a"]
    assert double.queue.build_overview("default").verdicts["error"] == 2


def test_decisions_about_a_closed_item_that_lacks_others_stay_hidden(double: QueueHarness) -> None:
    task = {"format": "label-studio", "task": "7"}
    double.write(
        make_review_output(make_assessment("e", meta=task)),
        make_decision_output("e", "error", reviewer="ann", note="a town"),
        make_review_output(make_assessment("label-studio:task:7", revision=1, reason="deleted", meta=task)),
    )
    assert (get_item(double, "e").state, get_item(double, "e").decisions) == ("closed", ())
    assert [each.note for each in get_item(double, "e", "ann").decisions] == ["a town"]
    assert double.list_ids(state="all", verdict="error") == []
    assert double.queue.build_overview("default").verdicts["error"] == 0
    double.write(make_decision_output("e", "error", reviewer="bob"))
    assert len(get_item(double, "e").decisions) == 2


def test_an_item_is_not_open_for_a_reviewer_who_has_decided_it(double: QueueHarness) -> None:
    assert double.list_ids(viewer="ann") == double.list_ids(reviewer="ann") == ["b", "c"]
    assert double.list_ids(viewer="bob") == double.list_ids() == ["a", "b", "c"]
    assert double.list_ids(viewer="ann", state="all") == ["a", "b", "c"]
    double.write(make_decision_output("a", "error", reviewer="ann", withdrawn=True))
    assert double.list_ids(viewer="ann") == ["a", "b", "c"]


def test_what_is_in_adjudication_counts_for_nothing_until_it_is_settled(double: QueueHarness) -> None:
    double.write(make_decision_output("a", "ok", reviewer="bob"))
    assert double.list_ids(state="adjudication") == ["a"]
    overview = double.queue.build_overview("default")
    assert overview.counts == {"open": 2, "adjudication": 1, "decided": 0, "closed": 0}
    assert (overview.precision, overview.verdicts) == (None, {"error": 1, "ok": 1, "unsure": 0})
    assert sum(each.items for each in overview.scores) == 3
    double.write(make_decision_output("a", "error", reviewer="cyd", adjudication=True))
    item = get_item(double, "a")
    assert (item.state, item.decision_count, item.agreement) == ("decided", 2, "differ")
    assert [(each.reviewer, each.adjudication) for each in item.decisions] == [
        ("ann", False),
        ("bob", False),
        ("cyd", True),
    ]
    assert double.queue.build_overview("default").precision == 1.0
    double.write(Output(TOPICS.decisions, encode_adjudication_key("default", "a", "cyd"), None))
    assert get_item(double, "a").state == "adjudication"


def test_an_adjudication_stands_beside_the_own_decision(double: QueueHarness) -> None:
    double.write(
        make_decision_output("a", "ok", reviewer="bob"),
        make_decision_output("a", "ok", reviewer="ann", adjudication=True),
    )
    item = get_item(double, "a", "ann")
    assert [(each.reviewer, each.verdict) for each in item.decisions] == [
        ("ann", "error"),
        ("ann", "ok"),
        ("bob", "ok"),
    ]
    assert item.state == "decided"
    assert double.queue.build_overview("default").precision == 0.0


def test_a_control_sentence_is_not_recognisable_in_adjudication(harness: QueueHarness) -> None:
    harness.write(
        make_settings_output(name="default", overlap=2, control_share=0.5, version=1),
        make_scored_output("a", 0.1),
        make_review_output(make_assessment("b", reason="control", inclusion_probability=0.5)),
        *(make_decision_output("b", verdict, reviewer=name) for name, verdict in (("ann", "ok"), ("bob", "error"))),
    )
    item = get_item(harness, "b")
    assert (item.state, item.blind, item.reason) == ("adjudication", True, None)
    assert harness.queue.estimate_recall("default").controls_decided == 0
    harness.write(make_decision_output("b", "ok", reviewer="cyd", adjudication=True))
    assert (get_item(harness, "b").reason, harness.queue.estimate_recall("default").controls_decided) == ("control", 1)


def test_a_changed_overlap_applies_to_all_items(double: QueueHarness) -> None:
    double.write(
        make_decision_output("b", "ok", reviewer="ann"),
        make_decision_output("b", "error", reviewer="bob"),
    )

    def read_states() -> dict[str, str]:
        return {name: get_item(double, name).state for name in ("a", "b", "c")}

    def set_overlap(overlap: int, version: int) -> None:
        double.write(make_settings_output(name="default", overlap=overlap, version=version))
        assert dump_queue(double.queue) == dump_rebuilt_queue(double.log.reader(), TOPICS)

    assert read_states() == {"a": "open", "b": "adjudication", "c": "open"}
    set_overlap(1, 2)
    assert read_states() == {"a": "decided", "b": "decided", "c": "open"}
    set_overlap(3, 3)
    assert read_states() == {"a": "open", "b": "open", "c": "open"}
    set_overlap(1, 2)  # an older version that comes late
    assert read_states() == {"a": "open", "b": "open", "c": "open"}
    double.write(Output(TOPICS.datasets, b"default", None))
    assert read_states() == {"a": "decided", "b": "decided", "c": "open"}


# -- many reviewers ----------------------------------------------------------------------------------------------------


def test_of_many_decisions_a_bounded_number_is_read_and_shown(harness: QueueHarness) -> None:
    def add_decisions(first: int, end: int) -> None:
        names = [f"r{number:04}" for number in range(first, end)]
        harness.write(*(make_decision_output("a", "ok", reviewer=name, note="n" * 500) for name in names))

    def measure() -> tuple[int, int]:
        """Bytes of the page, and steps of SQLite's machine for one more decision about the item."""
        page = harness.queue.get_page(QueueFilter(state="all", viewer="r0000"), limit=50, now=NOW).model_dump_json()
        steps = [0]

        def count() -> int:
            steps[0] += 1
            return 0

        with harness.queue.file.write_transaction() as db:
            db.set_progress_handler(count, 1)
            try:
                assert len(read_decisions_in_force(db, ("default", "a"), 0)) == MAX_REVIEWERS_PER_ITEM
                update_outcomes(db, ("default", "a"), Summaries())
            finally:
                db.set_progress_handler(None, 1)
        return len(page), steps[0]

    harness.write(make_scored_output("a", 0.1))
    add_decisions(0, 100)
    few = measure()
    add_decisions(100, 1000)
    many = measure()
    assert many[0] <= few[0] + 2  # `decision_count` has more digits
    assert many[1] <= 1.1 * few[1]
    item = get_item(harness, "a", "r0777")
    assert (item.decision_count, len(item.decisions)) == (1000, MAX_SHOWN_DECISIONS)
    assert "r0777" in {each.reviewer for each in item.decisions}


def test_a_decision_that_goes_makes_room_for_the_next(harness: QueueHarness) -> None:
    names = [f"r{number:02}" for number in range(MAX_REVIEWERS_PER_ITEM + 1)]
    harness.write(make_scored_output("a", 0.1), *(make_decision_output("a", "ok", reviewer=name) for name in names))
    assert names[-1] not in {each.reviewer for each in get_item(harness, "a").decisions}
    harness.write(make_decision_output("a", "ok", reviewer=names[0], withdrawn=True))
    assert [each.reviewer for each in get_item(harness, "a").decisions] == names[1:]


def test_later_decisions_do_not_displace_earlier_ones(harness: QueueHarness) -> None:
    early = [f"z{number:02}" for number in range(MAX_REVIEWERS_PER_ITEM)]
    late = [f"a{number:02}" for number in range(MAX_REVIEWERS_PER_ITEM + 2)]
    harness.write(
        make_scored_output("a", 0.1),
        *(make_decision_output("a", "ok", reviewer=name) for name in early),
        *(make_decision_output("a", "error", reviewer=name, decided_at=minutes_after_now(1)) for name in late),
    )
    item = get_item(harness, "a")
    assert [each.reviewer for each in item.decisions] == early
    assert (item.decision_count, item.agreement) == (42, "agree")
    assert harness.queue.build_overview("default").precision == 0.0
    with harness.queue.file.read_transaction() as db:
        assert [name for (name,) in db.execute("SELECT reviewer FROM answers ORDER BY reviewer")] == early
    seen_by_late = get_item(harness, "a", "a03")
    assert [each.reviewer for each in seen_by_late.decisions] == ["a03", *early[:-1]]
    assert seen_by_late.agreement == "agree"


@pytest.mark.parametrize("minutes", [0, 1])
def test_of_many_adjudications_the_last_is_read_and_shown(double: QueueHarness, minutes: int) -> None:
    """By time, and by name where the time is the same."""
    names = [f"r{number:02}" for number in range(MAX_REVIEWERS_PER_ITEM + 5)]
    double.write(
        make_decision_output("a", "ok", reviewer="bob"),
        *(
            make_decision_output("a", "ok", reviewer=name, adjudication=True, decided_at=minutes_after_now(n * minutes))
            for n, name in enumerate(names)
        ),
        make_decision_output(
            "a", "error", reviewer="zoe", adjudication=True, decided_at=minutes_after_now(60 * minutes)
        ),
    )
    assert double.queue.build_overview("default").precision == 1.0
    assert "zoe" in {each.reviewer for each in get_item(double, "a").decisions}


few_names = st.sampled_from([f"r{number:02}" for number in range(MAX_REVIEWERS_PER_ITEM + 4)])


@settings(max_examples=25, deadline=None)
@given(
    decided=st.lists(
        st.tuples(few_names, st.sampled_from(("error", "ok")), st.integers(0, 1), st.integers(0, 9)),
        min_size=2 * MAX_REVIEWERS_PER_ITEM,
        max_size=80,
    ),
    mostly_adjudications=st.booleans(),
    overlap=st.integers(1, 2),
    seed=st.integers(0, 20),
    compacted=st.booleans(),
)
def test_which_of_too_many_decisions_count_depends_on_the_records_alone(
    decided: list[tuple[str, str, int, int]], mostly_adjudications: bool, overlap: int, seed: int, compacted: bool
) -> None:
    log = MemoryLog()
    log.append(
        [make_settings_output(name="default", overlap=overlap, version=1), make_scored_output("a", 0.1)]
        + [
            make_decision_output(
                "a",
                verdict,
                reviewer=name,
                decided_at=minutes_after_now(minute),
                withdrawn=kind == 0,
                adjudication=(kind == 1) != mostly_adjudications,
            )
            for name, verdict, minute, kind in decided
        ]
    )
    state: ReviewState[Any] = ReviewState({"default": overlap})
    for assessment in iterate_assessments(record for record in log.records if record.topic == TOPICS.review):
        state.apply_assessment(assessment)
    for decision in iterate_decisions(record for record in log.records if record.topic == TOPICS.decisions):
        state.apply_decision(decision)
    harness = QueueHarness(log, ReviewQueue(":memory:"))
    try:
        harness.catch_up()
        sentence = state.sentences.get("default", "a")
        assert sentence is not None
        with harness.queue.file.read_transaction() as db:
            stored = settle(read_decisions_in_force(db, ("default", "a"), 0), overlap)
        assert stored == state.settle(sentence)
        rebuilt = dump_rebuilt_queue(log.reader(seed=seed, most=7, compacted=compacted), TOPICS)
        assert dump_queue(harness.queue) == rebuilt
    finally:
        harness.close()
