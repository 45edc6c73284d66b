"""Converts spans over characters to labels of words, and back.

A word belongs to a span if they share a character. A span that begins or ends inside a word is expanded to the whole
word, and `alignment` in the sentence's `meta` says so. Two spans must not share a character or a word.

Offsets are characters (code points) or UTF-16 units, the end exclusive; `service.formats.text.offsets` decides which.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from service.contracts import NOT_UNICODE
from service.errors import InvalidInput, TooLongError
from service.formats.text.offsets import CHARACTERS, OffsetUnit, TextSpan, to_character_spans
from service.formats.text.word_splitter import SPLITTER, CharacterRange, split_words
from service.labels import OUTSIDE, Scheme, Span, labels_from_spans, parse_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.contracts import AnnotatedSentence

__all__ = [
    "AlignedText",
    "align_spans",
    "find_word_offsets",
    "get_given_scheme",
    "to_text_spans",
]


MAX_TEXT_CHARS: Final = 200_000  # twice the longest sentence: white space belongs to no word
MAX_CACHED_TEXTS: Final = 4  # a text with many annotations is split once


@dataclass(frozen=True, slots=True)
class AlignedText:
    """The words of a text with their labels, and the `meta` that the sentence needs to be written again."""

    tokens: list[str]
    labels: list[str]
    meta: dict[str, Any]


def align_spans(
    text: str,
    given: Sequence[TextSpan],
    *,
    scheme: Scheme = Scheme.IOB2,
    words: Sequence[CharacterRange] | None = None,
    splitter: str = SPLITTER,
    field: str = "text",
    unit: OffsetUnit = CHARACTERS,
) -> AlignedText:
    """Labels the words of a text: those of the splitter, or the platform's own (`words`, made by `splitter`).

    `unit` is the platform's unit of offsets, for spans that do not show it.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise TooLongError(f"{len(text):,} characters, the limit is {MAX_TEXT_CHARS:,}: split the text", field=field)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInput(NOT_UNICODE, field=field) from None
    meta: dict[str, Any] = {"splitter": splitter, "scheme": scheme.value, "text": text}
    if words is None:
        words = _split_text(text)
    else:
        meta["offsets"] = [list(word) for word in words]
    if not words:
        raise InvalidInput("it has no words", field=field)
    spans, detection = to_character_spans(text, given, words, unit=unit)
    if detection is not None:
        meta |= {"given_offsets": detection.unit, "offsets_told_by": detection.evidence}
    _check_no_overlap(spans)
    entities, exact = _to_word_spans(text, spans, words)
    meta["alignment"] = "exact" if exact else "expanded"
    if loose := _find_loose_spans(spans, entities, words):
        meta["loose"] = loose
    labels = labels_from_spans(entities, len(words), scheme)
    return AlignedText([word.extract(text) for word in words], labels, meta)


# -- words -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=MAX_CACHED_TEXTS)
def _split_text(text: str) -> tuple[CharacterRange, ...]:
    return tuple(split_words(text))


def _check_no_overlap(given: Sequence[TextSpan]) -> None:
    for span, following in pairwise(sorted(given, key=lambda span: (span.start, span.end))):
        if following.start < span.end:
            raise InvalidInput(
                f"it overlaps {span.field} ({span.label} over {span.start} to {span.end}, {following.label} over "
                f"{following.start} to {following.end}): a word can have one label only",
                field=following.field,
            )


def _to_word_spans(text: str, given: Sequence[TextSpan], words: Sequence[CharacterRange]) -> tuple[list[Span], bool]:
    starts, ends = [word.start for word in words], [word.end for word in words]
    entities: list[Span] = []
    previous: TextSpan | None = None
    exact = True
    for span in sorted(given, key=lambda span: span.start):
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end)
        if first >= last:
            raise InvalidInput(f"no word lies in {text[span.start : span.end][:40]!r}", field=span.field)
        if span.label in ("", OUTSIDE):
            raise InvalidInput(f"an entity can't be called {span.label!r}", field=span.field)
        if previous is not None and entities[-1].end > first:
            shared = words[first].extract(text)
            raise InvalidInput(
                f"it shares the word {shared[:40]!r} with {previous.field}: a word can have one label only",
                field=span.field,
            )
        entities.append(Span(first, last, span.label))
        # White space at the ends of a span belongs to no word: ignore it.
        covered = text[span.start : span.end]
        begin = span.start + len(covered) - len(covered.lstrip())
        end = span.end - (len(covered) - len(covered.rstrip()))
        exact = exact and words[first].start >= begin and words[last - 1].end <= end
        previous = span
    return entities, exact


def _find_loose_spans(
    given: Sequence[TextSpan], entities: Sequence[Span], words: Sequence[CharacterRange]
) -> list[list[int]]:
    """The offsets of spans that labels can't express, for exports.

    These are spans that do not end at words, and spans next to one of the same type, which IO labels join.
    """
    adjacent = {
        index
        for first, (entity, following) in enumerate(pairwise(entities))
        if (entity.end, entity.type) == (following.start, following.type)
        for index in (first, first + 1)
    }
    pairs = zip(sorted(given, key=lambda span: span.start), entities, strict=True)
    return [
        [span.start, span.end]
        for index, (span, entity) in enumerate(pairs)
        if index in adjacent or (span.start, span.end) != (words[entity.start].start, words[entity.end - 1].end)
    ]


# -- back to the text --------------------------------------------------------------------------------------------------


def find_word_offsets(sentence: AnnotatedSentence) -> list[CharacterRange] | None:
    """The offsets of the words in the text of the sentence's `meta`; None if they can't be found."""
    meta = sentence.meta or {}
    text, offsets = meta.get("text"), meta.get("offsets")
    if not isinstance(text, str):
        return None
    if isinstance(offsets, list):
        words = [word for word in map(_parse_word, offsets) if word is not None]
    elif meta.get("splitter") == SPLITTER:
        words = split_words(text)
    else:
        return None
    return words if [word.extract(text) for word in words] == list(sentence.tokens) else None


def _parse_word(value: object) -> CharacterRange | None:
    match value:
        case [int(start), int(end)]:
            return CharacterRange(start, end)
        case _:
            return None


def to_text_spans(sentence: AnnotatedSentence, entities: Iterable[Span] | None = None) -> list[TextSpan] | None:
    """Entities over words (by default those of the labels) as spans over the text; None without its text."""
    words = find_word_offsets(sentence)
    if words is None:
        return None
    text = str((sentence.meta or {})["text"])
    if entities is None:
        entities = parse_spans(sentence.labels, get_given_scheme(sentence))
    spans = []
    for entity in entities:
        start, end = words[entity.start].start, words[entity.end - 1].end
        spans.append(TextSpan(start, end, entity.type, text=text[start:end]))
    return spans


def get_given_scheme(sentence: AnnotatedSentence) -> Scheme:
    """The scheme in which spans became labels."""
    name = (sentence.meta or {}).get("scheme")
    return Scheme(name) if isinstance(name, str) and name in set(Scheme) else Scheme.IOB2
