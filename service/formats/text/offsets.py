"""What a span's offsets count: characters (code points), or UTF-16 units, in which an emoji is two.

Browsers count UTF-16 units, and some platforms store what the browser said. The two differ only behind a character
past U+FFFF; there they are told apart, for all spans of a text together, by the first of these that decides:

1. `span text`: a span carries its text, and it stands there in one of them only (characters, where in both);
2. `text length`: in the other one an offset is behind the text or inside a character;
3. `word boundaries`: all spans begin and end with words in one of them only;
4. `platform`: what the platform's own editor counts.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.formats.text.word_splitter import CharacterRange

OffsetUnit = Literal["characters", "utf-16"]
CHARACTERS: Final = "characters"
UTF16: Final = "utf-16"
_LAST_SINGLE_UNIT_CHARACTER: Final = "\uffff"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters start..end-1 of a text with a label. `field` is where the span stood, for messages."""

    start: int
    end: int
    label: str
    field: str = "spans"
    text: str | None = None


class OffsetDetection(NamedTuple):
    """The unit that was found, and what told it."""

    unit: OffsetUnit
    evidence: Literal["span text", "text length", "word boundaries", "platform"]


def to_character_spans(
    text: str, given: Sequence[TextSpan], words: Sequence[CharacterRange], *, unit: OffsetUnit = CHARACTERS
) -> tuple[list[TextSpan], OffsetDetection | None]:
    """The spans in characters; and how they were counted, where it is not as everybody would read them."""
    as_told = list(given)
    wrong = _find_invalid_span(text, as_told)
    converted = _from_utf16(text, as_told) if max(text, default="") > _LAST_SINGLE_UNIT_CHARACTER else None
    if converted is not None and (converted == as_told or _find_invalid_span(text, converted) is not None):
        converted = None
    if converted is None:
        if wrong is not None:
            span, problem = wrong
            raise InvalidInput(problem, field=span.field)
        return as_told, None
    with_text = any(span.text is not None for span in given)
    if wrong is not None:
        return converted, OffsetDetection(UTF16, "span text" if with_text else "text length")
    if with_text:
        return as_told, None
    fits, converted_fits = (_is_word_aligned(text, one, words) for one in (as_told, converted))
    if fits != converted_fits:
        return (as_told if fits else converted), OffsetDetection(CHARACTERS if fits else UTF16, "word boundaries")
    return (converted if unit == UTF16 else as_told), OffsetDetection(unit, "platform")


def _find_invalid_span(text: str, given: Iterable[TextSpan]) -> tuple[TextSpan, str] | None:
    for span in given:
        if not 0 <= span.start < span.end <= len(text):
            return span, f"characters {span.start} to {span.end} don't fit a text of {len(text)}"
        found = text[span.start : span.end]
        if span.text is not None and _normalize_whitespace(found) != _normalize_whitespace(span.text):
            return span, (
                f"characters {span.start} to {span.end} are {found[:40]!r} and the span says {span.text[:40]!r}: "
                "the text was changed, or its offsets are neither characters nor UTF-16 units"
            )
    return None


def _normalize_whitespace(text: str) -> str:
    """Browsers and exports write line breaks in several ways."""
    return " ".join(text.replace("\\n", "\n").split())


def _is_word_aligned(text: str, given: Sequence[TextSpan], words: Sequence[CharacterRange]) -> bool:
    """Whether all begin and end with words, and none overlaps another. White space at an end is nobody's."""
    starts, ends = {word.start for word in words}, {word.end for word in words}
    for span in given:
        bare = text[span.start : span.end]
        begin, end = span.end - len(bare.lstrip()), span.start + len(bare.rstrip())
        if begin >= end or begin not in starts or end not in ends:
            return False
    return all(one.end <= other.start for one, other in pairwise(sorted(given, key=lambda span: span.start)))


def to_utf16_offsets(text: str, start: int, end: int) -> tuple[int, int]:
    """The offsets of characters in UTF-16 units."""
    begin = start + _count_surrogate_pairs(text[:start])
    return begin, begin + end - start + _count_surrogate_pairs(text[start:end])


def _count_surrogate_pairs(text: str) -> int:
    """How many characters are two units."""
    return 0 if text.isascii() else sum(char > _LAST_SINGLE_UNIT_CHARACTER for char in text)


def _from_utf16(text: str, given: Sequence[TextSpan]) -> list[TextSpan] | None:
    """None where an offset lies inside a character or behind the text."""
    ends, total = [], 0
    for char in text:
        total += 2 if char > _LAST_SINGLE_UNIT_CHARACTER else 1
        ends.append(total)
    found = []
    for span in given:
        places = []
        for offset in (span.start, span.end):
            place = bisect_left(ends, offset) + 1 if offset > 0 else 0
            if offset < 0 or place > len(ends) or (place and ends[place - 1] != offset):
                return None
            places.append(place)
        found.append(TextSpan(places[0], places[1], span.label, span.field, span.text))
    return found
