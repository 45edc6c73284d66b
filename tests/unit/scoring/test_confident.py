from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from service.errors import InvalidInput
from service.scoring.confident import (
    UNREACHABLE_THRESHOLD,
    compute_agreement_weights,
    compute_priority,
    compute_thresholds,
    compute_weighted_scores,
    flag_sentence,
    flag_words,
    prune_by_noise_rate,
    sum_agreeing_by_class,
    sum_by_class,
)
from service.scoring.sentence import score_sentences
from tests.unit.scoring.strategies import flats, make_golden, reorder_sentences, slice_sentence

if TYPE_CHECKING:
    from service.scoring.flat import Bools, FlatSentences, Floats, Ints


def limits_of(data: FlatSentences) -> Floats:
    return compute_thresholds(*sum_by_class(data.probs, data.given))


def flags_by_the_rule(probs: Floats, given: Ints, limits: Floats) -> Bools:
    """The rule as it is written down, a word at a time."""
    flags = []
    for row, y in zip(probs.tolist(), given.tolist(), strict=True):
        bonus = [p + 1e-6 * (j == y) for j, p in enumerate(row)]
        likeliest = bonus.index(max(bonus))
        confident = any(p >= limits[j] - 1e-6 for j, p in enumerate(row) if j != y)
        flags.append(likeliest != y and confident)
    return np.array(flags, dtype=np.bool_)


class TestThresholds:
    def test_golden_values(self) -> None:
        data = make_golden()
        sums, counts = sum_by_class(data.probs, data.given)
        np.testing.assert_allclose(sums, [1.5, 1.6, 0.8])
        assert counts.tolist() == [2, 3, 1]
        np.testing.assert_allclose(compute_thresholds(sums, counts), [0.75, 0.53333, 0.8], atol=5e-6)

    def test_agreeing_words_only(self) -> None:
        data = make_golden()
        sums, counts = sum_agreeing_by_class(data.probs, data.given)
        np.testing.assert_allclose(sums, [1.5, 1.6, 0.8])
        assert counts.tolist() == [2, 2, 1]

    def test_the_first_of_equals_is_the_likeliest(self) -> None:
        sums, counts = sum_agreeing_by_class(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 1]))
        assert sums.tolist() == [0.5, 0.0]
        assert counts.tolist() == [1, 0]

    def test_a_class_without_words_has_none(self) -> None:
        assert compute_thresholds(np.array([0.0, 1.0]), np.array([0, 2])).tolist() == [UNREACHABLE_THRESHOLD, 0.5]

    def test_a_class_the_model_never_believes_in_keeps_one_above_the_margin(self) -> None:
        assert compute_thresholds(np.array([0.0]), np.array([7])).tolist() == [2e-6]

    def test_of_nothing(self) -> None:
        sums, counts = sum_by_class(np.empty((0, 3)), np.empty(0, dtype=np.intp))
        assert compute_thresholds(sums, counts).tolist() == [UNREACHABLE_THRESHOLD] * 3
        assert sum_agreeing_by_class(np.empty((0, 3)), np.empty(0, dtype=np.intp))[1].tolist() == [0] * 3
        assert sum_agreeing_by_class(np.empty((0, 0)), np.empty(0, dtype=np.intp))[1].tolist() == []

    @given(flats())
    @settings(deadline=None, max_examples=50)
    def test_are_means_and_never_nan(self, data: FlatSentences) -> None:
        for k, limit in enumerate(limits_of(data)):
            own = data.probs[data.given == k, k]
            assert limit == pytest.approx(max(own.mean(), 2e-6) if len(own) else UNREACHABLE_THRESHOLD, rel=1e-12)

    @given(flats())
    @settings(deadline=None, max_examples=50)
    def test_types_and_totals(self, data: FlatSentences) -> None:
        sums, counts = sum_by_class(data.probs, data.given)
        agreed, times = sum_agreeing_by_class(data.probs, data.given)
        assert sums.dtype == agreed.dtype == np.float64
        assert counts.dtype == times.dtype == np.int64
        assert counts.sum() == data.n_words
        assert (times <= counts).all()
        assert (agreed <= sums + 1e-12).all()


