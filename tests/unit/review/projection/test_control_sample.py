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
    make_scored_output,
    make_settings_output,
    minutes_after_now,
)

if TYPE_CHECKING:
    from service.review.items import ReviewItem

SPANS = {"given_span": "PER", "suggested_span": "ORG"}
NUMBERS = ("rank", "priority", "score")


def control(sentence_id: str, **fields: Any) -> Output:
    """A control sentence with high probabilities, as most unflagged sentences have."""
    given: dict[str, Any] = {"p": (0.9999, 0.9998, 0.9999), "inclusion_probability": 0.5} | fields
    return make_review_output(make_assessment(sentence_id, reason="control", **given))


def waiting(harness: QueueHarness) -> list[ReviewItem]:
    return list(harness.queue.get_page(QueueFilter(), limit=200, now=NOW).items)


def shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) else type(value).__name__


# -- what an item shows ------------------------------------------------------------------------------------------------------


def test_a_control_looks_like_the_others_until_it_is_decided(harness: QueueHarness) -> None:
    spans = {name: {"start": 1, "end": 2, "type": kind} for name, kind in SPANS.items()}
    suspects = [{"kind": "type", **spans, "confidence": 0.9}]
    harness.write(
        make_scored_output("flagged", 0.10123, annotator="zoe", suspects=suspects), control("control", annotator="zoe")
    )
    bodies = [json.loads(harness.get_item(name).model_dump_json()) for name in ("flagged", "control")]
    assert shape(bodies[0]) == shape(bodies[1])
    assert json.dumps(bodies[1]).replace('"id": "control"', "").count("control") == 0
    for name, value in bodies[0].items():
        if name not in ("id", "likelihood", *NUMBERS):  # the likelihood is that of the rank
            assert bodies[1][name] == value, name
    for body in bodies:
        assert body["blind"]
        assert body["rank"] == body["priority"]
        assert body["score"] <= body["priority"] < 0.2
        assert body["words"] == [{"p_given": None, "score": None, "priority": None, "unscored": None}] * 3
        assert [(flag["p_given"], flag["p_suggested"]) for flag in body["doubtful"]] == [(None, None)]
        assert [suspect["confidence"] for suspect in body["suspects"]] == [None]

    harness.write(make_decision_output("control", "ok"), make_decision_output("flagged", "ok"))
    for name, reason, probability, p in (("control", "control", 0.5, 0.9998), ("flagged", "flagged", 1.0, 0.10123)):
        item = harness.get_item(name)
        assert (item.reason, item.inclusion_probability, item.blind) == (reason, probability, False)
        assert (item.words[1].p_given, item.doubtful[0].p_given) == (p, p)
        assert item.priority is not None
        assert item.priority >= p
    harness.write(make_decision_output("control", "ok", withdrawn=True))
    assert harness.get_item("control").blind


def test_a_decision_records_the_own_numbers_of_a_control(harness: QueueHarness) -> None:
    """The ranker and the estimate of recall use them."""
    harness.write(make_scored_output("a", 0.1), control("c"))
    shown = harness.get_item("c").shown
    assert (shown.reason, shown.inclusion_probability) == ("control", 0.5)
    assert min(score for score in shown.scores if score is not None) > 0.99
    assert shown.doubtful[0].p_given == 0.9998


def test_only_a_dataset_with_a_control_sample_is_blind(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), make_scored_output("b", 0.2, dataset="other"))
    assert (harness.get_item("a").blind, harness.get_item("a").words[1].p_given) == (False, 0.1)
    # Before the first control arrives: if probabilities disappeared with it, it would be recognised.
    harness.write(make_settings_output(name="default", control_share=0.1, version=1))
    assert harness.get_item("a").blind
    harness.write(control("c"), make_settings_output(name="default", control_share=0.0, version=2))
    assert harness.get_item("a").blind
    harness.write(make_decision_output("c", "ok"))
    assert not harness.get_item("a").blind
    assert not harness.get_item("b", dataset="other").blind


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
    harness: QueueHarness, labels: tuple[str, ...], suggested: str, kind: str
) -> None:
    harness.write(make_review_output(make_assessment("a", labels=labels, suggested=suggested, reason="control")))
    assert harness.list_ids(kind=kind) == ["a"]
    for other in {"missed", "spurious", "type", "boundary"} - {kind}:
        assert harness.list_ids(kind=other) == []


