"""Pools subword probabilities to word probabilities, by the characters that subwords and words share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.intp]

Pooling = Literal["mean", "characters", "first"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Pairs of a subword and a word that share characters, sorted by word, then subword.

    A subword that covers several words forms a pair with each. `first_pairs` is where each word's pairs start.
    """

    subword: Indices
    word: Indices
    characters: Floats
    first_pairs: Indices

    @classmethod
    def from_pairs(cls, subword: Indices, word: Indices, characters: Floats) -> Overlaps:
        """From pairs in any order."""
        order = np.lexsort((subword, word))
        return cls.from_sorted_pairs(subword[order], word[order], characters[order])

    @classmethod
    def from_sorted_pairs(cls, subword: Indices, word: Indices, characters: Floats) -> Overlaps:
        """From pairs that are sorted by word, then subword."""
        return cls(subword, word, characters, find_run_starts(word))

    @classmethod
    def concatenate(cls, parts: Sequence[Overlaps], n_subwords: Sequence[int], n_words: Sequence[int]) -> Overlaps:
        """The overlaps of several sentences as those of one, with subwords and words numbered through."""
        if len(parts) == 1:
            return parts[0]
        pairs = np.fromiter((len(part.word) for part in parts), np.intp, len(parts))

        def offsets(sizes: Sequence[int] | Indices) -> Indices:
            return np.cumsum(np.asarray(sizes, np.intp)) - sizes

        return cls(
            np.concatenate([part.subword for part in parts]) + np.repeat(offsets(n_subwords), pairs),
            np.concatenate([part.word for part in parts]) + np.repeat(offsets(n_words), pairs),
            np.concatenate([part.characters for part in parts]),
            np.concatenate([part.first_pairs for part in parts])
            + np.repeat(offsets(pairs), [len(part.first_pairs) for part in parts]),
        )


def find_run_starts(values: Indices) -> Indices:
    """The indices where a value differs from the one before."""
    is_start = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_start[1:])
    return is_start.nonzero()[0]


def pool_words(
    subword_probs: Floats, overlaps: Overlaps, n_words: int, pooling: Pooling = "mean"
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Word probabilities [n_words, K], each row summing to 1, and which words are scored.

    `mean` weights all subwords of a word equally, `characters` weights each by the characters it shares with the word,
    `first` uses the first one. A word without subwords is not scored: its row is uniform and has no meaning.
    """
    if pooling not in POOLINGS:
        raise InvalidInput(f"unknown pooling {pooling!r}: use one of {', '.join(POOLINGS)}", field="pooling")
    n_classes = subword_probs.shape[1]
    scored = np.zeros(n_words, np.bool_)
    words = overlaps.word[overlaps.first_pairs]
    scored[words] = True
    if pooling == "first" or not len(words):
        pooled = subword_probs[overlaps.subword[overlaps.first_pairs]]
    else:
        rows = subword_probs[overlaps.subword]
        if pooling == "characters":
            rows *= overlaps.characters[:, None]
        pooled = np.add.reduceat(rows, overlaps.first_pairs, axis=0)
    pooled /= pooled.sum(axis=1, keepdims=True)
    if len(words) == n_words:
        return pooled, scored
    probs = np.full((n_words, n_classes), 1 / n_classes)
    probs[words] = pooled
    return probs, scored
