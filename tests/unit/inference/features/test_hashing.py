from __future__ import annotations

import numpy as np
import pytest

from service.inference.features import hashing
from service.inference.features.folds import N_FOLDS, compute_fold
from service.inference.features.hashing import MAX_HASHED_CHARACTERS, N_BUCKETS, FeatureHasher, list_word_features


def test_buckets_are_the_same_on_every_run() -> None:
    """Trained weights are stored by bucket: another hash would read other weights."""
    features = FeatureHasher().hash_sentence(["Oslo", "won"])
    assert features.starts.tolist() == [0, 23, 43]
    assert features.buckets[:4].tolist() == [867, 2102, 3187, 6542]


def test_neighbours_count_and_edges_differ() -> None:
    hasher = FeatureHasher()

    def rows(words: list[str]) -> list[list[int]]:
        features = hasher.hash_sentence(words)
        return [features.buckets[a:b].tolist() for a, b in zip(features.starts[:-1], features.starts[1:], strict=True)]

    assert rows(["in", "Oslo"])[1] != rows(["from", "Oslo"])[1]
    assert rows(["Oslo", "in"])[0] != rows(["in", "Oslo"])[1]
    assert set(rows(["Oslo"])[0]) & set(rows(["in", "Oslo"])[1])


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "MAX_CACHED_WORDS", 3)
    hasher = FeatureHasher()
    words = [f"w{i}" for i in range(20)]
    again = FeatureHasher().hash_sentence(words)
    assert np.array_equal(hasher.hash_sentence(words).buckets, again.buckets)
    assert len(hasher._own) <= 3
    assert len(hasher._context) <= 3


@pytest.mark.parametrize("word", ["", "\ud800", "\U0001f600", "a" * 1_000_000, "\u0645\u0631\u062d\u0628\u0627"])
def test_any_word_has_bounded_features(word: str) -> None:
    features = FeatureHasher().hash_sentence([word])
    assert 6 <= len(features.buckets) <= 4 * MAX_HASHED_CHARACTERS
    assert features.buckets.min() >= 0
    assert features.buckets.max() < N_BUCKETS


def test_case_is_a_feature_but_n_grams_do_without() -> None:
    upper, lower = set(list_word_features("OSLO")), set(list_word_features("oslo"))
    assert upper != lower
    assert {f for f in upper if f[0].isdigit()} == {f for f in lower if f[0].isdigit()}


def test_folds_depend_on_the_words_alone_and_are_of_like_size() -> None:
    folds = [compute_fold(["sentence", str(i)]) for i in range(5000)]
    assert folds == [compute_fold(("sentence", str(i))) for i in range(5000)]
    sizes = np.bincount(folds, minlength=N_FOLDS)
    assert sizes.min() > 900
    assert compute_fold(["ab", "c"], 1 << 30) != compute_fold(["a", "bc"], 1 << 30)