class TestFlags:
    def test_golden_values(self) -> None:
        data = make_golden()
        assert flag_words(data.probs, data.given, limits_of(data)).tolist() == [False, False, True, False, False, False]

    def test_any_other_class_at_its_threshold_is_enough(self) -> None:
        """Comparing the likeliest class alone with its threshold is a look-alike of the rule, and wrong."""
        probs, y, limits = np.array([[0.1, 0.5, 0.4]]), np.array([0]), np.array([0.9, 0.6, 0.3])
        assert flag_words(probs, y, limits).tolist() == [True]

    def test_a_confident_class_is_not_enough_where_the_given_one_is_likeliest(self) -> None:
        """So is leaving out the first clause."""
        assert flag_words(np.array([[0.6, 0.4]]), np.array([0]), np.array([0.9, 0.3])).tolist() == [False]

    def test_the_given_class_at_its_threshold_is_no_reason(self) -> None:
        assert flag_words(np.array([[0.4, 0.6]]), np.array([0]), np.array([0.3, 0.9])).tolist() == [False]

    def test_a_never_seen_class_flags_nothing(self) -> None:
        assert flag_words(np.array([[0.0, 1.0]]), np.array([0]), np.array([0.5, UNREACHABLE_THRESHOLD])).tolist() == [
            False
        ]

    @pytest.mark.parametrize(
        ("row", "label", "flagged"),
        [
            ([0.5, 0.5], 1, False),  # a tie, once with the margin
            ([0.5, 0.5 - 5e-7], 1, False),  # behind by less than the margin
            ([0.5, 0.5 - 2e-6], 1, True),
            ([0.5 - 2e-6, 0.5], 0, True),
            ([0.3, 0.3, 0.4 - 5e-7], 0, True),
        ],
    )
    def test_margin(self, row: list[float], label: int, flagged: bool) -> None:
        assert flag_words(np.array([row]), np.array([label]), np.full(len(row), 0.3)).tolist() == [flagged]

    def test_a_probability_a_margin_below_the_threshold_reaches_it(self) -> None:
        probs = np.array([[0.4, 0.6]])
        for limit, flagged in [(0.6 + 5e-7, True), (0.6 + 2e-6, False)]:
            assert flag_words(probs, np.array([0]), np.array([UNREACHABLE_THRESHOLD, limit])).tolist() == [flagged]

    def test_a_single_class_of_labels(self) -> None:
        probs = np.array([[0.9, 0.1], [0.2, 0.8]])
        given = np.zeros(2, dtype=np.intp)
        assert flag_words(probs, given, compute_thresholds(*sum_by_class(probs, given))).tolist() == [False, False]
        assert prune_by_noise_rate(probs, given).tolist() == [False, False]

    @pytest.mark.parametrize(("words", "classes"), [(1, 2), (3, 2), (2, 1), (2, 3)])
    def test_what_does_not_pair_up_is_refused(self, words: int, classes: int) -> None:
        probs = np.full((2, 2), 0.5)
        with pytest.raises(InvalidInput, match="probabilities for"):
            flag_words(probs, np.zeros(words, dtype=np.intp), np.full(classes, 0.5))

    def test_no_words(self) -> None:
        nothing, none = np.empty((0, 2)), np.empty(0, dtype=np.intp)
        assert flag_words(nothing, none, np.array([0.5, 0.5])).shape == (0,)
        assert prune_by_noise_rate(nothing, none).shape == (0,)
        assert flag_words(np.empty((0, 0)), none, np.empty(0)).shape == (0,)

    @given(flats(), st.data())
    @settings(deadline=None, max_examples=100)
    def test_is_the_rule(self, data: FlatSentences, draw: st.DataObject) -> None:
        own = limits_of(data)
        limit = st.sampled_from([2e-6, 0.25, 0.25 + 1e-6, 0.5, 1.0, UNREACHABLE_THRESHOLD])
        other = np.array(draw.draw(st.lists(limit, min_size=data.n_classes, max_size=data.n_classes)))
        before = data.probs.copy()
        for limits in (own, other):
            flags = flag_words(data.probs, data.given, limits)
            np.testing.assert_array_equal(flags, flags_by_the_rule(data.probs, data.given, limits))
        np.testing.assert_array_equal(data.probs, before)

    @given(flats(), st.data())
    @settings(deadline=None, max_examples=50)
    def test_the_order_of_sentences_does_not_matter(self, data: FlatSentences, draw: st.DataObject) -> None:
        order = draw.draw(st.permutations(range(data.n_sentences)))
        limits = limits_of(data)
        parts = np.split(flag_words(data.probs, data.given, limits), data.starts[1:])
        moved = reorder_sentences(data, order)
        np.testing.assert_array_equal(
            flag_words(moved.probs, moved.given, limits), np.concatenate([parts[i] for i in order])
        )

    @given(flats())
    @settings(deadline=None, max_examples=50)
    def test_one_sentence_alone(self, data: FlatSentences) -> None:
        limits = limits_of(data)
        alone = [slice_sentence(data, index) for index in range(data.n_sentences)]
        verdicts = [flag_sentence(sentence.probs, sentence.given, limits) for sentence in alone]
        np.testing.assert_array_equal([verdict.score for verdict in verdicts], score_sentences(data))
        np.testing.assert_array_equal(
            np.concatenate([verdict.flags for verdict in verdicts]), flag_words(data.probs, data.given, limits)
        )
        np.testing.assert_array_equal(
            np.concatenate([verdict.confidence for verdict in verdicts]),
            data.probs[np.arange(data.n_words), data.given],
        )
        assert all(type(verdict.score) is float for verdict in verdicts)


