"""Spans over characters to labels of words, and back.

A word belongs to a span if they share a character. Where a span begins or ends inside a word it is expanded to the
whole word, and `alignment` in the message's `meta` says so. Two spans must not share a character or a word.

Offsets are characters (code points) or UTF-16 units, the end exclusive: `offsets` tells which.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from service.contracts import NOT_UNICODE
from service.errors import InvalidInput
from service.formats.text.offsets import CHARACTERS, OffsetUnit, TextSpan, to_character_spans
from service.formats.text.word_splitter import SPLITTER, CharacterRange, split_words
from service.labels import OUTSIDE, Scheme, Span, labels_from_spans, parse_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.contracts import LabelledSentence

__all__ = [
    "AlignedText",
    "align_spans",
    "find_word_offsets",
    "get_given_scheme",
    "to_text_spans",
]


@dataclass(frozen=True, slots=True)
class AlignedText:
    """A text as words with labels, and what a message's `meta` must say of it."""

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
    """Labels the words of a text: our splitter's, or those that the platform has (`words`, named by `splitter`).

    `unit` is what the platform counts in where nothing in the spans tells it.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInput(NOT_UNICODE, field=field) from None
    meta: dict[str, Any] = {"splitter": splitter, "scheme": scheme.value, "text": text}
    if words is None:
        words = split_words(text)
    else:
        meta["offsets"] = [list(word) for word in words]
    if not words:
        raise InvalidInput("there is no word in it", field=field)
    chosen, counted = to_character_spans(text, given, words, unit=unit)
    if counted is not None:
        meta |= {"given_offsets": counted.unit, "offsets_told_by": counted.evidence}
    _check_no_overlap(chosen)
    entities, exact = _to_word_spans(text, chosen, words)
    meta["alignment"] = "exact" if exact else "expanded"
    if loose := _find_loose_spans(chosen, entities, words):
        meta["loose"] = loose
    labels = labels_from_spans(entities, len(words), scheme)
    return AlignedText([word.extract(text) for word in words], labels, meta)


# -- words -------------------------------------------------------------------------------------------------------------


def _check_no_overlap(given: Sequence[TextSpan]) -> None:
    for one, other in pairwise(sorted(given, key=lambda span: (span.start, span.end))):
        if other.start < one.end:
            raise InvalidInput(
                f"it overlaps {one.field} ({one.label} over {one.start} to {one.end}, {other.label} over "
                f"{other.start} to {other.end}): a word can have one label only",
                field=other.field,
            )


def _to_word_spans(text: str, given: Sequence[TextSpan], words: Sequence[CharacterRange]) -> tuple[list[Span], bool]:
    starts, ends = [word.start for word in words], [word.end for word in words]
    entities: list[Span] = []
    before: TextSpan | None = None
    exact = True
    for span in sorted(given, key=lambda span: span.start):
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end)
        if first >= last:
            raise InvalidInput(f"no word lies in {text[span.start : span.end][:40]!r}", field=span.field)
        if span.label in ("", OUTSIDE):
            raise InvalidInput(f"an entity can't be called {span.label!r}", field=span.field)
        if before is not None and entities[-1].end > first:
            shared = words[first].extract(text)
            raise InvalidInput(
                f"it shares the word {shared[:40]!r} with {before.field}: a word can have one label only",
                field=span.field,
            )
        entities.append(Span(first, last, span.label))
        # White space at a span's ends is nobody's: it can be left out without a word.
        bare = text[span.start : span.end]
        begin = span.start + len(bare) - len(bare.lstrip())
        end = span.end - (len(bare) - len(bare.rstrip()))
        exact = exact and words[first].start >= begin and words[last - 1].end <= end
        before = span
    return entities, exact


def _find_loose_spans(
    given: Sequence[TextSpan], entities: Sequence[Span], words: Sequence[CharacterRange]
) -> list[list[int]]:
    """Spans that labels can't tell: not just their words, or next to one of their type, which IO makes one.

    On the way back they are what they were.
    """
    touching = {
        place
        for first, (one, other) in enumerate(pairwise(entities))
        if (one.end, one.type) == (other.start, other.type)
        for place in (first, first + 1)
    }
    placed = zip(sorted(given, key=lambda span: span.start), entities, strict=True)
    return [
        [span.start, span.end]
        for place, (span, entity) in enumerate(placed)
        if place in touching or (span.start, span.end) != (words[entity.start].start, words[entity.end - 1].end)
    ]


# -- back to the text --------------------------------------------------------------------------------------------------


def find_word_offsets(sentence: LabelledSentence) -> list[CharacterRange] | None:
    """Where the words of a sentence stand in the text that its `meta` holds; none where that can't be told."""
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


def to_text_spans(sentence: LabelledSentence, entities: Iterable[Span] | None = None) -> list[TextSpan] | None:
    """Entities over words (by default those that the labels say) as spans over the text; none without its text."""
    words = find_word_offsets(sentence)
    if words is None:
        return None
    text = str((sentence.meta or {})["text"])
    if entities is None:
        entities = parse_spans(sentence.labels, get_given_scheme(sentence))
    found = []
    for entity in entities:
        start, end = words[entity.start].start, words[entity.end - 1].end
        found.append(TextSpan(start, end, entity.type, text=text[start:end]))
    return found


def get_given_scheme(sentence: LabelledSentence) -> Scheme:
    """The scheme that the labels were written in when spans became labels."""
    named = (sentence.meta or {}).get("scheme")
    return Scheme(named) if isinstance(named, str) and named in set(Scheme) else Scheme.IOB2
