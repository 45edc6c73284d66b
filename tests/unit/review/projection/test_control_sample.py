"""Control sentences: drawn into the queue, and like the others until they are decided."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.log.protocol import Output
from service.review.projection.control_sample import MAX_LOGIT_SHIFT, SELECT_NEXT_FLAGGED, shift_down, shift_score_down
from service.review.queue.filters import QueuePosition
from service.review.queue.queue import QueueFilter
from tests.support.review_queue import (
    NOW,
    TOPICS,
    QueueHarness,
    make_assessment,
    make_decision_output,
    make_review_output,
    make_settings_output,
    minutes_after_now,
)

if TYPE_CHECKING:
    from service.review.items import ReviewItem

SPANS = {"given_span": "PER", "suggested_span": "ORG"}
NUMBERS = ("rank", "priority", "score")


def flagged(identity: str, p: float, **fields: Any) -> Output:
    return make_review_output(make_assessment(identity, p=(0.95, p, 0.97), **fields))


def control(identity: str, **fields: Any) -> Output:
    """One that nobody doubts, as most are that nothing flags."""
    given: dict[str, Any] = {"p": (0.9999, 0.9998, 0.9999), "inclusion_probability": 0.5} | fields
    return make_review_output(make_assessment(identity, reason="control", **given))


def waiting(desk: QueueHarness) -> list[ReviewItem]:
    return list(desk.queue.get_page(QueueFilter(), limit=200, now=NOW).items)


def shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) else type(value).__name__


# -- what is told ------------------------------------------------------------------------------------------------------


def test_a_control_looks_like_the_others_until_it_is_decided(desk: QueueHarness) -> None:
    spans = {name: {"start": 1, "end": 2, "type": kind} for name, kind in SPANS.items()}
    suspects = [{"kind": "type", **spans, "confidence": 0.9}]
    desk.write(flagged("flagged", 0.10123, annotator="zoe", suspects=suspects), control("control", annotator="zoe"))
    bodies = [json.loads(desk.get_item(name).model_dump_json()) for name in ("flagged", "control")]
    assert shape(bodies[0]) == shape(bodies[1])
    assert json.dumps(bodies[1]).replace('"id": "control"', "").count("control") == 0
    for name, value in bodies[0].items():
        if name not in ("id", *NUMBERS):
            assert bodies[1][name] == value, name
    for one in bodies:
        assert one["blind"]
        assert one["rank"] == one["priority"]
        assert one["score"] <= one["priority"] < 0.2
        assert one["words"] == [{"p_given": None, "score": None, "unscored": None}] * 3
        assert [(doubt["p_given"], doubt["p_suggested"]) for doubt in one["doubtful"]] == [(None, None)]
        assert [suspect["confidence"] for suspect in one["suspects"]] == [None]

    desk.write(make_decision_output("control", "ok"), make_decision_output("flagged", "ok"))
    for name, reason, probability, p in (("control", "control", 0.5, 0.9998), ("flagged", "flagged", 1.0, 0.10123)):
        item = desk.get_item(name)
        assert (item.reason, item.inclusion_probability, item.blind) == (reason, probability, False)
        assert (item.words[1].p_given, item.doubtful[0].p_given) == (p, p)
        assert item.priority is not None
        assert item.priority >= p
    desk.write(make_decision_output("control", "ok", withdrawn=True))
    assert desk.get_item("control").blind


def test_what_a_decision_keeps_is_what_was_so(desk: QueueHarness) -> None:
    """The ranker and the estimate of recall learn from it: it has the control's own numbers."""
    desk.write(flagged("a", 0.1), control("c"))
    kept = desk.get_item("c").shown
    assert (kept.reason, kept.inclusion_probability) == ("control", 0.5)
    assert min(score for score in kept.scores if score is not None) > 0.99
    assert kept.doubtful[0].p_given == 0.9998


