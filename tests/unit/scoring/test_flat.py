from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.scoring.flat import (
    FlatSentences,
    flatten,
    from_flat_arrays,
    merge_classes,
    merge_labels,
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)
from tests.unit.scoring.strategies import GOLDEN_GIVEN, GOLDEN_PROBS, flats, make_golden

ROW = [0.25, 0.75]


class TestFlatten:
    def test_words_of_all_sentences_stand_in_one_array(self) -> None:
        data = make_golden()
        assert data.starts.tolist() == [0, 2, 5]
        assert data.ends.tolist() == [2, 5, 6]
        assert data.lengths.tolist() == [2, 3, 1]
        assert (data.n_sentences, data.n_words, data.n_classes) == (3, 6, 3)
        assert data.given.tolist() == [0, 0, 1, 1, 1, 2]
        assert data.probs.tolist() == [row for rows in GOLDEN_PROBS for row in rows]

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_takes_arrays_of_any_precision(self, dtype: type[np.floating[Any]]) -> None:
        data = flatten([np.array(y, dtype=np.uint8) for y in GOLDEN_GIVEN], [np.array(p, dtype) for p in GOLDEN_PROBS])
        assert data.probs.dtype == np.float64
        assert data.given.dtype == np.intp
        np.testing.assert_allclose(data.probs, make_golden().probs, atol=1e-3)

    def test_takes_lists_and_arrays_mixed(self) -> None:
        data = flatten([np.array([0, 1]), [1], (0,)], [np.array([ROW, ROW]), [ROW], ((1, 0),)])
        assert data.given.tolist() == [0, 1, 1, 0]
        assert data.probs.tolist() == [ROW, ROW, ROW, [1.0, 0.0]]

    def test_no_sentences_are_fine(self) -> None:
        data = flatten([], [])
        assert data.n_sentences == data.n_words == 0
        assert data.lengths.tolist() == data.ends.tolist() == []

    @given(flats())
    @settings(deadline=None, max_examples=50)
    def test_equals_what_was_flat_already(self, data: FlatSentences) -> None:
        cuts = data.starts[1:]
        again = flatten(np.split(data.given, cuts), np.split(data.probs, cuts))
        np.testing.assert_array_equal(again.probs, data.probs)
        np.testing.assert_array_equal(again.given, data.given)
        np.testing.assert_array_equal(again.starts, data.starts)


def nested(*, given: Any = None, probs: Any = None) -> tuple[Any, Any]:
    """Three good sentences, the middle one with something wrong."""
    return (
        [[0], [0, 1] if given is None else given, [1]],
        [[ROW], [ROW, ROW] if probs is None else probs, [ROW]],
    )


