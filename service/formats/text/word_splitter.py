"""Splits text into words with their offsets. There is one splitter, with a versioned name.

The words are those of CoNLL-like datasets, on which models are trained: punctuation is a word of its own, "Al-Ain",
"U.S.", "J." before a name, "AT&T", "1,000.5" and "1996-08-22" are one word, "Hill's" is two and "don't" is "do n't".
Scripts without spaces (Han, Kana, Thai, Lao, Khmer, Myanmar) are split by character, because a span can begin anywhere.

A change of the result needs a new name: sentences record the name of their splitter, and their offsets are found by
splitting the text again.

>>> [word.extract("Hill's odds: 1,000.5") for word in split_words("Hill's odds: 1,000.5")]
['Hill', "'s", 'odds', ':', '1,000.5']
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

SPLITTER: Final = "labelwatch-words-1"

_SPACELESS: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x30FF),  # Kana
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_INVISIBLE_SPACES: Final = frozenset({0x200B, 0xFEFF})
_ALIASES: Final = {0x2019: "'", 0x2010: "-", 0x2011: "-"}
# The rules below see each character as one of these shapes; a shape is one character, so that offsets stay.
_SMALL, _CAPITAL, _MARK, _ALONE, _OTHER = "é", "É", "\u0301", "一", "§"
_MAX_CACHED_SHAPES: Final = 20_000


class _ShapeCache(dict[int, str]):
    """The shape of each code point, computed when it is first seen."""

    def __missing__(self, code: int) -> str:
        shape = _classify_character(code)
        if len(self) < _MAX_CACHED_SHAPES:  # hostile text must not fill the memory
            self[code] = shape
        return shape


def _classify_character(code: int) -> str:
    char = chr(code)
    category = unicodedata.category(char)
    if category[0] == "Z" or category == "Cc" or code in _INVISIBLE_SPACES:
        return " "
    if code < 0x80 or code in _ALIASES:
        return _ALIASES.get(code, char)
    if category[0] == "L":
        if any(first <= code <= last for first, last in _SPACELESS):
            return _ALONE
        return _CAPITAL if category in ("Lu", "Lt") else _SMALL
    return {"M": _MARK, "N": "0"}.get(category[0], _MARK if category == "Cf" else _OTHER)


_SHAPES: Final = _ShapeCache()

_M = f"{_MARK}*"
_ANY = f"[A-Za-z0-9_{_SMALL}{_CAPITAL}]"
_LOW = f"[a-z0-9_{_SMALL}]"
_UP = f"[A-Z{_CAPITAL}]"
_LETTER = f"[A-Za-z{_SMALL}{_CAPITAL}]"
_AFTER_APOSTROPHE = f"(?i:s|m|d|re|ve|ll)(?!{_ANY})"
_NOT = f"(?i:n't)(?!{_ANY})"
_CHAR = f"(?:(?!{_NOT}){_ANY}{_M})"
_JOINT = "|".join(
    (
        "[-&@]",
        f"'(?!{_AFTER_APOSTROPHE})",
        rf"\.(?={_LOW})",
        rf"(?<={_UP})\.(?={_UP})",
        "(?<=[0-9])[,:/](?=[0-9])",
    )
)
_WORD = f"{_CHAR}+(?:(?:{_JOINT}){_CHAR}+)*"
_WORD_PATTERN: Final = re.compile(
    "|".join(
        (
            f"'{_AFTER_APOSTROPHE}",
            _NOT,
            rf"(?:{_LETTER}{_M}\.){{2,}}(?:-{_WORD})?(?!{_ANY})",  # U.S., a.m., U.S.-based
            rf"{_UP}{_M}\.(?= +{_UP})",  # J. Smith
            _WORD,
            r"\.{2,}",
            "-{2,}",
            f"[^ ]{_M}",
        )
    )
)


class CharacterRange(NamedTuple):
    """The characters start..end-1 of a text."""

    start: int
    end: int

    def extract(self, text: str) -> str:
        return text[self.start : self.end]


def split_words(text: str) -> list[CharacterRange]:
    """The words in order. Only white space is left out between them."""
    return [CharacterRange(*match.span()) for match in _WORD_PATTERN.finditer(text.translate(_SHAPES))]
