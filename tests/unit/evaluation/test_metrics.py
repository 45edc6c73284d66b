"""Figures against their definitions, computed the slow way."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.evaluation import metrics
from service.evaluation.ranking import METRICS, build_ranking
from service.labels import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

Rows = list[tuple[int, bool]]

few_rows = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)
many_rows = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=2, max_size=40)


def split(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    return np.array([score for score, _ in rows], dtype=float), np.array([wrong for _, wrong in rows])


def walk(wrong: list[bool]) -> dict[str, float]:
    """The paper's own way: rank by rank, in the order given."""
    hits = np.cumsum(wrong)
    precision, recall = hits / np.arange(1, len(wrong) + 1), hits / hits[-1]
    area = sum((recall[i] - recall[i - 1]) * (precision[i] + precision[i - 1]) / 2 for i in range(1, len(wrong)))
    at = {f"precision_{k + 1}": float(p) for k, p in enumerate(precision)}
    return {"auprc": float(area), **at}


def mean_over_orders(rows: Rows) -> dict[str, float]:
    """Mean of the paper's walk over every order in which the scores never fall."""
    walks = [
        walk([wrong for _, wrong in order])
        for order in itertools.permutations(rows)
        if all(a[0] <= b[0] for a, b in itertools.pairwise(order))
    ]
    return {name: float(np.mean([walk[name] for walk in walks])) for name in walks[0]}


@given(few_rows)
@settings(deadline=None, max_examples=80)
def test_ties_give_the_mean_over_all_orders(rows: Rows) -> None:
    scores, wrong = split(rows)
    assume(wrong.any())
    expected = mean_over_orders(rows)
    assert metrics.auprc(scores, wrong) == pytest.approx(expected["auprc"], abs=1e-12)
    for k in range(1, len(rows) + 1):
        precision = expected[f"precision_{k}"]
        assert metrics.precision_at(scores, wrong, k) == pytest.approx(precision, abs=1e-12)
        assert metrics.lift_at(scores, wrong, k) == pytest.approx(precision / wrong.mean(), abs=1e-9)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
@settings(deadline=None, max_examples=60)
def test_without_ties_it_is_the_papers_walk(wrong: list[bool]) -> None:
    assume(any(wrong))
    assert metrics.auprc(np.arange(len(wrong)), wrong) == pytest.approx(walk(wrong)["auprc"], abs=1e-12)


def test_the_curve_starts_at_the_first_ranked_row() -> None:
    """Nothing is added for recall 0, so a perfect ranking of two has the area 1/2, and average precision 1."""
    scores, wrong = [0.1, 0.2, 0.3, 0.4], [True, True, False, False]
    assert metrics.auprc(scores, wrong) == pytest.approx(0.5)
    assert metrics.average_precision(scores, wrong) == pytest.approx(1.0)


@given(many_rows)
@settings(deadline=None, max_examples=80)
def test_auroc_is_the_share_of_pairs_in_order(rows: Rows) -> None:
    scores, wrong = split(rows)
    assume(0 < wrong.sum() < len(wrong))
    pairs = [(a < b) + (a == b) / 2 for a in scores[wrong] for b in scores[~wrong]]
    assert metrics.auroc(scores, wrong) == pytest.approx(np.mean(pairs), abs=1e-12)


@given(many_rows)
@settings(deadline=None, max_examples=80)
def test_average_precision_takes_ties_in_one_step(rows: Rows) -> None:
    scores, wrong = split(rows)
    assume(wrong.any())
    area, before = 0.0, 0.0
    for cut in np.unique(scores):
        chosen = scores <= cut
        recall = wrong[chosen].sum() / wrong.sum()
        area += (recall - before) * wrong[chosen].mean()
        before = recall
    assert metrics.average_precision(scores, wrong) == pytest.approx(area, abs=1e-12)


