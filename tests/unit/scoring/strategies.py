"""Data sets for property tests, and the fixture whose answers are known."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from service.scoring.flat import FlatSentences, Floats, flatten, from_flat_arrays

GOLDEN_GIVEN = [[0, 0], [1, 1, 1], [2]]
GOLDEN_PROBS = [
    [[0.9, 0.1, 0.0], [0.6, 0.2, 0.2]],
    [[0.1, 0.0, 0.9], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1]],
    [[0.1, 0.1, 0.8]],
]


def make_golden() -> FlatSentences:
    return flatten(GOLDEN_GIVEN, GOLDEN_PROBS)


@st.composite
def flats(draw: st.DrawFn, *, max_sentences: int = 8, n_classes: int | None = None) -> FlatSentences:
    """Sentences of random, saturated, coarse (many ties) or one-hot probabilities."""
    classes = draw(st.integers(1, 6)) if n_classes is None else n_classes
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=max_sentences))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probs = _draw_probabilities(
        rng, draw(st.sampled_from(["random", "saturated", "coarse", "one-hot"])), sum(lengths), classes
    )
    return from_flat_arrays(probs, rng.integers(0, classes, sum(lengths)), lengths)


def _draw_probabilities(rng: np.random.Generator, kind: str, n_words: int, n_classes: int) -> Floats:
    match kind:
        case "random":
            return rng.dirichlet(np.ones(n_classes), n_words)
        case "saturated":
            weights = np.exp(rng.normal(0, 12, (n_words, n_classes)))
            shares: Floats = weights / weights.sum(axis=1, keepdims=True)
            return shares
        case "coarse":
            return rng.multinomial(4, np.full(n_classes, 1 / n_classes), n_words) / 4
        case _:
            return np.eye(n_classes)[rng.integers(0, n_classes, n_words)]


def slice_sentence(data: FlatSentences, index: int) -> FlatSentences:
    """One sentence alone."""
    part = slice(data.starts[index], data.ends[index])
    return FlatSentences(data.probs[part], data.given[part], np.zeros(1, dtype=np.intp))


def reorder_sentences(data: FlatSentences, order: list[int]) -> FlatSentences:
    """The sentences in another order."""
    parts = [slice_sentence(data, index) for index in order]
    return from_flat_arrays(
        np.concatenate([part.probs for part in parts]),
        np.concatenate([part.given for part in parts]),
        [part.n_words for part in parts],
    )