def test_only_a_dataset_with_a_control_sample_is_blind(desk: QueueHarness) -> None:
    desk.write(flagged("a", 0.1), flagged("b", 0.2, dataset="other"))
    assert (desk.get_item("a").blind, desk.get_item("a").words[1].p_given) == (False, 0.1)
    # Before the first control has come: the one with which the probabilities went would be known.
    desk.write(make_settings_output(name="default", control_share=0.1, version=1))
    assert desk.get_item("a").blind
    desk.write(control("c"), make_settings_output(name="default", control_share=0.0, version=2))
    assert desk.get_item("a").blind
    desk.write(make_decision_output("c", "ok"))
    assert not desk.get_item("a").blind
    assert not desk.get_item("b", dataset="other").blind


@pytest.mark.parametrize(
    ("labels", "suggested", "kind"),
    [
        (("O", "O", "O"), "B-ORG", "missed"),
        (("O", "B-PER", "I-PER"), "O", "spurious"),
        (("O", "B-PER", "I-PER"), "B-ORG", "type"),
        (("O", "B-PER", "I-PER"), "B-PER", "boundary"),
    ],
)
def test_a_control_can_be_found_by_its_kind(
    desk: QueueHarness, labels: tuple[str, ...], suggested: str, kind: str
) -> None:
    desk.write(make_review_output(make_assessment("a", labels=labels, suggested=suggested, reason="control")))
    assert desk.list_ids(kind=kind) == ["a"]
    for other in {"missed", "spurious", "type", "boundary"} - {kind}:
        assert desk.list_ids(kind=other) == []


# -- where it stands ---------------------------------------------------------------------------------------------------


def test_controls_stand_evenly_among_the_flagged_with_numbers_that_explain_it(desk: QueueHarness) -> None:
    desk.write(*(flagged(f"f{n}", 0.001 * (n + 1)) for n in range(300)), *(control(f"c{n}") for n in range(100)))
    order = desk.list_ids()
    assert [name for name in order if name[0] == "f"] == [f"f{n}" for n in range(300)]
    for start in range(0, 400, 100):
        share = sum(name[0] == "c" for name in order[start : start + 100])
        assert 12 <= share <= 40, "a quarter of each part of the queue, give or take"
    items = waiting(desk)
    ranks = [item.rank for item in items]
    assert ranks == sorted(ranks) == [item.priority for item in items]
    assert len(set(ranks)) == len(ranks)
    assert all(item.score is not None and item.score < 0.31 for item in items)


def test_a_cursor_tells_nothing_more(desk: QueueHarness) -> None:
    desk.write(flagged("a", 0.1), control("c"), flagged("b", 0.9))
    page = desk.queue.get_page(QueueFilter(), limit=desk.list_ids().index("c") + 1, now=NOW)
    assert page.next is not None
    place, item = QueuePosition.from_cursor(page.next), desk.get_item("c")
    assert (place.rank, place.tie, place.id) == (item.rank, item.priority, "c")


def test_the_rankers_order_holds_for_controls_too(desk: QueueHarness) -> None:
    desk.write(*(flagged(f"f{n}", 0.01 * (n + 1)) for n in range(40)), control("c"))
    before = desk.get_item("c")
    desk.write(
        *(make_decision_output(f"f{n}", "error" if n % 2 else "ok", words=[1] if n % 2 else None) for n in range(30)),
    )
    assert desk.queue.build_overview("default").ranker
    after, flagged_ones = desk.get_item("c"), [item for item in waiting(desk) if item.id != "c"]
    assert all(item.rank != item.priority for item in flagged_ones)
    assert after.rank != after.priority == before.priority


