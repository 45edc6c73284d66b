"""The report of a batch, from the counts of the stream and the decisions in the queue."""

from __future__ import annotations

from typing import Any

import pytest

from service.review.queue.figures.batches import BatchOutcomes, Outcomes, build_batch_report
from service.statistics.batches import BatchCounts
from tests.support.review_queue import (
    QueueHarness,
    decide_item,
    make_assessment,
    make_review_output,
    make_settings_output,
)


def send(harness: QueueHarness, *ids: str, **fields: Any) -> None:
    harness.write(*(make_review_output(make_assessment(each, batch="7", **fields)) for each in ids))


def read(harness: QueueHarness) -> BatchOutcomes:
    return harness.queue.read_batch_outcomes("default", "7")


def test_outcomes_by_reason_and_control_share(harness: QueueHarness) -> None:
    send(harness, "a", "b", "c", "d")
    send(harness, "e", "f", reason="control", inclusion_probability=0.05)
    send(harness, "g", reason="control", inclusion_probability=0.1)
    harness.write(make_review_output(make_assessment("other", batch="8")))
    for sentence_id, verdict in (("a", "error"), ("b", "ok"), ("c", "unsure"), ("e", "ok"), ("g", "error")):
        harness.write(decide_item(harness.get_item(sentence_id), verdict))
    assert read(harness) == BatchOutcomes(
        Outcomes(ok=1, wrong=1, unsure=1, open=1), (("0.05", Outcomes(ok=1, open=1)), ("0.1", Outcomes(wrong=1)))
    )


def test_a_sentence_counts_as_it_was_delivered(harness: QueueHarness) -> None:
    send(harness, "a", "b")
    harness.write(decide_item(harness.get_item("a"), "error"))
    send(harness, "a", "b", "new", revision=1, update=True)
    assert read(harness).flagged == Outcomes(wrong=1), (
        "b is gone, and the annotation of new replaces one before the batch"
    )
    assert harness.list_ids(batch="7") == ["a", "b", "new"]


def test_what_is_in_adjudication_has_no_result(harness: QueueHarness) -> None:
    harness.write(make_settings_output(name="default", overlap=2, version=1))
    send(harness, "a", reason="control", inclusion_probability=0.05)
    for reviewer, verdict in (("ann", "ok"), ("bob", "error")):
        harness.write(decide_item(harness.get_item("a"), verdict, reviewer=reviewer))
    assert read(harness).controls == (("0.05", Outcomes(unsure=1)),)


def test_a_control_sentence_that_is_annotated_again_before_its_decision_stays_in_the_sample() -> None:
    """It counts both ways, as one decided without a result: it may have been annotated again because it was wrong."""
    counts = BatchCounts(0, {"0.5": 200}, drawn={"0.5": 100})
    kept = BatchOutcomes(controls=(("0.5", Outcomes(ok=97)),))
    report = build_batch_report("med", "7", counts, kept, max_error_rate=0.05)
    assert (report.controls, report.controls_decided, report.controls_lost) == (100, 97, 3)
    unsure = build_batch_report("med", "7", counts, BatchOutcomes(controls=(("0.5", Outcomes(ok=97, unsure=3)),)))
    dropped = build_batch_report("med", "7", BatchCounts(0, {"0.5": 200}), kept)
    assert (report.low, report.high) == (unsure.low, unsure.high)
    assert report.high > dropped.high + 0.01
    closed = BatchOutcomes(controls=(("0.5", Outcomes(ok=97, closed=3)),))
    assert build_batch_report("med", "7", counts, closed).high == report.high, "deleted with its task"
    assert build_batch_report("med", "7", counts, BatchOutcomes()).controls_lost == 100


def test_the_report() -> None:
    counts = BatchCounts(20, {"0.5": 180}, 1_764_000_000_000)
    outcomes = BatchOutcomes(Outcomes(ok=12, wrong=8), (("0.5", Outcomes(ok=90)),))
    report = build_batch_report("med", "7", counts, outcomes, max_error_rate=0.1)
    assert (report.sentences, report.flagged, report.flagged_wrong, report.controls, report.open) == (200, 20, 8, 90, 0)
    assert report.error_rate == pytest.approx(0.04)
    assert report.low == pytest.approx(0.04)
    assert report.verdict == "accept"
    assert report.advice is None
    assert build_batch_report("med", "7", counts, outcomes, max_error_rate=0.03).verdict == "reject"
    assert build_batch_report("med", "7", counts, outcomes).verdict is None


def test_open_items_that_lead_to_a_verdict_are_advised() -> None:
    counts = BatchCounts(20, {"0.5": 180})
    outcomes = BatchOutcomes(Outcomes(ok=5, wrong=1, open=14), (("0.5", Outcomes(ok=10, open=80)),))
    report = build_batch_report("med", "7", counts, outcomes, max_error_rate=0.1)
    assert report.verdict == "review"
    assert report.items_to_review is not None
    assert f"review about {report.items_to_review} more of the 94 open items" in str(report.advice)


@pytest.mark.parametrize(("still_open", "end"), [(0, "differ"), (3, "differ; review the 3 open ones too")])
def test_items_without_a_result_are_decided_before_another_share_is_named(still_open: int, end: str) -> None:
    counts = BatchCounts(2, {"0.5": 18})
    outcomes = BatchOutcomes(Outcomes(wrong=1, unsure=1), (("0.5", Outcomes(ok=6, open=still_open)),))
    report = build_batch_report("med", "7", counts, outcomes, max_error_rate=0.05)
    assert (report.verdict, report.items_to_review) == ("review", None)
    assert str(report.advice).startswith("first decide the 1 item of the batch without a result")
    assert str(report.advice).endswith(end)


@pytest.mark.parametrize("share", ["0.0", "0.001"])
def test_a_missing_or_small_control_sample_says_what_to_set(share: str) -> None:
    outcomes = BatchOutcomes(Outcomes(ok=18, wrong=2), ())
    report = build_batch_report("med", "7", BatchCounts(20, {share: 980}), outcomes, max_error_rate=0.03)
    assert (report.verdict, report.items_to_review) == ("review", None)
    assert "labelwatch datasets set med control_share=0." in str(report.advice)
    assert "send the sentences again as another batch" in str(report.advice)


@pytest.mark.parametrize(
    "outcomes",
    [BatchOutcomes(Outcomes(ok=3)), BatchOutcomes(controls=(("0.5", Outcomes(open=9)),))],
    ids=["flagged", "control"],
)
def test_more_items_than_were_counted_give_no_verdict(outcomes: BatchOutcomes) -> None:
    report = build_batch_report("med", "7", BatchCounts(2, {"0.5": 8}), outcomes, max_error_rate=0.5)
    assert report.verdict is None
    assert (report.low, report.high, report.error_rate) == (0, 1, None)
    assert "than were counted" in str(report.advice)