# -- positions ---------------------------------------------------------------------------------------------------


def test_controls_are_spread_evenly_and_show_numbers_that_fit_their_position(harness: QueueHarness) -> None:
    harness.write(
        *(make_scored_output(f"f{n}", 0.001 * (n + 1)) for n in range(300)), *(control(f"c{n}") for n in range(100))
    )
    order = harness.list_ids()
    assert [name for name in order if name[0] == "f"] == [f"f{n}" for n in range(300)]
    for start in range(0, 400, 100):
        share = sum(name[0] == "c" for name in order[start : start + 100])
        assert 12 <= share <= 40, "about a quarter of each part of the queue"
    items = waiting(harness)
    ranks = [item.rank for item in items]
    assert ranks == sorted(ranks) == [item.priority for item in items]
    assert len(set(ranks)) == len(ranks)
    assert all(item.score is not None and item.score < 0.31 for item in items)


def test_a_cursor_does_not_tell_controls_apart(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), control("c"), make_scored_output("b", 0.9))
    page = harness.queue.get_page(QueueFilter(), limit=harness.list_ids().index("c") + 1, now=NOW)
    assert page.next is not None
    position, item = QueuePosition.from_cursor(page.next), harness.get_item("c")
    assert (position.rank, position.tie, position.id) == (item.rank, item.priority, "c")


def test_the_order_of_the_ranker_applies_to_controls_too(harness: QueueHarness) -> None:
    harness.write(*(make_scored_output(f"f{n}", 0.01 * (n + 1)) for n in range(40)), control("c"))
    before = harness.get_item("c")
    harness.write(
        *(make_decision_output(f"f{n}", "error" if n % 2 else "ok", words=[1] if n % 2 else None) for n in range(30)),
    )
    assert harness.queue.build_overview("default").ranker
    after, flagged_items = harness.get_item("c"), [item for item in waiting(harness) if item.id != "c"]
    assert all(item.rank != item.priority for item in flagged_items)
    assert after.rank != after.priority == before.priority


