from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import hypergeom

from service.scoring.acceptance import (
    Delivery,
    SampledStratum,
    count_items_to_review,
    estimate_error_rate,
    find_sufficient_share,
)
from service.scoring.finite_population import compute_bounds, compute_cdf
from tests.support.simulated_deliveries import KINDS, DeliveryKind, simulate_delivery

DELIVERIES = 1_000
MIN_COVERAGE = 0.93


@pytest.mark.parametrize(
    ("size", "total_wrong", "sample"),
    [
        (10, 3, 4),
        (10, 0, 4),
        (10, 10, 4),
        (1, 1, 1),
        (500, 20, 480),
        (200_000, 60, 3_000),
        (3_000, 2_500, 700),
        (400_000, 90_000, 100_000),
    ],
)
def test_probabilities_are_those_of_scipy(size: int, total_wrong: int, sample: int) -> None:
    for wrong in range(0, sample + 1, max(1, sample // 25)):
        expected = hypergeom(size, total_wrong, sample).cdf(wrong)
        assert compute_cdf(wrong, size, total_wrong, sample) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_bounds_by_hand() -> None:
    assert compute_bounds(20, 20, 7, 0.025) == (7, 7), "everything was looked at"
    assert compute_bounds(20, 0, 0, 0.025) == (0, 20), "nothing was looked at"
    low, high = compute_bounds(1_000, 100, 0, 0.025)
    assert low == 0
    assert hypergeom(1_000, high, 100).cdf(0) > 0.025 >= hypergeom(1_000, high + 1, 100).cdf(0)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_the_interval_contains_the_true_rate(kind: DeliveryKind) -> None:
    rng = np.random.default_rng((5, *kind.name.encode()))
    covered = 0
    for _ in range(DELIVERIES):
        simulated = simulate_delivery(kind, rng)
        rate = estimate_error_rate(simulated.delivery)
        covered += rate.low - 1e-12 <= simulated.true_rate <= rate.high + 1e-12
        assert rate.estimate is None or rate.low <= rate.estimate <= rate.high
    assert covered / DELIVERIES >= MIN_COVERAGE


def test_a_sample_without_what_was_annotated_again_would_look_too_good() -> None:
    """Why such sentences stay in the sample, decided without a result."""
    kind = next(kind for kind in KINDS if kind.name == "errors annotated again")
    rng = np.random.default_rng((5, *kind.name.encode()))
    covered = 0
    for _ in range(DELIVERIES):
        simulated = simulate_delivery(kind, rng)
        sampled = tuple(replace(stratum, unsure=0) for stratum in simulated.delivery.sampled)
        covered += simulated.true_rate <= estimate_error_rate(replace(simulated.delivery, sampled=sampled)).high
    assert covered / DELIVERIES < MIN_COVERAGE


def test_a_complete_review_leaves_no_doubt() -> None:
    delivery = Delivery(flagged=10, flagged_ok=4, flagged_wrong=6, sampled=(SampledStratum(90, ok=89, wrong=1),))
    rate = estimate_error_rate(delivery)
    assert (rate.low, rate.estimate, rate.high) == (0.07, 0.07, 0.07)
    assert [rate.decide(limit) for limit in (0.06, 0.07, 0.08)] == ["reject", "accept", "accept"]


def test_what_nobody_can_know_counts_as_right_and_as_wrong() -> None:
    undecided = Delivery(flagged=10, flagged_open=10, sampled=(SampledStratum(90, ok=90),))
    assert estimate_error_rate(undecided).high == pytest.approx(0.1)
    assert estimate_error_rate(undecided).estimate is None
    unsampled = Delivery(flagged=10, flagged_ok=10, sampled=(SampledStratum(45, ok=45),), unsampled=45)
    assert (estimate_error_rate(unsampled).low, estimate_error_rate(unsampled).high) == (0, 0.45)
    unsure = Delivery(sampled=(SampledStratum(100, ok=90, unsure=10),))
    assert (estimate_error_rate(unsure).low, estimate_error_rate(unsure).high) == (0, 0.1)


def test_an_empty_batch_has_no_verdict() -> None:
    assert estimate_error_rate(Delivery()).decide(0.03) == "review"


def test_the_items_to_review_lead_to_a_verdict() -> None:
    stratum = SampledStratum(4_000, ok=30, wrong=0, open=270)
    delivery = Delivery(flagged=200, flagged_ok=20, flagged_wrong=10, flagged_open=170, sampled=(stratum,))
    items = count_items_to_review(delivery, 0.05)
    assert items is not None
    assert 0 < items <= delivery.open
    done = round(items * 270 / delivery.open)
    flagged = round(items * 170 / delivery.open)
    after = Delivery(
        flagged=200,
        flagged_ok=20 + flagged - flagged // 3,
        flagged_wrong=10 + flagged // 3,
        sampled=(SampledStratum(4_000, ok=30 + done),),
    )
    assert estimate_error_rate(after).decide(0.05) == "accept"


def test_a_sample_that_is_too_small_says_which_share_would_do() -> None:
    delivery = Delivery(flagged=50, flagged_ok=45, flagged_wrong=5, sampled=(SampledStratum(2_000, ok=20),))
    assert count_items_to_review(delivery, 0.03) is None
    share = find_sufficient_share(delivery, 0.03)
    assert share is not None
    drawn = round(share * 2_000)
    enough = Delivery(flagged=50, flagged_ok=45, flagged_wrong=5, sampled=(SampledStratum(2_000, ok=drawn),))
    assert estimate_error_rate(enough).decide(0.03) == "accept"


def test_a_rate_at_the_limit_needs_a_complete_review() -> None:
    delivery = Delivery(sampled=(SampledStratum(1_000, ok=97, wrong=3),))
    share = find_sufficient_share(delivery, 0.03)
    assert share is None or share > 0.9


def test_the_plan_of_a_large_batch_looks_at_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of batches has a plan for each of them."""
    looked_at: list[int] = []

    def count_bounds(size: int, sample: int, wrong: int, tail: float) -> tuple[int, int]:
        looked_at.append(sample)
        return compute_bounds(size, sample, wrong, tail)

    monkeypatch.setattr("service.scoring.acceptance.compute_bounds", count_bounds)
    stratum = SampledStratum(1_000_000, ok=4_850, wrong=150, open=5_000)
    delivery = Delivery(
        flagged=50_000, flagged_ok=16_000, flagged_wrong=16_000, flagged_open=16_000, sampled=(stratum,)
    )
    assert count_items_to_review(delivery, 0.05) is None
    assert find_sufficient_share(delivery, 0.05) is not None
    assert count_items_to_review(delivery, 0.06) is not None
    assert len(looked_at) < 150