@given(many_rows, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_no_figure_depends_on_the_order_of_rows(rows: Rows, random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    before, after = metrics.compute_all_metrics(*split(rows)), metrics.compute_all_metrics(*split(shuffled))
    assert before == pytest.approx(after, nan_ok=True)


def test_lift_at_t_and_one_further() -> None:
    scores, wrong = [1, 2, 3, 4, 5, 6, 7, 8], [True, False, True, False, False, False, False, False]
    figures = metrics.compute_all_metrics(scores, wrong)
    assert figures["lift_at_t"] == pytest.approx((1 / 2) / (2 / 8))
    assert figures["lift_at_t1"] == pytest.approx((2 / 3) / (2 / 8))


def test_a_cut_beyond_the_last_row_looks_at_all() -> None:
    assert metrics.precision_at([1, 2, 3, 4], [True, False, False, True], 100) == 0.5
    assert metrics.lift_at([1, 2, 3, 4], [True, False, False, True], 100) == 1.0


def test_nothing_to_find_has_no_figure() -> None:
    assert all(math.isnan(value) for value in metrics.compute_all_metrics([1, 2], [False, False]).values())
    everything = metrics.compute_all_metrics([1, 2], [True, True])
    assert math.isnan(everything["auroc"])
    assert everything["ap"] == 1.0


@pytest.mark.parametrize(
    ("scores", "positives", "message"),
    [
        ([1.0, math.nan], [True, False], "row 1 has no score"),
        ([1.0], [True, False], "each row needs one of both"),
        ([], [], "nothing to rank"),
    ],
)
def test_scores_that_cant_be_ranked(scores: list[float], positives: list[bool], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        metrics.auprc(scores, positives)


@pytest.mark.parametrize("at", [metrics.precision_at, metrics.lift_at])
def test_k_must_be_at_least_one(at: Callable[..., float]) -> None:
    with pytest.raises(InvalidInput, match="k must be at least 1"):
        at([1.0], [True], 0)


def test_noise_matrix_has_the_truth_in_rows() -> None:
    matrix = metrics.compute_noise_matrix(given=[0, 0, 1, 2], corrected=[0, 2, 1, 2], n_classes=3)
    assert matrix.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize(("given", "corrected"), [([0, 3], [0, 1]), ([0, 1], [0, -1]), ([0], [0, 1])])
def test_noise_matrix_refuses_what_does_not_fit(given: list[int], corrected: list[int]) -> None:
    with pytest.raises(InvalidInput):
        metrics.compute_noise_matrix(given, corrected, 3)


def test_entity_f1_counts_exact_spans() -> None:
    truth = [["B-PER", "I-PER", "O"], ["B-LOC", "O", "B-PER"]]
    predicted = [["B-PER", "I-PER", "O"], ["B-ORG", "O", "O"]]
    f1 = metrics.entity_f1(truth, predicted, Scheme.IOB2)
    assert f1 == pytest.approx((1 / 2, 1 / 3, 2 / 5))
    shorter = metrics.entity_f1([["B-PER", "I-PER"]], [["B-PER", "O"]], Scheme.IOB2)
    assert shorter.f1 == 0.0


def test_entity_f1_without_entities_has_no_figure() -> None:
    assert all(math.isnan(value) for value in metrics.entity_f1([["O"]], [["O"]], Scheme.IOB2))


def test_entity_f1_needs_a_prediction_for_each_word() -> None:
    with pytest.raises(InvalidInput, match="sentence 1"):
        metrics.entity_f1([["O"], ["O", "O"]], [["O"], ["O"]], Scheme.IOB2)


def test_resamples_draw_as_many_sentences_as_there_are() -> None:
    draws = metrics.draw_resamples(50, n=30, seed=1)
    assert draws.shape == (30, 50)
    assert (draws.sum(axis=1) == 50).all()
    assert (draws == metrics.draw_resamples(50, n=30, seed=1)).all()
    assert (draws != metrics.draw_resamples(50, n=30, seed=2)).any()
    assert (draws.sum(axis=0) > 0).all()


def repeated(draw: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(draw)), draw)


@pytest.mark.parametrize("block", [1, 2_000_000])
def test_each_resample_has_the_figures_of_its_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_MAX_BLOCK_COUNTS", block)
    rng = np.random.default_rng(3)
    scores, wrong = rng.integers(0, 15, 60).astype(float), rng.random(60) < 0.2
    draws = metrics.draw_resamples(60, n=20, seed=5)
    resampled = metrics.compute_resampled_metrics(build_ranking(scores, wrong), draws)
    for b, draw in enumerate(draws):
        rows = repeated(draw)
        expected = metrics.compute_all_metrics(scores[rows], wrong[rows])
        assert {name: values[b] for name, values in resampled.items()} == pytest.approx(expected, nan_ok=True)


def test_words_are_drawn_with_their_sentence() -> None:
    rng = np.random.default_rng(4)
    units = np.repeat(np.arange(12), 4)
    scores, wrong = rng.integers(0, 9, 48).astype(float), rng.random(48) < 0.3
    draws = metrics.draw_resamples(12, n=8, seed=5)
    resampled = metrics.compute_resampled_metrics(build_ranking(scores, wrong), draws, units=units)
    for b, draw in enumerate(draws):
        rows = repeated(draw[units])
        assert resampled["auprc"][b] == pytest.approx(metrics.auprc(scores[rows], wrong[rows]))


def test_intervals_are_the_middle_of_the_resamples() -> None:
    rng = np.random.default_rng(8)
    wrong = rng.random(200) < 0.3
    scores = rng.normal(size=200) - wrong
    intervals = metrics.bootstrap(scores, wrong, n=400, seed=9)
    assert set(intervals) == set(METRICS)
    draws = metrics.draw_resamples(200, n=400, seed=9)
    values = sorted(metrics.auroc(scores[repeated(draw)], wrong[repeated(draw)]) for draw in draws)
    low, high = intervals["auroc"]
    assert sum(value < low for value in values) == 10
    assert sum(value > high for value in values) == 10
    assert low < metrics.auroc(scores, wrong) < high
    assert metrics.bootstrap(scores, wrong, draws=draws) == intervals


def test_intervals_where_nothing_can_be_found() -> None:
    assert all(math.isnan(end) for ends in metrics.bootstrap([1, 2], [False, False], n=5).values() for end in ends)


def test_paired_differences_share_their_resamples() -> None:
    rng = np.random.default_rng(10)
    wrong = rng.random(150) < 0.2
    good, poor = rng.normal(size=150) - 3 * wrong, rng.normal(size=150)
    difference = metrics.paired_bootstrap(good, poor, wrong, "ap", n=100, seed=1)
    assert difference.difference == pytest.approx(
        metrics.average_precision(good, wrong) - metrics.average_precision(poor, wrong)
    )
    assert 0 < difference.low < difference.difference < difference.high
    assert difference.better == 1.0
    back = metrics.paired_bootstrap(poor, good, wrong, "ap", n=100, seed=1)
    assert (back.low, back.high, back.better) == pytest.approx((-difference.high, -difference.low, 0.0))


def test_a_ranking_does_not_differ_from_itself() -> None:
    scores, wrong = np.arange(30.0), np.arange(30) % 7 == 0
    assert metrics.paired_bootstrap(scores, scores, wrong, n=50) == (0.0, 0.0, 0.0, 0.0)


def test_paired_difference_without_resamples_has_no_interval() -> None:
    difference = metrics.paired_bootstrap([1, 2, 3], [3, 2, 1], [True, False, False], n=0)
    assert difference.difference == pytest.approx(1 - 1 / 3)
    assert math.isnan(difference.low)
    assert math.isnan(difference.better)


def test_paired_bootstrap_refuses_what_does_not_fit() -> None:
    with pytest.raises(InvalidInput, match="auprc, ap, auroc"):
        metrics.paired_bootstrap([1.0], [1.0], [True], "f2")
    with pytest.raises(InvalidInput, match="each row needs one of both"):
        metrics.paired_bootstrap([1.0], [1.0, 2.0], [True])
