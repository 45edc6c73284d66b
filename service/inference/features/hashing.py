"""Hashed text features of words: character n-grams, the word, its shape, and its neighbours. PURE."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from service.inference.tokenization.word_shape import classify_casing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

N_BUCKETS = 1 << 15
NGRAM_SIZES = (2, 3, 4)
AFFIX_LENGTH = 3
MAX_HASHED_CHARACTERS = 40  # of a longer word the two ends are hashed; a name has fewer
MAX_CACHED_WORDS = 50_000
EDGE = "\x00"  # stands for the missing neighbour at the edge of a sentence


class SparseFeatures(NamedTuple):
    """Bucket numbers of all words, and where each word's start, as in a CSR matrix whose values are all 1."""

    buckets: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]


class FeatureHasher:
    """Hashes the features of words to buckets. Remembers the words it has seen. Safe to use from several threads."""

    def __init__(self) -> None:
        self._own: dict[str, tuple[int, ...]] = {}
        self._context: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def hash_sentence(self, words: Sequence[str]) -> SparseFeatures:
        rows = []
        last = len(words) - 1
        for i, word in enumerate(words):
            row = self._hash_own(word)
            row += self._hash_context(words[i - 1] if i else EDGE)[0]
            row += self._hash_context(words[i + 1] if i < last else EDGE)[1]
            rows.append(row)
        starts = np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        buckets = np.fromiter((bucket for row in rows for bucket in row), np.int32, int(starts[-1]))
        return SparseFeatures(buckets, starts)

    def _hash_own(self, word: str) -> tuple[int, ...]:
        known = self._own.get(word)
        if known is None:
            known = tuple(sorted({_to_bucket(feature) for feature in list_word_features(word)}))
            if len(self._own) >= MAX_CACHED_WORDS:
                self._own.clear()
            self._own[word] = known
        return known

    def _hash_context(self, word: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The buckets of a word as the left and as the right neighbour."""
        known = self._context.get(word)
        if known is None:
            features = list_context_features(word)
            known = (
                tuple(_to_bucket(f"<{feature}") for feature in features),
                tuple(_to_bucket(f">{feature}") for feature in features),
            )
            if len(self._context) >= MAX_CACHED_WORDS:
                self._context.clear()
            self._context[word] = known
        return known


def list_word_features(word: str) -> list[str]:
    """The features of a word by itself, as text.

    >>> list_word_features("Oslo")[:5]
    ['w:Oslo', 'l:oslo', 's:Xx', 'c:2', 'p:Osl']
    """
    word = _shorten(word)
    lowered = word.lower()
    marked = f"^{lowered}$"
    features = [
        f"w:{word}",
        f"l:{lowered}",
        f"s:{describe_shape(word)}",
        f"c:{classify_casing(word)}",
        f"p:{word[:AFFIX_LENGTH]}",
        f"e:{word[-AFFIX_LENGTH:]}",
    ]
    features += [f"{n}:{marked[i : i + n]}" for n in NGRAM_SIZES for i in range(len(marked) - n + 1)]
    return features


def list_context_features(word: str) -> list[str]:
    """The features of a word as a neighbour."""
    if word == EDGE:
        return ["edge"]
    word = _shorten(word)
    lowered = word.lower()
    return [f"l:{lowered}", f"s:{describe_shape(word)}", f"p:{lowered[:AFFIX_LENGTH]}", f"e:{lowered[-AFFIX_LENGTH:]}"]


def describe_shape(word: str) -> str:
    """Upper case as X, lower case as x, digits as 0, other letters as a; runs become one character.

    >>> describe_shape("McDonald"), describe_shape("1,000.5"), describe_shape("IL-2")
    ('XxXx', '0,0.0', 'X-0')
    """
    shape: list[str] = []
    for character in word:
        kind = (
            "X"
            if character.isupper()
            else "x"
            if character.islower()
            else "0"
            if character.isdigit()
            else "a"
            if character.isalpha()
            else character
        )
        if not shape or shape[-1] != kind:
            shape.append(kind)
    return "".join(shape)


def _shorten(word: str) -> str:
    half = MAX_HASHED_CHARACTERS // 2
    return word if len(word) <= MAX_HASHED_CHARACTERS else f"{word[:half]}…{word[-half:]}"


def _to_bucket(feature: str) -> int:
    return crc32(feature.encode("utf-8", "surrogatepass")) & (N_BUCKETS - 1)