class TestInvalidInput:
    @pytest.mark.parametrize(
        ("bad", "word", "says"),
        [
            (nested(given=[0, 2]), 1, "label 2 is not one of the classes 0 to 1"),
            (nested(given=[-1, 0]), 0, "label -1"),
            (nested(given=[0, 1.0]), 1, "label 1.0 is not the number of a class"),
            (nested(given=[0, "B-PER"]), 1, "'B-PER'"),
            (nested(given=[None, 0]), 0, "None"),
            (nested(given=[0, 2**70]), 1, "is not the number of a class"),
            (nested(given=np.array([0.0, 1.0])), 0, "is not the number of a class"),
            (nested(given=[0]), None, "1 labels for 2 rows of probabilities"),
            (nested(given=[], probs=[]), None, "at least one word"),
            (nested(given=5), None, "a sequence with one entry per word"),
            (nested(probs=5), None, "a sequence with one entry per word"),
            (nested(probs=[ROW, [np.nan, 1.0]]), 1, "class 0 is nan"),
            (nested(probs=[[0.5, np.inf], ROW]), 0, "class 1 is inf"),
            (nested(probs=[[np.inf, -np.inf], ROW]), 0, "class 0 is inf"),
            (nested(probs=[ROW, [-0.25, 1.25]]), 1, "class 0 is negative: -0.25"),
            (nested(probs=[ROW, [0.5, 0.6]]), 1, "sum to 1.1, not to 1"),
            (nested(probs=[[0.5, 0.498], ROW]), 0, "sum to 0.998, not to 1"),
            (nested(probs=[[0.2, 0.3, 0.5]] * 2), None, "3 classes where sentence 0 has 2"),
            (nested(probs=[ROW, [1.0]]), None, "a table of numbers"),
            (nested(probs=[0.5, 0.5]), None, "a table of numbers"),
            (nested(probs=[["0.5", "0.5"]] * 2), None, "a table of numbers"),
        ],
    )
    def test_names_sentence_and_word(self, bad: tuple[Any, Any], word: int | None, says: str) -> None:
        with pytest.raises(InvalidInput, match=re.escape(says)) as caught:
            flatten(*bad)
        assert caught.value.sentence == 1
        assert caught.value.word == word
        assert "sentence 1" in str(caught.value)
        assert word is None or f"word {word}" in str(caught.value)
        assert caught.value.stage == "validate"

    def test_counts_of_sentences_differ(self) -> None:
        with pytest.raises(InvalidInput, match="labels of 2 sentences, probabilities of 1"):
            flatten([[0], [1]], [[ROW]])

    def test_every_table_is_wrong(self) -> None:
        with pytest.raises(InvalidInput, match="a table of numbers") as caught:
            flatten([[0, 1], [1]], [ROW, [1.0]])
        assert caught.value.sentence == 0

    def test_half_precision_sums_pass(self) -> None:
        assert flatten([[0]], [[[0.5, 0.4991]]]).n_words == 1

    def test_the_first_bad_word_is_named(self) -> None:
        probs = np.tile(ROW, (100, 1))
        probs[[37, 60]] = 0.9
        with pytest.raises(InvalidInput) as caught:
            from_flat_arrays(probs, np.zeros(100, int), [10] * 10)
        assert (caught.value.sentence, caught.value.word, caught.value.field) == (3, 7, "probs")

    @pytest.mark.parametrize(
        ("probs", "given", "lengths", "says"),
        [
            ([ROW, ROW], [0, 1], [1, 2], "2 rows of probabilities and 2 labels for sentences of 3 words"),
            ([ROW, ROW], [0], [2], "2 rows of probabilities and 1 labels"),
            ([ROW, ROW], [0, 1], [2, 0], "sentence 1, `lengths`: a sentence needs at least one word"),
            ([ROW, ROW], [0, 1], [3, -1], "sentence 1, `lengths`"),
            ([ROW, ROW], [0, 1.5], [2], "`given`: should be one flat row of integers"),
            ([ROW, ROW], [[0, 1]], [2], "`given`: should be one flat row of integers"),
            ([ROW, ROW], [[0], [0, 1]], [2], "`given`: should be one flat row of integers"),
            ([ROW, ROW], [0, 1], [2.0], "`lengths`: should be one flat row of integers"),
            (ROW, [0, 1], [2], "`probs`: should be a table of numbers"),
            ([["a", "b"]], [0], [1], "`probs`: should be a table of numbers"),
            ([ROW, [1.0]], [0, 1], [2], "`probs`: should be a table of numbers"),
            ([[1j, 1 - 1j]], [0], [1], "`probs`: should be a table of numbers"),
        ],
    )
    def test_flat_arrays(self, probs: Any, given: Any, lengths: Any, says: str) -> None:
        with pytest.raises(InvalidInput, match=re.escape(says)):
            from_flat_arrays(probs, given, lengths)

    def test_flat_without_sentences(self) -> None:
        data = from_flat_arrays(np.empty((0, 3)), [], [])
        assert (data.n_sentences, data.n_words, data.n_classes) == (0, 0, 3)

    @given(flats(), st.data())
    @settings(deadline=None, max_examples=50)
    def test_one_broken_number_is_always_found(self, data: FlatSentences, draw: st.DataObject) -> None:
        word = draw.draw(st.integers(0, data.n_words - 1))
        column = draw.draw(st.integers(0, data.n_classes - 1))
        probs = data.probs.copy()
        probs[word, column] = draw.draw(st.sampled_from([np.nan, np.inf, -np.inf, -0.1, 1.5]))
        with pytest.raises(InvalidInput) as caught:
            from_flat_arrays(probs, data.given, data.lengths)
        sentence = caught.value.sentence
        assert isinstance(sentence, int)
        assert caught.value.word is not None
        assert data.starts[sentence] + caught.value.word == word


@given(flats())
@settings(deadline=None, max_examples=50)
def test_segments_are_the_sentences(data: FlatSentences) -> None:
    values = data.probs[:, 0]
    parts = np.split(values, data.starts[1:])
    np.testing.assert_array_equal(segment_min(values, data), [part.min() for part in parts])
    np.testing.assert_array_equal(segment_max(values, data.starts), [part.max() for part in parts])
    np.testing.assert_allclose(segment_sum(values, data), [part.sum() for part in parts], rtol=1e-14)
    np.testing.assert_allclose(segment_mean(values, data.starts), [part.mean() for part in parts], rtol=1e-14)
    np.testing.assert_array_equal(segment_sum(values > 0.3, data), [(part > 0.3).sum() for part in parts])


def test_segments_of_nothing() -> None:
    nothing = flatten([], [])
    for segment in (segment_min, segment_max, segment_sum, segment_mean):
        assert segment(np.empty(0), nothing).shape == (0,)


