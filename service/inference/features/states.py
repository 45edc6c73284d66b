"""Encoder states of words: the mean over each word's subwords. PURE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from service.inference.pooling import Overlaps

    Floats = npt.NDArray[np.float32]


def pool_states(subword_states: Floats, overlaps: Overlaps, n_words: int) -> Floats:
    """The states [n_words, W] of a sentence's words. A word without any subword has zeros."""
    width = subword_states.shape[1]
    states = np.zeros((n_words, width), np.float32)
    if len(overlaps.first_pairs):
        sums = np.add.reduceat(subword_states[overlaps.subword], overlaps.first_pairs, axis=0)
        counts = np.diff(np.append(overlaps.first_pairs, len(overlaps.word)))
        states[overlaps.word[overlaps.first_pairs]] = sums / counts[:, None].astype(np.float32)
    return states