def test_it_is_never_seen_with_its_own_numbers(desk: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even before all controls are placed anew, which waits while much comes in."""
    monkeypatch.setattr("service.review.projection.projector.POSITION_CONTROLS_INTERVAL_S", 3600.0)
    monkeypatch.setattr("service.review.projection.projector.position_all_controls", lambda *_: None)
    desk.write(*(flagged(f"f{n}", 0.01 * (n + 1)) for n in range(20)))
    desk.stream.append([control("c")])
    desk.projector.step()
    assert desk.get_item("c").rank < 0.3


def test_few_controls_move_when_a_sentence_comes(desk: QueueHarness) -> None:
    desk.write(*(flagged(f"f{n}", 0.001 * (n + 1)) for n in range(100)), *(control(f"c{n}") for n in range(50)))
    before = {item.id: item for item in waiting(desk)}
    desk.write(flagged("new", 0.05))
    moved = [item.id for item in waiting(desk) if item.id in before and item != before[item.id]]
    assert len(moved) <= 5


def test_the_flagged_one_beside_comes_from_an_index(desk: QueueHarness) -> None:
    with desk.queue.file.read_transaction() as db:
        steps = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {SELECT_NEXT_FLAGGED}", ("default", 0.5)))
    assert "items_on_the_ring" in steps
    assert "TEMP B-TREE" not in steps


def test_deciding_moves_no_control(desk: QueueHarness) -> None:
    desk.write(
        *(flagged(f"f{n}", 0.01 * (n + 1)) for n in range(20)),
        *(make_review_output(make_assessment(f"c{n}", reason="control", p=(0.99, 0.999, 0.98))) for n in range(5)),
    )
    before = desk.list_ids()
    desk.write(*(make_decision_output(f"f{n}", "ok") for n in range(10)))
    assert desk.list_ids() == [name for name in before if name not in {f"f{n}" for n in range(10)}]


def test_controls_alone_are_in_the_order_of_their_priority(desk: QueueHarness) -> None:
    desk.write(
        *(make_review_output(make_assessment(f"c{n}", reason="control", p=(0.9, 0.1 * n, 0.95))) for n in (3, 1, 2))
    )
    assert desk.list_ids() == ["c1", "c2", "c3"]
    desk.write(flagged("f", 0.2))
    assert desk.list_ids(dataset="default")[-1] in ("c1", "c2", "c3", "f")
    desk.write(Output(TOPICS.review, b"default/f", None))
    assert desk.list_ids() == ["c1", "c2", "c3"]


@pytest.mark.parametrize("value", [1e-9, 0.0312, 0.5, 0.97, 1.7, -3.2])
def test_shown_numbers_are_a_little_worse(value: float) -> None:
    found = [shift_down(value, by) for by in (0.0, MAX_LOGIT_SHIFT / 2, MAX_LOGIT_SHIFT)]
    assert all(one is not None for one in found)
    assert found == sorted(found, reverse=True)  # type: ignore[type-var]  # none is none
    assert found[0] == pytest.approx(value)
    assert len(set(found)) == 3


@pytest.mark.parametrize("value", [None, 0.0, 3.0, -2.0, 0.75, 2 / 3, 11 / 12])
def test_counts_and_shares_of_words_stay_what_they_are(value: float | None) -> None:
    assert shift_score_down(value, MAX_LOGIT_SHIFT) == value


def test_other_scores_move() -> None:
    assert shift_score_down(0.031234567, MAX_LOGIT_SHIFT) == shift_down(0.031234567, MAX_LOGIT_SHIFT) != 0.031234567


# -- what is counted ---------------------------------------------------------------------------------------------------


def test_counts_by_what_can_be_filtered_are_those_of_the_queue(desk: QueueHarness) -> None:
    """A pair or an annotator with fewer items than the queue shows would give the others away."""
    desk.write(
        make_settings_output(name="default", control_share=0.5),
        *(flagged(f"f{n}", 0.1 + n / 37, score=0.1 + n / 37, scored_at=minutes_after_now(0)) for n in range(4)),
        control("c", annotator="zoe", labels=("O", "O", "O"), suggested="B-LOC"),
    )
    found = desk.queue.build_overview("default")
    assert {(one.given, one.suggested): one.items for one in found.confusions} == {("PER", "ORG"): 4, ("O", "LOC"): 1}
    assert len(desk.list_ids(given="O", suggested="LOC")) == 1
    assert {one.annotator: one.items for one in found.annotators}["zoe"] == len(desk.list_ids(annotator="zoe")) == 1
    score = desk.get_item("c").score
    assert score is not None
    assert sum(one.items for one in found.scores if one.low <= score < one.high) >= 1
    assert sum(one.items for one in found.scores) == 5

    desk.write(make_decision_output("c", "ok"))
    found = desk.queue.build_overview("default")
    assert sum(one.items for one in found.confusions) == sum(one.items for one in found.scores) == 4
    assert "zoe" not in {one.annotator for one in found.annotators}