class TestMerge:
    def test_columns_are_summed(self) -> None:
        probs = np.array([[0.55, 0.0125, 0.0375, 0.1, 0.3], [0.1, 0.8, 0, 0.075, 0.025]])
        np.testing.assert_allclose(merge_classes(probs, [0, 1, 1, 2, 2]), [[0.55, 0.05, 0.4], [0.1, 0.8, 0.1]])
        np.testing.assert_allclose(merge_classes(probs[:, :4] / 1, [0, 1, 0, 1])[0], [0.5875, 0.1125])

    def test_a_dropped_class_leaves_the_rest_normalised(self) -> None:
        np.testing.assert_allclose(merge_classes(np.array([[0.5, 0.2, 0.3]]), [-1, 0, 1]), [[0.4, 0.6]])

    def test_no_mass_left_is_an_error_that_names_the_word(self) -> None:
        with pytest.raises(InvalidInput, match="word 1: all its probability is on classes that the mapping drops"):
            merge_classes(np.array([[0.5, 0.5], [1.0, 0.0]]), [-1, 0])

    def test_no_mass_left_may_be_uniform_over_the_rest(self) -> None:
        probs = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
        merged = merge_classes(probs, [-1, 0, 1], uniform_if_dropped=True)
        np.testing.assert_array_equal(merged, [[0.5, 0.5], [0.5, 0.5]])

    @given(flats(n_classes=5), st.lists(st.booleans(), min_size=5, max_size=5).filter(any))
    @settings(deadline=None, max_examples=50)
    def test_rows_without_some_classes_sum_to_1_in_the_same_proportions(
        self, data: FlatSentences, allowed: list[bool]
    ) -> None:
        columns = [k for k, is_allowed in enumerate(allowed) if is_allowed]
        mapping = [columns.index(k) if k in columns else -1 for k in range(5)]
        restricted = merge_classes(data.probs, mapping, uniform_if_dropped=True)
        np.testing.assert_allclose(restricted.sum(axis=1), data.probs.sum(axis=1) if all(allowed) else 1.0)
        mass = data.probs[:, columns].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(restricted * mass, data.probs[:, columns], atol=1e-12)
        np.testing.assert_allclose(restricted[mass[:, 0] == 0], 1 / len(columns))
        for row in range(data.n_words):  # a word's row does not depend on the other words
            alone = merge_classes(data.probs[row : row + 1], mapping, uniform_if_dropped=True)
            np.testing.assert_array_equal(alone[0], restricted[row])

    @pytest.mark.parametrize("mapping", [[0], [0, 1, 2], [-1, -1], [-2, 0], [0.0, 1.0], []])
    def test_a_mapping_that_is_none(self, mapping: list[int]) -> None:
        with pytest.raises(InvalidInput, match="`mapping`"):
            merge_classes(np.array([ROW]), mapping)

    def test_labels_follow(self) -> None:
        assert merge_labels(np.array([0, 0, 4, 4, 3, 4, 0, 2]), [0, 1, 1, 2, 2]).tolist() == [0, 0, 2, 2, 2, 2, 0, 1]

    @pytest.mark.parametrize(
        ("label", "says"), [(1, "word 2, `given`: its class 1 is dropped"), (-1, "label -1"), (3, "label 3")]
    )
    def test_a_label_without_a_class_is_an_error(self, label: int, says: str) -> None:
        with pytest.raises(InvalidInput, match=says):
            merge_labels(np.array([0, 2, label]), [0, -1, 1])

    @given(flats(), st.data())
    @settings(deadline=None, max_examples=50)
    def test_probability_mass_and_labels_are_preserved(self, data: FlatSentences, draw: st.DataObject) -> None:
        mapping = draw.draw(st.lists(st.integers(0, 3), min_size=data.n_classes, max_size=data.n_classes))
        merged = merge_classes(data.probs, mapping)
        np.testing.assert_allclose(merged.sum(axis=1), data.probs.sum(axis=1))
        labels = merge_labels(data.given, mapping)
        words = np.arange(data.n_words)
        assert (merged[words, labels] >= data.probs[words, data.given]).all()
        assert from_flat_arrays(merged, labels, data.lengths).n_classes == max(mapping) + 1
        np.testing.assert_array_equal(merge_classes(data.probs, list(range(data.n_classes))), data.probs)

    @given(flats(n_classes=6))
    @settings(deadline=None, max_examples=50)
    def test_merging_twice_is_merging_once(self, data: FlatSentences) -> None:
        twice = merge_classes(merge_classes(data.probs, [0, 1, 1, 2, 2, 3]), [0, 1, 0, 1])
        np.testing.assert_allclose(twice, merge_classes(data.probs, [0, 1, 1, 0, 0, 1]), rtol=1e-12, atol=1e-15)
