from __future__ import annotations

import numpy as np
import pytest

from service.review.queue.recall import ControlOutcome, compute_recall, compute_wilson_interval
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
    found = compute_recall(controls, flagged=50, decided=40, wrong=24)
    assert found.recall == pytest.approx(30 / (30 + 10))
    assert (found.controls, found.controls_decided, found.controls_wrong) == (100, 80, 4)
    low, high = compute_wilson_interval(0.05, 80)
    assert found.low == pytest.approx(24 / (24 + 200 * high))
    most = 24 + 10 * compute_wilson_interval(24 / 40, 40)[1]
    assert found.high == pytest.approx(most / (most + 200 * low))


def test_controls_count_by_what_they_stand_for() -> None:
    controls = [ControlOutcome(0.1, True), ControlOutcome(1.0, False), ControlOutcome(1.0, False)]
    found = compute_recall(controls, flagged=10, decided=10, wrong=10)
    assert found.recall == pytest.approx(10 / (10 + 10))


def test_without_a_decided_control_nothing_is_said() -> None:
    found = compute_recall([ControlOutcome(0.5, None)], flagged=5, decided=5, wrong=5)
    assert (found.recall, found.low, found.high) == (None, None, None)
    assert found.flagged_wrong == 5


def test_without_a_decided_flagged_sentence_nothing_is_said_and_few_say_little() -> None:
    controls = [ControlOutcome(1.0, n == 0) for n in range(4)]
    assert compute_recall(controls, flagged=500, decided=0, wrong=0).recall is None
    early = compute_recall(controls, flagged=500, decided=1, wrong=0)
    assert early.high is not None
    assert early.high > 0.5


def test_where_nothing_is_wrong_anywhere_nothing_is_said() -> None:
    assert compute_recall([ControlOutcome(0.5, False)], flagged=0, decided=0, wrong=0).recall is None


def test_errors_that_only_controls_found_are_a_recall_of_nothing() -> None:
    found = compute_recall([ControlOutcome(0.5, True)] * 3, flagged=4, decided=4, wrong=0)
    assert (found.recall, found.low, found.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("share", "n", "low", "high"), [(0.0, 10, 0.0, 0.2775), (0.5, 10, 0.2366, 0.7634)])
def test_wilson(share: float, n: int, low: float, high: float) -> None:
    assert compute_wilson_interval(share, n) == pytest.approx((low, high), abs=1e-4)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        wrong = random.random(3_000) < 0.05  # unflagged sentences that are wrong
        flagged_wrong = 120
        truth = flagged_wrong / (flagged_wrong + wrong.sum())
        drawn = random.random(3_000) < 0.1
        found = compute_recall(
            [ControlOutcome(0.1, bool(y)) for y in wrong[drawn]], flagged=150, decided=150, wrong=flagged_wrong
        )
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert 0.92 <= held / 400 <= 0.99


def test_the_queue_estimates_it(desk: QueueHarness) -> None:
    desk.write(
        make_settings_output(name="default", control_share=0.25),
        *(make_review_output(make_assessment(f"f{n}")) for n in range(4)),
        *(make_review_output(make_assessment(f"c{n}", reason="control", inclusion_probability=0.5)) for n in range(4)),
        make_review_output(
            make_assessment("old", reason="control")
        ),  # it doesn't say with what chance: the share that is set
    )
    desk.write(
        *(decide_item(desk.get_item(f"f{n}"), "error") for n in range(3)),
        decide_item(desk.get_item("f3"), "ok"),
        decide_item(desk.get_item("c0"), "error"),
        decide_item(desk.get_item("c1"), "ok"),
    )
    found = desk.queue.estimate_recall("default")
    assert found.recall == pytest.approx(3 / (3 + 12 * 0.5))
    assert (found.controls, found.flagged, found.flagged_decided, found.flagged_wrong) == (5, 4, 4, 3)
    # Corrected since: what was found stays found.
    desk.write(
        *(make_review_output(make_assessment(name, reason="update", update=True, revision=1)) for name in ("f0", "c0"))
    )
    assert desk.queue.estimate_recall("default") == found
    assert desk.queue.estimate_recall("nobody").recall is None
