from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given as example_of
from hypothesis import settings
from hypothesis import strategies as st

from service.scoring.memory import (
    GATE_SCALE,
    TYPE_SCALE,
    MemoryCounts,
    SmoothingWeights,
    TypeMerge,
    apply_conventions,
    compute_conventions,
    compute_gate,
    smooth_probs,
)

MERGE = TypeMerge(("O", "LOC", "ORG"), (1, 0, 2, 1, 2), 0)  # B-LOC O B-ORG I-LOC I-ORG
WEIGHTS = SmoothingWeights(form=0.4, template=0.1, history=0.3)


def build_counts(
    *,
    with_form: list[int],
    recent: list[list[float]],
    older: list[list[float]] | None = None,
    template: list[list[float]],
    gate: tuple[float, int] = (0.0, 0),
) -> MemoryCounts:
    """Counts in words and probabilities: [n, sums…] per form, [n, sums…, given…] per template."""

    def scale(rows: list[list[float]], n_types: int, width: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        table = np.array(rows, np.float64).reshape(-1, width)
        table[:, 1 : 1 + n_types] *= TYPE_SCALE
        return np.rint(table).astype(np.int64)

    return MemoryCounts(
        with_form,
        scale(recent, 3, 4),
        None if older is None else scale(older, 3, 4),
        scale(template, 3, 7),
        round(gate[0] * GATE_SCALE),
        gate[1],
    )


def test_classes_are_summed_to_types_in_any_order() -> None:
    probs = np.array([[0.1, 0.2, 0.3, 0.15, 0.25]])
    np.testing.assert_allclose(MERGE.sum_types(probs), [[0.2, 0.25, 0.55]])
    identity = TypeMerge(("O", "LOC"), (0, 1), 0)
    assert identity.sum_types(probs[:, :2]).tolist() == probs[:, :2].tolist()


def test_smoothing_follows_the_formula() -> None:
    probs = np.array([[0.3, 0.2, 0.1, 0.3, 0.1], [0.1, 0.6, 0.1, 0.1, 0.1]])
    counts = build_counts(
        with_form=[0],
        recent=[[2, 0.1, 0.2, 1.7]],
        older=[[3, 0.0, 0.0, 3.0]],
        template=[[1, 0.5, 0.25, 0.25, 0, 0, 1], [9, 9, 0, 0, 9, 0, 0]],
    )
    smoothed = smooth_probs(probs, MERGE.sum_types(probs), counts, MERGE, WEIGHTS)
    assert smoothed is not None

    q = [0.2, 0.6, 0.2]
    n_form = 2 + 0.3 * 5
    form_sums = [0.1 + 0.3 * 0.1, 0.2 + 0.3 * 0.2, 1.7 + 0.3 * 4.7]
    template_sums = [0.5, 0.25, 0.25]
    logs = []
    for k in range(3):
        form_mean = (form_sums[k] + 1e-4) / (n_form + 3e-4)
        template_mean = (template_sums[k] + 1e-4) / (1 + 3e-4)
        shift = 0.4 * n_form / (n_form + 0.5) * (math.log(form_mean) - math.log(q[k]))
        shift += 0.1 * 1 / 1.5 * (math.log(template_mean) - math.log(q[k]))
        logs.append(math.log(q[k]) + shift)
    total = sum(math.exp(value) for value in logs)
    expected_types = [math.exp(value) / total for value in logs]
    np.testing.assert_allclose(MERGE.sum_types(smoothed)[0], expected_types, rtol=1e-5)  # sums are fixed-point
    # Classes of one type keep their proportion, and a word without a form keeps its probabilities.
    assert smoothed[0, 2] == pytest.approx(smoothed[0, 4])
    assert smoothed[1].tolist() == probs[1].tolist()


def test_without_earlier_words_nothing_changes() -> None:
    probs = np.array([[0.3, 0.2, 0.1, 0.3, 0.1]])
    counts = build_counts(with_form=[0], recent=[[0, 0, 0, 0]], template=[[0] * 7])
    assert smooth_probs(probs, MERGE.sum_types(probs), counts, MERGE, WEIGHTS) is None
    conventions = compute_conventions(MERGE.sum_types(probs), np.array([1]), counts, 3)
    assert conventions.values.tolist() == [0.0]
    assert (conventions.gate_sum, conventions.gate_words) == (0, 0)


def test_a_probability_of_zero_stays_finite() -> None:
    probs = np.array([[0.0, 1.0, 0.0, 0.0, 0.0]])
    counts = build_counts(with_form=[0], recent=[[5, 0, 5, 0]], template=[[0] * 7])
    smoothed = smooth_probs(probs, MERGE.sum_types(probs), counts, MERGE, WEIGHTS)
    assert smoothed is not None
    assert np.isfinite(smoothed).all()
    assert smoothed.sum() == pytest.approx(1)


def test_a_convention_compares_the_given_type_with_the_likeliest_other() -> None:
    types = np.array([[0.1, 0.7, 0.2], [0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
    template: list[list[float]] = [[4, 0, 0, 0, 0, 1, 3], [4, 0, 0, 0, 0, 1, 3], [0, 0, 0, 0, 0, 0, 0]]
    counts = build_counts(with_form=[], recent=[], template=template)
    conventions = compute_conventions(types, np.array([2, 1, 1]), counts, 3)
    assert conventions.values.tolist() == pytest.approx([(3 - 1) / 5, (1 - 3) / 5, 0.0])
    # Only the first word has a known template and a label that the model disagrees with.
    assert conventions.gate_words == 1
    assert conventions.gate_sum == round(0.4 * GATE_SCALE)


def test_the_gate_opens_where_conventions_were_right() -> None:
    assert compute_gate(0, 0) == 0.0
    assert compute_gate(-5 * GATE_SCALE, 10) == 0.0
    assert compute_gate(2 * GATE_SCALE, 10) == pytest.approx(0.5)
    assert compute_gate(50 * GATE_SCALE, 50) == 1.0


scores = st.lists(st.one_of(st.floats(0, 1), st.floats(1e-16, 1e-3).map(lambda d: 1 - d)), min_size=1, max_size=20)


@settings(deadline=None)
@example_of(scores)
def test_without_a_convention_the_order_stays(values: list[float]) -> None:
    array = np.array(sorted(values))
    priorities = apply_conventions(array, np.zeros(len(array)), 1.0)
    assert ((priorities >= 0) & (priorities <= 1)).all()
    assert (np.diff(priorities) >= 0).all()
    apart = np.diff(array) > 1e-12
    assert (np.diff(priorities)[apart] > 0).all()


@settings(deadline=None)
@example_of(scores, st.floats(0, 1), st.floats(-1, 1))
def test_a_convention_moves_the_log_odds_by_its_share(values: list[float], gate: float, convention: float) -> None:
    array = np.array(values)
    plain = apply_conventions(array, np.zeros(len(array)), gate)
    moved = apply_conventions(array, np.full(len(array), convention), gate)
    assert ((moved >= 0) & (moved <= 1)).all()
    inside = (plain > 0) & (plain < 1 - 1e-9)
    difference = np.log(moved[inside] / (1 - moved[inside])) - np.log(plain[inside] / (1 - plain[inside]))
    np.testing.assert_allclose(difference, 1.2 * gate * convention, atol=1e-5)


def test_a_saturated_score_with_a_convention_against_it_falls_below_one_without() -> None:
    against, none = apply_conventions(np.array([1 - 1e-12, 1 - 1e-5]), np.array([-1.0, 0.0]), 1.0)
    assert against < none
