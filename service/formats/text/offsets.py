"""The unit of a span's offsets: characters (code points), or UTF-16 units, in which an emoji is two.

Browsers count UTF-16 units, and some platforms store these. The units differ only after a character above U+FFFF.
There the unit of all spans of a text is decided by the first of these that applies:

1. `span text`: a span carries its text, which matches in one unit only (characters, if in both);
2. `text length`: in the other unit an offset is after the end of the text or inside a character;
3. `word boundaries`: all spans begin and end with words in one unit only;
4. `platform`: the unit of the platform's own editor.
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
    """Characters start..end-1 of a text with a label. `field` is the span's path in its record, for errors."""

    start: int
    end: int
    label: str
    field: str = "spans"
    text: str | None = None


class OffsetDetection(NamedTuple):
    """The unit of the offsets, and the evidence for it."""

    unit: OffsetUnit
    evidence: Literal["span text", "text length", "word boundaries", "platform"]


def to_character_spans(
    text: str, given: Sequence[TextSpan], words: Sequence[CharacterRange], *, unit: OffsetUnit = CHARACTERS
) -> tuple[list[TextSpan], OffsetDetection | None]:
    """The spans in characters, and how their unit was detected; None if both units give the same spans."""
    unconverted = list(given)
    invalid = _find_invalid_span(text, unconverted)
    converted = _from_utf16(text, unconverted) if max(text, default="") > _LAST_SINGLE_UNIT_CHARACTER else None
    if converted is not None and (converted == unconverted or _find_invalid_span(text, converted) is not None):
        converted = None
    if converted is None:
        if invalid is not None:
            span, problem = invalid
            raise InvalidInput(problem, field=span.field)
        return unconverted, None
    with_text = any(span.text is not None for span in given)
    if invalid is not None:
        return converted, OffsetDetection(UTF16, "span text" if with_text else "text length")
    if with_text:
        return unconverted, None
    is_aligned = _is_word_aligned(text, unconverted, words)
    if is_aligned != _is_word_aligned(text, converted, words):
        if is_aligned:
            return unconverted, OffsetDetection(CHARACTERS, "word boundaries")
        return converted, OffsetDetection(UTF16, "word boundaries")
    return (converted if unit == UTF16 else unconverted), OffsetDetection(unit, "platform")


def _find_invalid_span(text: str, given: Iterable[TextSpan]) -> tuple[TextSpan, str] | None:
    for span in given:
        if not 0 <= span.start < span.end <= len(text):
            return span, f"characters {span.start} to {span.end} don't fit a text of {len(text)}"
        covered = text[span.start : span.end]
        if span.text is not None and _normalize_whitespace(covered) != _normalize_whitespace(span.text):
            return span, (
                f"characters {span.start} to {span.end} are {covered[:40]!r} and the span says {span.text[:40]!r}: "
                "the text was changed, or its offsets are neither characters nor UTF-16 units"
            )
    return None


def _normalize_whitespace(text: str) -> str:
    """One space for all white space, because browsers and exports write line breaks in several ways."""
    return " ".join(text.replace("\\n", "\n").split())


def _is_word_aligned(text: str, given: Sequence[TextSpan], words: Sequence[CharacterRange]) -> bool:
    """Whether all spans begin and end with words and none overlaps another. White space at the ends is ignored."""
    starts, ends = {word.start for word in words}, {word.end for word in words}
    for span in given:
        covered = text[span.start : span.end]
        begin, end = span.end - len(covered.lstrip()), span.start + len(covered.rstrip())
        if begin >= end or begin not in starts or end not in ends:
            return False
    ordered = sorted(given, key=lambda span: span.start)
    return all(span.end <= following.start for span, following in pairwise(ordered))


def to_utf16_offsets(text: str, start: int, end: int) -> tuple[int, int]:
    """Offsets in characters as offsets in UTF-16 units."""
    begin = start + _count_surrogate_pairs(text[:start])
    return begin, begin + end - start + _count_surrogate_pairs(text[start:end])


def _count_surrogate_pairs(text: str) -> int:
    """The number of characters that take two units."""
    return 0 if text.isascii() else sum(char > _LAST_SINGLE_UNIT_CHARACTER for char in text)


def _from_utf16(text: str, given: Sequence[TextSpan]) -> list[TextSpan] | None:
    """The spans in characters; None if an offset is inside a character or after the end of the text."""
    ends, total = [], 0
    for char in text:
        total += 2 if char > _LAST_SINGLE_UNIT_CHARACTER else 1
        ends.append(total)
    spans = []
    for span in given:
        positions = []
        for offset in (span.start, span.end):
            position = bisect_left(ends, offset) + 1 if offset > 0 else 0
            if offset < 0 or position > len(ends) or (position and ends[position - 1] != offset):
                return None
            positions.append(position)
        spans.append(TextSpan(positions[0], positions[1], span.label, span.field, span.text))
    return spans
