"""Our flags are cleanlab's, word for word."""

from __future__ import annotations

import numpy as np
import pytest

from service.scoring.confident import compute_thresholds, flag_sentence, flag_words, prune_by_noise_rate, sum_by_class
from tests.parity.cleanlab_peer import KINDS, Nested, data_set, peer_flags

SEEDS = range(25)


@pytest.mark.parametrize("kind", KINDS)
def test_flags_are_those_of_confident_learning(kind: str) -> None:
    flagged = 0
    for seed in SEEDS:
        data = data_set(kind, seed)
        flat = data.flat
        ours = flag_words(flat.probs, flat.given, compute_thresholds(*sum_by_class(flat.probs, flat.given)))
        np.testing.assert_array_equal(ours, peer_flags(data, "confident_learning"), err_msg=f"{kind}, seed {seed}")
        flagged += ours.sum()
    assert flagged > 100, "data without flags shows nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_prune_by_noise_rate_is_its_default(kind: str) -> None:
    flagged = 0
    for seed in SEEDS:
        data = data_set(kind, seed)
        flat = data.flat
        ours = prune_by_noise_rate(flat.probs, flat.given)
        np.testing.assert_array_equal(ours, peer_flags(data, "prune_by_noise_rate"), err_msg=f"{kind}, seed {seed}")
        flagged += ours.sum()
    assert flagged > 100, "data without flags shows nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_one_sentence_at_a_time_gives_the_same_flags(kind: str) -> None:
    data = data_set(kind, 1)
    flat = data.flat
    limits = compute_thresholds(*sum_by_class(flat.probs, flat.given))
    one_by_one = [flag_sentence(p, np.array(y), limits).flags for y, p in zip(data.given, data.probs, strict=True)]
    np.testing.assert_array_equal(np.concatenate(one_by_one), peer_flags(data, "confident_learning"))


@pytest.mark.parametrize(
    "probs",
    [
        pytest.param([[0.5, 0.5], [0.5 + 4e-7, 0.5 - 4e-7], [0.4, 0.6], [0.7, 0.3]], id="within the margin"),
        pytest.param([[0.5 + 9e-7, 0.5 - 9e-7], [0.6, 0.4], [0.6, 0.4], [0.2, 0.8]], id="just outside of it"),
        pytest.param([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], id="everything wrong"),
        pytest.param([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], id="everything right"),
    ],
)
def test_edges_of_the_rule(probs: list[list[float]]) -> None:
    for labels in ([0, 0, 1, 1], [1, 0, 1, 0], [1, 1, 0, 0]):
        data = Nested([labels], [np.array(probs)])
        flat = data.flat
        ours = flag_words(flat.probs, flat.given, compute_thresholds(*sum_by_class(flat.probs, flat.given)))
        np.testing.assert_array_equal(ours, peer_flags(data, "confident_learning"))
        np.testing.assert_array_equal(
            prune_by_noise_rate(flat.probs, flat.given), peer_flags(data, "prune_by_noise_rate")
        )
