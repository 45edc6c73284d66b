from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.inference.pooling import POOLINGS, Overlaps, Pooling, pool_words

calm = settings(deadline=None, max_examples=60)


def _overlaps(pairs: list[tuple[int, int, int]]) -> Overlaps:
    columns = np.array(pairs, np.intp).reshape(-1, 3)
    return Overlaps.from_pairs(columns[:, 0], columns[:, 1], columns[:, 2].astype(np.float64))


def _probs(n: int, seed: int, classes: int = 5) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.random.default_rng(seed).dirichlet(np.ones(classes), n)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, int, int]], int]:
    n_subwords, n_words = draw(st.integers(1, 15)), draw(st.integers(1, 12))
    places = draw(st.sets(st.tuples(st.integers(0, n_subwords - 1), st.integers(0, n_words - 1)), max_size=25))
    pairs = [(s, w, draw(st.integers(1, 9))) for s, w in draw(st.permutations(sorted(places)))]
    return n_subwords, n_words, pairs, draw(st.integers(0, 1000))


def test_the_papers_example() -> None:
    """Minnesota | Timber wolves | (MIN) over "(", "MIN" and ")"."""
    probs = _probs(4, 0)
    words, scored = pool_words(probs, _overlaps([(0, 0, 9), (1, 1, 6), (2, 1, 6), (3, 2, 1), (3, 3, 3), (3, 4, 1)]), 5)
    assert scored.all()
    np.testing.assert_allclose(words[1], (probs[1] + probs[2]) / 2)
    for word in (2, 3, 4):
        np.testing.assert_allclose(words[word], probs[3])


@calm
@given(cases(), st.sampled_from(POOLINGS))
def test_pooling_is_what_it_says(case: tuple[int, int, list[tuple[int, int, int]], int], how: Pooling) -> None:
    n_subwords, n_words, pairs, seed = case
    probs = _probs(n_subwords, seed)
    words, scored = pool_words(probs, _overlaps(pairs), n_words, how)
    for word in range(n_words):
        mine = sorted((s, c) for s, w, c in pairs if w == word)
        assert scored[word] == bool(mine)
        if not mine:
            np.testing.assert_array_equal(words[word], np.full(5, 0.2))
            continue
        if how == "first":
            expected = probs[mine[0][0]]
        else:
            weights = [c if how == "characters" else 1 for _, c in mine]
            expected = np.average(probs[[s for s, _ in mine]], axis=0, weights=weights)
        np.testing.assert_allclose(words[word], expected, atol=1e-12)
    np.testing.assert_allclose(words.sum(axis=1), 1, atol=1e-15 * 8)


@calm
@given(st.lists(cases(), min_size=1, max_size=6), st.sampled_from(POOLINGS))
def test_pooling_many_sentences_at_once_changes_no_bit(
    sentences: list[tuple[int, int, list[tuple[int, int, int]], int]], how: Pooling
) -> None:
    probs = [_probs(n, seed) for n, _, _, seed in sentences]
    overlaps = [_overlaps(pairs) for _, _, pairs, _ in sentences]
    sizes = [n_words for _, n_words, _, _ in sentences]
    together = Overlaps.concatenate(overlaps, [len(p) for p in probs], sizes)
    words, scored = pool_words(np.concatenate(probs), together, sum(sizes), how)
    alone = [pool_words(p, o, n, how) for p, o, n in zip(probs, overlaps, sizes, strict=True)]
    assert np.array_equal(words, np.concatenate([w for w, _ in alone]))
    assert np.array_equal(scored, np.concatenate([s for _, s in alone]))


def test_nothing_to_pool() -> None:
    words, scored = pool_words(np.zeros((0, 3)), _overlaps([]), 2)
    np.testing.assert_array_equal(words, np.full((2, 3), 1 / 3))
    assert not scored.any()


def test_the_probabilities_given_stay_as_they_are() -> None:
    probs = _probs(2, 1)
    before = probs.copy()
    for how in POOLINGS:
        pool_words(probs, _overlaps([(0, 0, 4), (1, 1, 2)]), 2, how)
    assert np.array_equal(probs, before)


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(InvalidInput, match="mean, characters, first"):
        pool_words(_probs(1, 0), _overlaps([(0, 0, 1)]), 1, cast("Pooling", "median"))
