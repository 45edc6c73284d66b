"""Counts of the queue and its decisions."""

from __future__ import annotations

from contextlib import closing

import pytest

from service.review.queue.queue import ReviewQueue
from tests.support.review_queue import (
    MemoryLog,
    QueueHarness,
    decide_item,
    make_assessment,
    make_decision_output,
    make_review_output,
    make_scored_output,
    make_settings_output,
    minutes_after_now,
)


def test_precision_by_pair_and_method_survives_the_correction(harness: QueueHarness) -> None:
    harness.write(
        make_scored_output("a", 0.1), make_scored_output("b", 0.2), make_scored_output("c", 0.3, suggested="O")
    )
    harness.write(
        decide_item(harness.get_item("a"), "error", words=[1]),
        decide_item(harness.get_item("b"), "ok"),
        decide_item(harness.get_item("c"), "error", words=[0]),  # an error, but not in the flagged word
    )
    counts = {
        (pair.given, pair.suggested): (pair.right, pair.decided) for pair in harness.queue.compute_pair_precision()
    }
    assert counts == {("PER", "ORG"): (1, 2), ("PER", "O"): (0, 1)}
    harness.write(make_review_output(make_assessment("a", reason="update", revision=1, update=True)))
    assert harness.get_item("a").state == "closed"
    assert {(pair.given, pair.suggested): pair.precision for pair in harness.queue.compute_pair_precision()} == {
        ("PER", "ORG"): 0.5,
        ("PER", "O"): 0.0,
    }


def test_evenly_split_reviewers_do_not_count(harness: QueueHarness) -> None:
    harness.write(
        make_scored_output("a", 0.1),
        make_decision_output("a", "ok"),
        make_decision_output("a", "error", reviewer="bob"),
    )
    assert harness.queue.compute_pair_precision() == []
    harness.write(make_decision_output("a", "error", reviewer="cem"))
    assert [(pair.right, pair.decided) for pair in harness.queue.compute_pair_precision()] == [(1, 1)]


def test_the_threshold_history_has_the_last_assessment_of_each_day(harness: QueueHarness) -> None:
    day = 24 * 60
    for sentence_id, minutes, threshold in (("a", 0, 0.5), ("b", 1, 0.6), ("c", 2 * day, 0.7), ("d", day, 0.8)):
        at = minutes_after_now(minutes)
        harness.write(make_scored_output(sentence_id, 0.2, scored_at=at, thresholds={"O": threshold, "B-PER": None}))
    harness.write(make_scored_output("x", 0.1, dataset="other", scored_at=minutes_after_now(5 * day)))
    points = harness.queue.list_threshold_points("default")
    assert [(point.at, point.thresholds["O"]) for point in points] == [
        (minutes_after_now(1), 0.6),
        (minutes_after_now(day), 0.8),
        (minutes_after_now(2 * day), 0.7),
    ]
    assert points[0].thresholds["B-PER"] is None
    assert harness.queue.list_threshold_points("nobody") == ()


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


def test_the_threshold_history_is_bounded(harness: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.review.queue.figures.overview.MAX_THRESHOLD_DAYS", 2)
    harness.write(*(make_scored_output(f"s-{n}", 0.2, scored_at=minutes_after_now(24 * 60 * n)) for n in range(4)))
    points = harness.queue.list_threshold_points("default")
    assert [point.at for point in points] == [minutes_after_now(24 * 60 * n) for n in (2, 3)]


def test_the_overview_adds_up(harness: QueueHarness) -> None:
    harness.write(
        make_settings_output(name="default", control_share=0.5),
        *(make_scored_output(f"s{n}", 0.1 * (n + 1), annotator=("zoe", None)[n % 2]) for n in range(6)),
        make_scored_output("x", 0.1, dataset="other", scored_at=minutes_after_now(24 * 60)),
        make_review_output(make_assessment("c", reason="control")),
    )
    harness.write(
        decide_item(harness.get_item("s0"), "error"),
        decide_item(harness.get_item("s1"), "ok"),
        decide_item(harness.get_item("s2"), "unsure"),
    )
    overview = harness.queue.build_overview("default")
    assert overview.counts == {"open": 4, "adjudication": 0, "decided": 3, "closed": 0}
    assert overview.verdicts == {"error": 1, "ok": 1, "unsure": 1}
    assert overview.precision == 0.5
    (day,) = overview.days
    assert (day.day, day.flagged, day.controls, day.decided, day.errors, day.precision) == (
        "2024-05-31",
        6,
        1,
        2,
        1,
        0.5,
    )
    assert sum(score_bin.items for score_bin in overview.scores) == 7  # with the open control sentence
    assert (overview.scores[0].low, overview.scores[-1].high) == (0.0, 1.0)
    (confusion,) = overview.confusions
    assert (confusion.given, confusion.suggested, confusion.items, confusion.decided, confusion.right) == (
        "PER",
        "ORG",
        7,
        2,
        1,
    )
    assert [(entry.annotator, entry.items, entry.decided, entry.errors) for entry in overview.annotators] == [
        (None, 4, 1, 0),
        ("zoe", 3, 1, 1),
    ]
    everything = harness.queue.build_overview()
    assert [day.day for day in everything.days] == ["2024-05-31", "2024-06-01"]
    assert harness.queue.count_items_by_dataset()["other"] == {"open": 1, "adjudication": 0, "decided": 0, "closed": 0}
    assert harness.queue.build_overview("nobody").counts == {"open": 0, "adjudication": 0, "decided": 0, "closed": 0}


def test_scores_outside_0_and_1_have_bins_too(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1, score=-7.5), make_scored_output("b", 0.1, score=2.0))
    bins = harness.queue.build_overview("default").scores
    assert (bins[0].low, bins[0].items, bins[-1].items) == (-7.5, 1, 1)


def test_scores_near_0_and_1_have_narrow_bins(harness: QueueHarness) -> None:
    for name, score in (("a", 0.0), ("b", 5e-5), ("c", 2e-4), ("d", 0.1), ("e", 0.9995), ("f", 1.0)):
        harness.write(make_scored_output(name, 0.1, score=score))
    bins = harness.queue.build_overview("default").scores
    assert {score_bin.low: score_bin.items for score_bin in bins if score_bin.items} == {
        0.0: 2,
        1e-4: 1,
        0.1: 1,
        0.999: 2,
    }
    assert [score_bin.high for score_bin in bins[:-1]] == [score_bin.low for score_bin in bins[1:]]


def test_counts_by_reviewer_and_model(harness: QueueHarness) -> None:
    other = {"name": "other", "fingerprint": "beef"}
    harness.write(
        *(make_scored_output(name, 0.1) for name in "abc"),
        make_scored_output("d", 0.1, model=other),
        make_scored_output("e", 0.1, model=other, dataset="blogs"),
        make_decision_output("a", "ok"),
        make_decision_output("a", "error", reviewer="bob"),
        make_decision_output("b", "unsure", reviewer="bob"),
        make_decision_output("c", "ok", reviewer="cem", withdrawn=True),
    )
    overview = harness.queue.build_overview("default")
    assert [(entry.reviewer, entry.decisions) for entry in overview.reviewers] == [("bob", 2), ("ann", 1)]
    assert [(entry.model, entry.items) for entry in overview.models] == [("tiny", 3), ("other", 1)]
    everything = harness.queue.build_overview()
    assert [(entry.model, entry.items) for entry in everything.models] == [("tiny", 3), ("other", 2)]
    assert harness.queue.build_overview("blogs").reviewers == ()
