"""The shape of a single word: its casing class, and whether it has a visible character."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

N_CASING_CLASSES = 8
MASK_TOKEN = "[MASK]"
MAX_CACHED_WORD_LENGTH = 64  # longer words seldom repeat and would only fill the cache
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
_REPLACEMENT = "\ufffd"


def _classify_casing_uncached(word: str) -> int:
    letters = [character for character in word if character.isalpha()]
    digits = any(character.isdigit() for character in word)
    if not letters:
        return 6 if digits else 0
    if digits:
        return 7
    if all(letter.islower() for letter in letters):
        return 1
    if all(letter.isupper() for letter in letters):
        return 4 if len(letters) == 1 else 3
    return 2 if letters[0].isupper() and all(letter.islower() for letter in letters[1:]) else 5


_classify_casing_cached = lru_cache(maxsize=1 << 16)(_classify_casing_uncached)


def classify_casing(word: str) -> int:
    """The casing class of a word, one of eight. The default model was trained with them.

    0 neither letter nor digit (and a masked word), 1 lower, 2 Capitalised, 3 ALLCAPS, 4 one capital,
    5 any other mix of letters, 6 digits without letters, 7 digits and letters.
    """
    if word == MASK_TOKEN:
        return 0
    if len(word) > MAX_CACHED_WORD_LENGTH:
        return _classify_casing_uncached(word)
    return _classify_casing_cached(word)


def is_plainly_visible(words: Sequence[str]) -> bool:
    """Whether every word certainly has a visible character. A fast check: after False, check each word."""
    text = "".join(words)
    return text.isprintable() and " " not in text and _REPLACEMENT not in text and all(words)


def is_visible(word: str) -> bool:
    """Whether a word has any character but spaces, control and format characters, and U+FFFD."""
    return any(character != _REPLACEMENT and unicodedata.category(character) not in _INVISIBLE for character in word)


def has_lone_surrogate(word: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in word)
