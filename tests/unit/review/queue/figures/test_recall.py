from __future__ import annotations

import numpy as np
import pytest

from service.review.queue.figures.recall import ControlOutcome, compute_recall, compute_wilson_interval
from tests.support.review_queue import (
    QueueHarness,
    decide_item,
    make_assessment,
    make_review_output,
    make_settings_output,
)


def test_recall_by_hand() -> None:
    # 200 unflagged sentences (100 controls drawn with 1/2), 4 of 80 decided are wrong: about 10 were missed.
    controls = [ControlOutcome(0.5, n < 4 if n < 80 else None) for n in range(100)]
    estimate = compute_recall(controls, flagged=50, decided=40, wrong=24)
    assert estimate.recall == pytest.approx(30 / (30 + 10))
    assert (estimate.controls, estimate.controls_decided, estimate.controls_wrong) == (100, 80, 4)
    low, high = compute_wilson_interval(0.05, 80)
    assert estimate.low == pytest.approx(24 / (24 + 200 * high))
    max_found = 24 + 10 * compute_wilson_interval(24 / 40, 40)[1]
    assert estimate.high == pytest.approx(max_found / (max_found + 200 * low))


def test_a_control_counts_for_the_sentences_it_stands_for() -> None:
    controls = [ControlOutcome(0.1, True), ControlOutcome(1.0, False), ControlOutcome(1.0, False)]
    estimate = compute_recall(controls, flagged=10, decided=10, wrong=10)
    assert estimate.recall == pytest.approx(10 / (10 + 10))


def test_without_a_decided_control_there_is_no_estimate() -> None:
    estimate = compute_recall([ControlOutcome(0.5, None)], flagged=5, decided=5, wrong=5)
    assert (estimate.recall, estimate.low, estimate.high) == (None, None, None)
    assert estimate.flagged_wrong == 5


def test_without_a_decided_flagged_sentence_there_is_no_estimate_and_with_few_a_wide_one() -> None:
    controls = [ControlOutcome(1.0, n == 0) for n in range(4)]
    assert compute_recall(controls, flagged=500, decided=0, wrong=0).recall is None
    early = compute_recall(controls, flagged=500, decided=1, wrong=0)
    assert early.high is not None
    assert early.high > 0.5


def test_without_any_error_there_is_no_estimate() -> None:
    assert compute_recall([ControlOutcome(0.5, False)], flagged=0, decided=0, wrong=0).recall is None


def test_errors_among_controls_only_are_a_recall_of_zero() -> None:
    estimate = compute_recall([ControlOutcome(0.5, True)] * 3, flagged=4, decided=4, wrong=0)
    assert (estimate.recall, estimate.low, estimate.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("share", "n", "low", "high"), [(0.0, 10, 0.0, 0.2775), (0.5, 10, 0.2366, 0.7634)])
def test_wilson(share: float, n: int, low: float, high: float) -> None:
    assert compute_wilson_interval(share, n) == pytest.approx((low, high), abs=1e-4)


def test_the_interval_covers_the_truth_at_its_rate() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        wrong = random.random(3_000) < 0.05  # unflagged sentences that are wrong
        flagged_wrong = 120
        truth = flagged_wrong / (flagged_wrong + wrong.sum())
        drawn = random.random(3_000) < 0.1
        estimate = compute_recall(
            [ControlOutcome(0.1, bool(y)) for y in wrong[drawn]], flagged=150, decided=150, wrong=flagged_wrong
        )
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= truth <= estimate.high
    assert 0.92 <= covered / 400 <= 0.99


def test_the_queue_estimates_it(harness: QueueHarness) -> None:
    harness.write(
        make_settings_output(name="default", control_share=0.25),
        *(make_review_output(make_assessment(f"f{n}")) for n in range(4)),
        *(make_review_output(make_assessment(f"c{n}", reason="control", inclusion_probability=0.5)) for n in range(4)),
        make_review_output(make_assessment("old", reason="control")),  # without a probability: the current share counts
    )
    harness.write(
        *(decide_item(harness.get_item(f"f{n}"), "error") for n in range(3)),
        decide_item(harness.get_item("f3"), "ok"),
        decide_item(harness.get_item("c0"), "error"),
        decide_item(harness.get_item("c1"), "ok"),
    )
    estimate = harness.queue.estimate_recall("default")
    assert estimate.recall == pytest.approx(3 / (3 + 12 * 0.5))
    assert (estimate.controls, estimate.flagged, estimate.flagged_decided, estimate.flagged_wrong) == (5, 4, 4, 3)
    # The sentences were corrected since: the errors still count.
    harness.write(
        *(make_review_output(make_assessment(name, reason="update", update=True, revision=1)) for name in ("f0", "c0"))
    )
    assert harness.queue.estimate_recall("default") == estimate
    assert harness.queue.estimate_recall("nobody").recall is None