class TestPruneByNoiseRate:
    def test_flags_as_many_as_it_estimates_the_least_likely_first(self) -> None:
        # Ten words given 0, three of them nearly surely 1: the estimate is three, and it takes the widest margins.
        right, wrong = [[0.9, 0.1]] * 7, [[0.1, 0.9], [0.02, 0.98], [0.05, 0.95]]
        probs = np.array(right + wrong + [[0.1, 0.9]] * 10)
        flags = prune_by_noise_rate(probs, np.repeat([0, 1], 10))
        assert np.flatnonzero(flags).tolist() == [7, 8, 9]

    def test_the_only_word_of_a_class_is_never_flagged(self) -> None:
        probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.99, 0.01]])
        assert prune_by_noise_rate(probs, np.array([0, 0, 1])).tolist() == [False, False, False]

    @given(flats())
    @settings(deadline=None, max_examples=100)
    def test_flags_only_words_whose_likeliest_class_is_another(self, data: FlatSentences) -> None:
        before = data.probs.copy()
        flags = prune_by_noise_rate(data.probs, data.given)
        assert not (flags & (data.probs.argmax(axis=1) == data.given)).any()
        counts = np.bincount(data.given, minlength=data.n_classes)
        assert (np.bincount(data.given[flags], minlength=data.n_classes) <= counts).all()
        assert not flags[counts[data.given] == 1].any()
        np.testing.assert_array_equal(data.probs, before)


means = nps.arrays(np.float64, st.integers(1, 9).map(lambda n: (2, n)), elements=st.floats(0, 1))


class TestPriority:
    def test_weights_by_hand(self) -> None:
        given_means, agreeing_means = np.array([0.99, 0.8, 0.9]), np.array([0.99, 0.9, 0.95])
        expected = [1.0, (1 - 0.99 + 0.9) ** 0.5, (1 - 0.99 + 0.95) ** 0.5]
        np.testing.assert_allclose(compute_agreement_weights(given_means, agreeing_means), expected, rtol=1e-12)

    def test_a_class_that_is_always_certain_divides_by_no_zero(self) -> None:
        np.testing.assert_allclose(
            compute_agreement_weights(np.array([1.0, 1.0]), np.array([1.0, 0.9995])), [1.0, 0.9995**0.5]
        )

    def test_equal_classes_leave_the_self_confidence_as_it_is(self) -> None:
        weights = compute_agreement_weights(np.full(3, 0.95), np.full(3, 0.95))
        assert weights.tolist() == [1.0, 1.0, 1.0]
        data = make_golden()
        np.testing.assert_array_equal(compute_priority(data, weights), score_sentences(data))

    def test_word_scores(self) -> None:
        scores = compute_weighted_scores(np.array([[0.2, 0.8], [0.2, 0.8]]), np.array([0, 1]), np.array([0.5, 0.9]))
        np.testing.assert_allclose(scores, [0.6, 0.82])

    def test_keeps_the_last_digits_of_saturated_words(self) -> None:
        probs = np.array([[1e-12, 1.0], [2e-12, 1.0]])
        low, high = compute_weighted_scores(probs, np.zeros(2, dtype=np.intp), np.array([1.0, 1.0]))
        assert (low, high) == (1e-12, 2e-12)

    @given(means)
    @settings(deadline=None, max_examples=100)
    def test_weights_lie_between_0_and_1(self, both: Floats) -> None:
        weights = compute_agreement_weights(both[0], both[1])
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
        assert (weights <= 1 + 1e-15).all()

    @given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
    @settings(deadline=None, max_examples=100)
    def test_scores_grow_with_the_probability_and_end_at_1(self, p: float, q: float, weight: float) -> None:
        low, high = sorted((p, q))
        probs = np.array([[low, 1 - low], [high, 1 - high], [1.0, 0.0]])
        scores = compute_weighted_scores(probs, np.zeros(3, dtype=np.intp), np.array([weight, 1.0]))
        assert 0 <= scores[0] <= scores[1] + 1e-15
        assert scores[1] <= scores[2] == 1

    @given(flats(), st.data())
    @settings(deadline=None, max_examples=50)
    def test_is_the_worst_word_of_each_sentence_whatever_the_order(
        self, data: FlatSentences, draw: st.DataObject
    ) -> None:
        weights = np.array(draw.draw(st.lists(st.floats(0.9, 1), min_size=data.n_classes, max_size=data.n_classes)))
        words = compute_weighted_scores(data.probs, data.given, weights)
        scores = compute_priority(data, weights)
        np.testing.assert_array_equal(scores, [part.min() for part in np.split(words, data.starts[1:])])
        order = draw.draw(st.permutations(range(data.n_sentences)))
        np.testing.assert_array_equal(compute_priority(reorder_sentences(data, order), weights), scores[order])
