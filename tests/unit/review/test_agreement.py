"""Kappa and span F1: values by hand, and the behaviour of the intervals."""

from __future__ import annotations

import numpy as np
import pytest

from service.review.agreement import MAX_BLOCKS, AgreementFigures, compare_answers, measure_agreement

FIRST = ("B-PER", "I-PER", "O", "B-LOC", "O", "O", "O", "B-ORG", "O", "O")
SECOND = ("B-PER", "O", "O", "B-LOC", "O", "O", "B-ORG", "I-ORG", "O", "O")
TYPES = ("O", "O", "O", "O", "B-PER", "B-LOC", "B-ORG")


def make_answers(seed: int, items: int, noise: float = 0.15) -> list[tuple[list[str], list[str]]]:
    random = np.random.default_rng(seed)
    answers = []
    for _ in range(items):
        first = [str(label) for label in random.choice(TYPES, int(random.integers(3, 20)))]
        second = [str(random.choice(TYPES)) if random.random() < noise else label for label in first]
        answers.append((first, second))
    return answers


def test_values_by_hand() -> None:
    """Of 10 words 8 have the same type. By chance: O 6·6, PER 2·1, LOC 1·1, ORG 1·2, so p_e = 41/100.

    Spans: PER 0–2, LOC 3–4, ORG 7–8 and PER 0–1, LOC 3–4, ORG 6–8. One of three and three is the same.
    """
    figures = measure_agreement([[compare_answers(FIRST, SECOND)]], draws=0)
    assert figures.kappa == pytest.approx((0.8 - 0.41) / (1 - 0.41))
    assert figures.f1 == pytest.approx(2 * 1 / 6)
    assert (figures.items, figures.words) == (1, 10)
    assert (figures.kappa_low, figures.f1_high) == (None, None)


def test_where_nothing_is_defined() -> None:
    assert measure_agreement([]) == measure_agreement([[]]) == AgreementFigures()
    figures = measure_agreement([[compare_answers(["O", "O"], ["O", "O"])]])
    assert figures == AgreementFigures(items=1, words=2)
    perfect = measure_agreement([[compare_answers(FIRST, FIRST)] * 3])
    assert (perfect.kappa, perfect.kappa_low, perfect.f1, perfect.f1_low) == (1.0, 1.0, 1.0, 1.0)


def test_several_pairs_are_pooled() -> None:
    good = [compare_answers(FIRST, FIRST)] * 2
    bad = [compare_answers(FIRST, SECOND)]
    figures = measure_agreement([good, bad], draws=0)
    # p_e of the first pair: (6·6 + 2·2 + 1 + 1) / 100 = .42, of the second .41; 20 and 10 words.
    observed, expected = (20 * 1 + 10 * 0.8) / 30, (20 * 0.42 + 10 * 0.41) / 30
    assert figures.kappa == pytest.approx((observed - expected) / (1 - expected))
    assert figures.f1 == pytest.approx(2 * (2 * 3 + 1) / (2 * 6 + 6))
    assert figures.items == 3


def test_intervals_contain_the_estimate_narrow_with_items_and_do_not_change() -> None:
    few, many = (measure_agreement([[compare_answers(*pair) for pair in make_answers(1, n)]]) for n in (12, 600))
    for figures in (few, many):
        assert figures.kappa_low is not None
        assert figures.kappa is not None
        assert figures.kappa_high is not None
        assert figures.kappa_low < figures.kappa < figures.kappa_high
    assert few.kappa_high is not None
    assert few.kappa_low is not None
    assert many.kappa_high is not None
    assert many.kappa_low is not None
    assert many.kappa_high - many.kappa_low < 0.5 * (few.kappa_high - few.kappa_low)
    assert measure_agreement([[compare_answers(*pair) for pair in make_answers(1, 12)]]) == few


def test_intervals_cover_the_true_value() -> None:
    """Of 60 samples of 40 items, about 95 % of the intervals contain the value of very many items."""
    truth = measure_agreement([[compare_answers(*pair) for pair in make_answers(99, 6_000)]], draws=0).kappa
    assert truth is not None
    covered = 0
    for seed in range(60):
        figures = measure_agreement([[compare_answers(*pair) for pair in make_answers(seed, 40)]], draws=300)
        assert figures.kappa_low is not None
        assert figures.kappa_high is not None
        covered += figures.kappa_low <= truth <= figures.kappa_high
    assert 50 <= covered <= 60


def test_many_items_are_drawn_in_blocks_and_all_count() -> None:
    comparisons = [compare_answers(*pair) for pair in make_answers(3, 3 * MAX_BLOCKS + 1)]
    figures = measure_agreement([comparisons], draws=50)
    assert figures.items == len(comparisons)
    assert figures.words == sum(comparison.words for comparison in comparisons)
