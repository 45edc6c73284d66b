"""Words as a model reads them: the paper's joining rules, and the shape of a word as a casing class."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

N_CASING_CLASSES = 8
MASK_TOKEN = "[MASK]"

_CLOSING = frozenset(".,;:!?)]}%'\"’”…")
_OPENING = frozenset("([{“‘")
_CLITICS = frozenset({"s", "t", "d", "m", "re", "ve", "ll"})
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
_REPLACEMENT = "\ufffd"


class JoinedText(NamedTuple):
    """A sentence as text, with the characters [start, end) of each word. A word without any has start = end."""

    text: str
    starts: list[int]
    ends: list[int]


def _is_attached_to_previous(word: str) -> bool:
    """Punctuation that closes, and the clitics of English: they stand at the word before them."""
    if all(c in _CLOSING for c in word):
        return True
    lowered = word.lower()
    return lowered == "n't" or (lowered[0] in "'’" and lowered[1:] in _CLITICS)


def capitalise_word(word: str) -> str:
    """JAPAN becomes Japan: many vocabularies cut words in capitals to pieces."""
    return word[0] + word[1:].lower() if len(word) > 1 and word[0].isalpha() and word.isupper() else word


def join_words(words: Sequence[str], *, capitalise_caps: bool = False) -> JoinedText:
    """The paper's joining: spaces between words, but none before punctuation and none after an opening bracket.

    Quotation marks count as punctuation that closes, as in the paper's examples. Dashes keep both spaces.
    """
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    glued = True
    for word in words:
        if not word:
            starts.append(position)
            ends.append(position)
            continue
        shown = capitalise_word(word) if capitalise_caps else word
        if not glued and not _is_attached_to_previous(shown):
            pieces.append(" ")
            position += 1
        pieces.append(shown)
        starts.append(position)
        position += len(shown)
        ends.append(position)
        glued = all(c in _OPENING for c in shown)
    return JoinedText("".join(pieces), starts, ends)


def _classify_casing_uncached(word: str) -> int:
    letters = [c for c in word if c.isalpha()]
    digits = any(c.isdigit() for c in word)
    if not letters:
        return 6 if digits else 0
    if digits:
        return 7
    if all(c.islower() for c in letters):
        return 1
    if all(c.isupper() for c in letters):
        return 4 if len(letters) == 1 else 3
    return 2 if letters[0].isupper() and all(c.islower() for c in letters[1:]) else 5


_classify_casing_cached = lru_cache(maxsize=1 << 16)(_classify_casing_uncached)


def classify_casing(word: str) -> int:
    """The shape of a word as one of eight classes, as the default model was trained with them.

    0 neither letter nor digit (and a masked word), 1 lower, 2 Capitalised, 3 ALLCAPS, 4 one capital,
    5 any other mix of letters, 6 digits without letters, 7 digits and letters.
    """
    if word == MASK_TOKEN:
        return 0
    return (
        _classify_casing_cached(word) if len(word) <= 64 else _classify_casing_uncached(word)
    )  # long ones would only fill the cache


def is_plainly_visible(words: Sequence[str]) -> bool:
    """True where every word certainly has a visible character. A quick look: False says only that one must look."""
    text = "".join(words)
    return text.isprintable() and " " not in text and _REPLACEMENT not in text and all(words)


def is_visible(word: str) -> bool:
    """False for words of nothing but spaces, control and format characters, and U+FFFD."""
    return any(c != _REPLACEMENT and unicodedata.category(c) not in _INVISIBLE for c in word)


def has_lone_surrogate(word: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in word)
