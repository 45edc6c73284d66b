from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as example_of
from hypothesis import settings
from hypothesis import strategies as st

from service.contracts.defaults import MIN_WORDS
from service.errors import InvalidInput
from service.scoring.confident import UNREACHABLE_THRESHOLD, compute_agreement_weights, compute_thresholds
from service.statistics import (
    SCALE,
    ClassStats,
    HeldOutStats,
    compute_flag_thresholds,
    compute_priority_weights,
    find_warming_up,
)


def stats_of(*classes: tuple[float, int]) -> ClassStats:
    """Statistics with this mean and number of words per class, half of the words agreed with at that mean."""
    sums = tuple(round(mean * n * SCALE) for mean, n in classes)
    halves = tuple(n // 2 for _, n in classes)
    return ClassStats(
        sums,
        tuple(n for _, n in classes),
        tuple(round(mean * n * SCALE) for (mean, _), n in zip(classes, halves, strict=True)),
        halves,
    )


def random_stats(seed: int, n: int, k: int = 4) -> ClassStats:
    rng = np.random.default_rng(seed)
    return ClassStats.empty(k).update(rng.dirichlet(np.full(k, 0.3), n), rng.integers(0, k, n))


@settings(deadline=None, max_examples=50)
@example_of(st.integers(0, 10**6), st.integers(0, 40))
def test_without_prior_and_minimum_they_are_the_plain_thresholds(seed: int, n: int) -> None:
    stats = random_stats(seed, n)
    expected = compute_thresholds(np.array(stats.sums) / SCALE, np.array(stats.counts))
    assert compute_flag_thresholds(stats, None, min_words=0).tobytes() == expected.tobytes()
    assert stats.compute_thresholds().tobytes() == expected.tobytes()
    no_words = HeldOutStats((0.0,) * 4, (0,) * 4)
    assert compute_flag_thresholds(stats, no_words, min_words=0).tobytes() == expected.tobytes()
    some_words = HeldOutStats((1.0,) * 4, (2,) * 4)
    assert compute_flag_thresholds(stats, some_words, prior_words=0, min_words=0).tobytes() == expected.tobytes()


def test_a_class_needs_its_minimum_of_words_or_a_prior() -> None:
    stats = stats_of((0.5, MIN_WORDS), (0.5, MIN_WORDS - 1), (0.5, 1))
    assert compute_flag_thresholds(stats, None).tolist() == [0.5, UNREACHABLE_THRESHOLD, UNREACHABLE_THRESHOLD]
    held_out = HeldOutStats((0.0, 9.0, 0.0), (0, 10, 0))
    assert compute_flag_thresholds(stats, held_out).tolist() == pytest.approx(
        [0.5, (9.5 + 180) / 219, UNREACHABLE_THRESHOLD]
    )
    assert compute_flag_thresholds(stats, held_out, min_words=1).tolist() == pytest.approx([0.5, 189.5 / 219, 0.5])


def test_the_prior_is_worth_its_words_however_many_were_held_out() -> None:
    few, many = HeldOutStats((0.8,), (1,)), HeldOutStats((8000.0,), (10_000,))
    assert compute_flag_thresholds(ClassStats.empty(1), few).tolist() == pytest.approx([0.8])
    for held_out in (few, many):
        assert compute_flag_thresholds(stats_of((0.4, 200)), held_out).tolist() == pytest.approx([0.6])
        assert compute_flag_thresholds(stats_of((0.4, 100)), held_out, prior_words=300).tolist() == pytest.approx([0.7])


def test_warming_up_counts_own_words_only() -> None:
    stats = stats_of((0.5, MIN_WORDS), (0.5, MIN_WORDS - 1), (0.5, 0))
    assert find_warming_up(stats) == (1, 2)
    assert find_warming_up(stats, 1) == (2,)
    assert find_warming_up(stats, 0) == ()


def test_held_out_statistics_must_fit() -> None:
    with pytest.raises(InvalidInput, match="2 classes for 1"):
        compute_flag_thresholds(ClassStats.empty(1), HeldOutStats((1.0, 1.0), (2, 2)))
    with pytest.raises(InvalidInput, match="1 sums for 2 counts"):
        HeldOutStats((1.0,), (2, 2))
    for total, n in ((1.0, -1), (float("nan"), 3), (float("inf"), 3), (4.0, 3), (-1.0, 3), (1.0, 0)):
        with pytest.raises(InvalidInput, match="class 1"):
            HeldOutStats((0.0, total), (0, n))


def test_priority_starts_from_20_words_at_95_on_both_means() -> None:
    assert compute_priority_weights(ClassStats.empty(3)).tolist() == pytest.approx([1, 1, 1])
    stats = stats_of((0.99, 1000), (0.6, 10))
    given = [(990 + 19) / 1020, (6 + 19) / 30]
    agreeing = [(495 + 19) / 520, (3 + 19) / 25]
    weights = compute_priority_weights(stats)
    np.testing.assert_allclose(weights, compute_agreement_weights(np.array(given), np.array(agreeing)), rtol=1e-12)
    exponent = (1 - agreeing[1]) / (1 - given[1])
    assert weights.tolist() == pytest.approx([1, (1 - agreeing[0] + agreeing[1]) ** exponent])


def test_another_prior_of_priority_can_be_asked_for() -> None:
    stats = stats_of((0.99, 1000), (0.6, 10))
    weights = compute_priority_weights(stats, prior_words=0)
    np.testing.assert_allclose(
        weights, compute_agreement_weights(np.array([0.99, 0.6]), np.array([0.99, 0.6])), rtol=1e-9
    )


@settings(deadline=None, max_examples=50)
@example_of(st.integers(0, 10**6), st.integers(0, 400))
def test_neither_is_ever_not_a_number(seed: int, n: int) -> None:
    stats = random_stats(seed, n)
    assert np.isfinite(compute_flag_thresholds(stats, None)).all()
    weights = compute_priority_weights(stats)
    assert ((weights > 0) & (weights <= 1)).all()
