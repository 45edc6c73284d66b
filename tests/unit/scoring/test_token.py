from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.scoring.flat import FlatSentences, Floats, from_flat_arrays
from service.scoring.token import (
    DEFAULT_TOKEN_SCORE,
    TOKEN_SCORES,
    adjust_probs,
    confidence_weighted_entropy,
    normalized_margin,
    self_confidence,
)
from tests.unit.scoring.strategies import flats, make_golden


def against(gap: float) -> Floats:
    """Two classes with the given one, class 0, behind by a logit gap (or ahead, where that is negative)."""
    behind = math.exp(-abs(gap)) / (1 + math.exp(-abs(gap)))
    return np.array([[behind, 1 - behind] if gap >= 0 else [1 - behind, behind]])


def entropy_score(gap: float) -> float:
    return float(confidence_weighted_entropy(against(gap), np.zeros(1, dtype=np.intp))[0])


def test_golden_values() -> None:
    data = make_golden()
    np.testing.assert_array_equal(self_confidence(data.probs, data.given), [0.9, 0.6, 0.0, 0.8, 0.8, 0.8])
    np.testing.assert_allclose(
        normalized_margin(data.probs, data.given), [0.9, 0.7, 0.05, 0.85, 0.85, 0.85], rtol=0, atol=1e-12
    )


def test_names() -> None:
    assert list(TOKEN_SCORES) == ["self-confidence", "normalized-margin", "confidence-weighted-entropy"]
    assert TOKEN_SCORES[DEFAULT_TOKEN_SCORE] is self_confidence


def test_no_words() -> None:
    for score in TOKEN_SCORES.values():
        assert score(np.empty((0, 4)), np.empty(0, dtype=np.intp)).shape == (0,)


@given(flats())
@settings(deadline=None, max_examples=100)
def test_scores_lie_between_0_and_1_and_leave_their_input_alone(data: FlatSentences) -> None:
    before = data.probs.copy()
    for score in TOKEN_SCORES.values():
        values = score(data.probs, data.given)
        assert values.shape == (data.n_words,)
        assert np.isfinite(values).all()
        assert (values >= 0).all()
        assert (values <= 1 + 1e-12).all()
    np.testing.assert_array_equal(data.probs, before)


@given(flats())
@settings(deadline=None, max_examples=50)
def test_the_margin_is_over_one_half_where_the_given_class_is_likeliest(data: FlatSentences) -> None:
    own = self_confidence(data.probs, data.given)
    others = np.array([max(np.delete(p, y), default=0.0) for p, y in zip(data.probs, data.given, strict=True)])
    np.testing.assert_array_equal(normalized_margin(data.probs, data.given) > 0.5, own > others)


class TestEntropy:
    @pytest.mark.parametrize(
        "row", [[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], [1e-3, 0.5, 0.499]]
    )
    def test_is_its_definition(self, row: list[float]) -> None:
        entropy = -sum(p * math.log(p) for p in row if p) / math.log(3)
        x = entropy / row[0]
        ours = confidence_weighted_entropy(np.array([row]), np.zeros(1, dtype=np.intp))
        assert ours[0] == pytest.approx(math.log1p(x) / x, abs=1e-12)

    def test_sure_and_right_is_1_sure_and_wrong_is_0(self) -> None:
        one_hot = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
        assert confidence_weighted_entropy(one_hot, np.array([0, 1, 2])).tolist() == [1.0, 0.0, 0.0]

    def test_saturated_words_keep_their_order(self) -> None:
        gaps = [-700, -100, -40, -37, -36, -20, -10, -1, 0, 1, 10, 20, 30, 36, 36.5, 37, 37.5, 38, 40, 100, 300, 700]
        scores = [entropy_score(gap) for gap in gaps]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == 1
        assert len({score for score, gap in zip(scores, gaps, strict=True) if gap >= 0}) == sum(g >= 0 for g in gaps)

    @given(st.floats(-700, 700), st.floats(1e-6, 50))
    @settings(deadline=None, max_examples=100)
    def test_a_larger_gap_against_the_label_never_scores_higher(self, gap: float, more: float) -> None:
        assert entropy_score(min(700, gap + more)) <= entropy_score(gap) * (1 + 1e-12)

    @given(st.floats(0, 80), st.integers(2, 20))
    @settings(deadline=None, max_examples=100)
    def test_a_right_label_scores_higher_than_a_wrong_one(self, gap: float, n_classes: int) -> None:
        logits = np.zeros(n_classes)
        logits[0] = gap
        weights = np.exp(logits - gap)
        probs = np.tile(weights / weights.sum(), (2, 1))
        right, wrong = confidence_weighted_entropy(probs, np.array([0, 1]))
        assert right >= wrong

    def test_rows_of_half_precision_are_normalised_first(self) -> None:
        row = np.array([[0.7, 0.2, 0.1]])
        label = np.zeros(1, dtype=np.intp)
        np.testing.assert_allclose(
            confidence_weighted_entropy(row * 1.0009, label), confidence_weighted_entropy(row, label), rtol=1e-12
        )

    def test_subnormal_probabilities_give_a_number(self) -> None:
        probs = np.array([[5e-324, 1.0], [5e-324, 1.0], [5e-324, 0.5]])
        scores = confidence_weighted_entropy(probs, np.array([0, 1, 0]))
        assert np.isfinite(scores).all()
        assert scores[0] < 0.02
        assert scores[1] == 1

    def test_a_single_class_is_always_right(self) -> None:
        assert confidence_weighted_entropy(np.ones((2, 1)), np.zeros(2, dtype=np.intp)).tolist() == [1.0, 1.0]


class TestAdjusted:
    def test_takes_the_thresholds_away(self) -> None:
        probs = adjust_probs(np.array([[0.6, 0.4], [0.9, 0.1]]), np.array([0.8, 0.5]))
        np.testing.assert_allclose(probs, [[0.6 / 1.3, 0.7 / 1.3], [0.9 / 1.3, 0.4 / 1.3]])

    @given(flats(), st.data())
    @settings(deadline=None, max_examples=50)
    def test_are_probabilities_again(self, data: FlatSentences, draw: st.DataObject) -> None:
        limits = draw.draw(
            st.lists(st.sampled_from([2e-6, 0.3, 0.9, 1.0, 2.0]), min_size=data.n_classes, max_size=data.n_classes)
        )
        probs = adjust_probs(data.probs, np.array(limits))
        assert from_flat_arrays(probs, data.given, data.lengths).n_words == data.n_words

    @given(flats())
    @settings(deadline=None, max_examples=20)
    def test_equal_thresholds_change_nothing(self, data: FlatSentences) -> None:
        np.testing.assert_allclose(adjust_probs(data.probs, np.full(data.n_classes, 0.5)), data.probs, atol=1e-12)