def test_it_is_never_seen_with_its_own_numbers(harness: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even before all controls are positioned again, which waits while records arrive."""
    monkeypatch.setattr("service.review.projection.projector.POSITION_CONTROLS_INTERVAL_S", 3600.0)
    monkeypatch.setattr("service.review.projection.projector.position_all_controls", lambda *_: None)
    harness.write(*(make_scored_output(f"f{n}", 0.01 * (n + 1)) for n in range(20)))
    harness.log.append([control("c")])
    harness.projector.step()
    assert harness.get_item("c").rank < 0.3


def test_few_controls_move_when_a_sentence_comes(harness: QueueHarness) -> None:
    harness.write(
        *(make_scored_output(f"f{n}", 0.001 * (n + 1)) for n in range(100)), *(control(f"c{n}") for n in range(50))
    )
    before = {item.id: item for item in waiting(harness)}
    harness.write(make_scored_output("new", 0.05))
    moved = [item.id for item in waiting(harness) if item.id in before and item != before[item.id]]
    assert len(moved) <= 5


def test_it_is_not_seen_with_its_own_numbers_while_the_queue_is_built(harness: QueueHarness) -> None:
    harness.log.partitions, harness.log.most = 1, 10
    flagged = [make_scored_output(f"f{n:02}", 0.01 * (n + 1)) for n in range(30)]
    harness.log.append([*flagged[:8], control("c"), *flagged[8:]])
    harness.projector.step()
    assert not harness.projector.caught_up
    early = harness.get_item("c")
    assert early.rank < 0.1
    assert early.priority == early.rank
    harness.catch_up()
    with harness.queue.file.read_transaction() as db:
        next_flagged = db.execute(
            "SELECT rank FROM items, (SELECT draw AS own FROM items WHERE id = 'c') WHERE reason = 'flagged'"
            " ORDER BY draw < own, draw LIMIT 1"
        ).fetchone()[0]
    assert 0.7 * next_flagged < harness.get_item("c").rank < next_flagged


def test_the_next_flagged_item_is_read_from_an_index(harness: QueueHarness) -> None:
    harness.catch_up()
    with harness.queue.file.read_transaction() as db:
        steps = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {SELECT_NEXT_FLAGGED}", ("default", 0.5)))
    assert "items_on_the_ring" in steps
    assert "TEMP B-TREE" not in steps


def test_deciding_moves_no_control(harness: QueueHarness) -> None:
    harness.write(
        *(make_scored_output(f"f{n}", 0.01 * (n + 1)) for n in range(20)),
        *(make_review_output(make_assessment(f"c{n}", reason="control", p=(0.99, 0.999, 0.98))) for n in range(5)),
    )
    before = harness.list_ids()
    harness.write(*(make_decision_output(f"f{n}", "ok") for n in range(10)))
    assert harness.list_ids() == [name for name in before if name not in {f"f{n}" for n in range(10)}]


def test_controls_alone_are_in_the_order_of_their_priority(harness: QueueHarness) -> None:
    harness.write(
        *(make_review_output(make_assessment(f"c{n}", reason="control", p=(0.9, 0.1 * n, 0.95))) for n in (3, 1, 2))
    )
    assert harness.list_ids() == ["c1", "c2", "c3"]
    harness.write(make_scored_output("f", 0.2))
    assert harness.list_ids(dataset="default")[-1] in ("c1", "c2", "c3", "f")
    harness.write(Output(TOPICS.review, b"default/f", None))
    assert harness.list_ids() == ["c1", "c2", "c3"]


@pytest.mark.parametrize("value", [1e-9, 0.0312, 0.5, 0.97, 1.7, -3.2])
def test_shown_numbers_are_slightly_worse(value: float) -> None:
    shifted = [shift_down(value, by) for by in (0.0, MAX_LOGIT_SHIFT / 2, MAX_LOGIT_SHIFT)]
    assert all(number is not None for number in shifted)
    assert shifted == sorted(shifted, reverse=True)  # type: ignore[type-var]  # none is none
    assert shifted[0] == pytest.approx(value)
    assert len(set(shifted)) == 3


@pytest.mark.parametrize("value", [None, 0.0, 3.0, -2.0, 0.75, 2 / 3, 11 / 12])
def test_counts_and_shares_of_words_stay_what_they_are(value: float | None) -> None:
    assert shift_score_down(value, MAX_LOGIT_SHIFT) == value


def test_other_scores_move() -> None:
    assert shift_score_down(0.031234567, MAX_LOGIT_SHIFT) == shift_down(0.031234567, MAX_LOGIT_SHIFT) != 0.031234567


# -- counts ---------------------------------------------------------------------------------------------------


def test_counts_agree_with_the_filters_of_the_queue(harness: QueueHarness) -> None:
    """A pair or an annotator with fewer items here than in the queue would tell controls apart."""
    harness.write(
        make_settings_output(name="default", control_share=0.5),
        *(
            make_scored_output(f"f{n}", 0.1 + n / 37, score=0.1 + n / 37, scored_at=minutes_after_now(0))
            for n in range(4)
        ),
        control("c", annotator="zoe", labels=("O", "O", "O"), suggested="B-LOC"),
    )
    overview = harness.queue.build_overview("default")
    assert {(pair.given, pair.suggested): pair.items for pair in overview.confusions} == {
        ("PER", "ORG"): 4,
        ("O", "LOC"): 1,
    }
    assert len(harness.list_ids(given="O", suggested="LOC")) == 1
    assert (
        {entry.annotator: entry.items for entry in overview.annotators}["zoe"]
        == len(harness.list_ids(annotator="zoe"))
        == 1
    )
    score = harness.get_item("c").score
    assert score is not None
    assert sum(score_bin.items for score_bin in overview.scores if score_bin.low <= score < score_bin.high) >= 1
    assert sum(score_bin.items for score_bin in overview.scores) == 5

    harness.write(make_decision_output("c", "ok"))
    overview = harness.queue.build_overview("default")
    assert sum(pair.items for pair in overview.confusions) == sum(score_bin.items for score_bin in overview.scores) == 4
    assert "zoe" not in {entry.annotator for entry in overview.annotators}
