"""Our scores of words and sentences are cleanlab's, save where its clips turn the order round."""

from __future__ import annotations

import numpy as np
import pytest

from service.scoring.confident import compute_thresholds, sum_by_class
from service.scoring.flat import Floats, merge_classes, merge_labels
from service.scoring.sentence import score_sentences, worst_token_softmin
from service.scoring.token import TOKEN_SCORES, adjust_probs, confidence_weighted_entropy
from tests.parity.cleanlab_peer import KINDS, Nested, data_set, peer_adjusted_scores, peer_scores

SEEDS = range(6)
CLIP = 1e-6  # cleanlab lets neither p_y nor x fall below this in the confidence-weighted entropy


def assert_close(ours: Floats, its: Floats) -> None:
    np.testing.assert_allclose(ours, its, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token_score", ["self-confidence", "normalized-margin"])
def test_word_and_worst_token_scores(kind: str, token_score: str) -> None:
    for seed in SEEDS:
        data = data_set(kind, seed)
        flat = data.flat
        words, sentences = peer_scores(data, token_score)
        assert_close(TOKEN_SCORES[token_score](flat.probs, flat.given), words)
        assert_close(score_sentences(flat, token_score=token_score), sentences)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token_score", ["self-confidence", "normalized-margin"])
@pytest.mark.parametrize("temperature", [0.0, 0.003, 0.05, 1.0, np.inf])
def test_softmin(kind: str, token_score: str, temperature: float) -> None:
    data = data_set(kind, 3)
    flat = data.flat
    words, sentences = peer_scores(data, token_score, "softmin", temperature=temperature)
    no_flags = np.zeros(flat.n_words, dtype=np.bool_)
    ours = worst_token_softmin(flat, words, no_flags, temperature=temperature)
    assert_close(ours, sentences)


@pytest.mark.parametrize("kind", ["random", "tied", "missing-class", "imbalanced", "saturated"])
def test_confidence_weighted_entropy_away_from_saturation(kind: str) -> None:
    compared = 0
    for seed in SEEDS:
        data = data_set(kind, seed)
        flat = data.flat
        own = flat.probs[np.arange(flat.n_words), flat.given]
        terms = -flat.probs * np.log(flat.probs, out=np.zeros_like(flat.probs), where=flat.probs > 0)
        x = np.divide(terms.sum(axis=1) / np.log(flat.n_classes), own, out=np.zeros_like(own), where=own > 0)
        unclipped = (own >= CLIP) & (x >= CLIP)
        words, _ = peer_scores(data, "confidence-weighted-entropy")
        ours = confidence_weighted_entropy(flat.probs, flat.given)
        assert_close(ours[unclipped], words[unclipped])
        compared += unclipped.sum()
    assert compared > 500


def test_its_entropy_is_upside_down_on_saturated_words_and_ours_is_not() -> None:
    p = 1 / (1 + np.exp(20.0))
    data = Nested([[0, 1]], [np.array([[1 - p, p], [1 - p, p]])])  # the same probabilities: given right, given wrong
    flat = data.flat
    (its_right, its_wrong), _ = peer_scores(data, "confidence-weighted-entropy")
    assert its_wrong > 0.9
    assert its_right < 0.2
    right, wrong = confidence_weighted_entropy(flat.probs, flat.given)
    assert right > 0.999999
    assert wrong < 0.2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token_score", ["self-confidence", "normalized-margin"])
def test_threshold_adjusted_probabilities(kind: str, token_score: str) -> None:
    for seed in SEEDS:
        flat = data_set(kind, seed).flat
        probs = adjust_probs(flat.probs, compute_thresholds(*sum_by_class(flat.probs, flat.given)))
        ours = TOKEN_SCORES[token_score](probs, flat.given)
        assert_close(ours, peer_adjusted_scores(flat, token_score))


@pytest.mark.parametrize("mapping", [[0, 1, 1, 2, 2], [0, 1, 0, 1, 0], [1, -1, 0, 0, 2], [0, 0, 0, 0, 0]])
def test_merged_classes(mapping: list[int]) -> None:
    from cleanlab.internal.token_classification_utils import mapping as peer_mapping
    from cleanlab.internal.token_classification_utils import merge_probs

    rng = np.random.default_rng(5)
    probs = rng.dirichlet(np.ones(5), 200)
    assert_close(merge_classes(probs, mapping), merge_probs(probs, mapping))
    kept = np.array([k for k in rng.integers(0, 5, 200) if mapping[k] >= 0])
    assert merge_labels(kept, mapping).tolist() == peer_mapping(kept.tolist(), mapping)
