"""Spans over characters to labels of words, and back.

A word belongs to a span if they share a character. Where a span begins or ends inside a word it is expanded to the
whole word, and `alignment` in the message's `meta` says so. Two spans must not share a character or a word.

Offsets are characters (code points), the end exclusive. Exports of old browsers count UTF-16 units, in which an emoji
is two: where a span carries its text, the two are told apart by comparing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from service.contracts import NOT_UNICODE
from service.errors import InvalidInput
from service.formats.words import SPLITTER, Word, split_words
from service.labels import OUTSIDE, Scheme, Span, labels_from_spans, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.contracts import LabelledSentence

NOT_TOLD: Final = "it is missing"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters start..end-1 of a text with a label. `field` is where the span stood, for messages."""

    start: int
    end: int
    label: str
    field: str = "spans"
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Aligned:
    """A text as words with labels, and what a message's `meta` must say of it."""

    tokens: list[str]
    labels: list[str]
    meta: dict[str, Any]


def align(
    text: str,
    given: Sequence[TextSpan],
    *,
    scheme: Scheme = Scheme.IOB2,
    words: Sequence[Word] | None = None,
    splitter: str = SPLITTER,
    field: str = "text",
) -> Aligned:
    """Labels the words of a text: our splitter's, or those that the platform has (`words`, named by `splitter`)."""
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
    chosen, utf16 = _in_characters(text, given)
    if utf16:
        meta["given_offsets"] = "utf-16"
    _check_apart(chosen)
    entities, exact = _over_words(text, chosen, words)
    meta["alignment"] = "exact" if exact else "expanded"
    labels = labels_from_spans(entities, len(words), scheme)
    return Aligned([word.of(text) for word in words], labels, meta)


# -- offsets -----------------------------------------------------------------------------------------------------------


def _in_characters(text: str, given: Sequence[TextSpan]) -> tuple[list[TextSpan], bool]:
    """The spans in characters, and whether they were counted in UTF-16 units: one way of counting for all."""
    wrong = _first_wrong(text, given)
    if wrong is None:
        return list(given), False
    if not text.isascii():
        ends = _utf16_ends(text)
        converted = [_from_utf16(span, ends) for span in given]
        if None not in converted:
            spans_in_characters = [span for span in converted if span is not None]
            if any(span.text is not None for span in given) and _first_wrong(text, spans_in_characters) is None:
                return spans_in_characters, True
    span, problem = wrong
    raise InvalidInput(problem, field=span.field)


def _first_wrong(text: str, given: Iterable[TextSpan]) -> tuple[TextSpan, str] | None:
    for span in given:
        if not 0 <= span.start < span.end <= len(text):
            return span, f"characters {span.start} to {span.end} don't fit a text of {len(text)}"
        found = text[span.start : span.end]
        if span.text is not None and _squashed(found) != _squashed(span.text):
            return span, (
                f"characters {span.start} to {span.end} are {found[:40]!r} and the span says {span.text[:40]!r}: "
                "the text was changed, or its offsets are neither characters nor UTF-16 units"
            )
    return None


def _squashed(text: str) -> str:
    """Browsers and exports write line breaks in several ways."""
    return " ".join(text.replace("\\n", "\n").split())


def _utf16_ends(text: str) -> list[int]:
    """The UTF-16 offset behind each character."""
    ends, total = [], 0
    for char in text:
        total += 2 if ord(char) > 0xFFFF else 1
        ends.append(total)
    return ends


def _from_utf16(span: TextSpan, ends: Sequence[int]) -> TextSpan | None:
    """None where an offset lies inside a character or behind the text."""
    places = []
    for offset in (span.start, span.end):
        place = bisect_left(ends, offset) + 1 if offset > 0 else 0
        if offset < 0 or place > len(ends) or (place and ends[place - 1] != offset):
            return None
        places.append(place)
    return TextSpan(places[0], places[1], span.label, span.field, span.text)


# -- words -------------------------------------------------------------------------------------------------------------


def _check_apart(given: Sequence[TextSpan]) -> None:
    for one, other in pairwise(sorted(given, key=lambda span: (span.start, span.end))):
        if other.start < one.end:
            raise InvalidInput(
                f"it overlaps {one.field} ({one.label} over {one.start} to {one.end}, {other.label} over "
                f"{other.start} to {other.end}): a word can have one label only",
                field=other.field,
            )


def _over_words(text: str, given: Sequence[TextSpan], words: Sequence[Word]) -> tuple[list[Span], bool]:
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
            shared = words[first].of(text)
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


# -- back to the text --------------------------------------------------------------------------------------------------


def word_offsets(sentence: LabelledSentence) -> list[Word] | None:
    """Where the words of a sentence stand in the text that its `meta` holds; none where that can't be told."""
    meta = sentence.meta or {}
    text, offsets = meta.get("text"), meta.get("offsets")
    if not isinstance(text, str):
        return None
    if isinstance(offsets, list):
        words = [word for word in map(_word, offsets) if word is not None]
    elif meta.get("splitter") == SPLITTER:
        words = split_words(text)
    else:
        return None
    return words if [word.of(text) for word in words] == list(sentence.tokens) else None


def _word(value: object) -> Word | None:
    match value:
        case [int(start), int(end)]:
            return Word(start, end)
        case _:
            return None


def text_spans(sentence: LabelledSentence, entities: Iterable[Span] | None = None) -> list[TextSpan] | None:
    """Entities over words (by default those that the labels say) as spans over the text; none without its text."""
    words = word_offsets(sentence)
    if words is None:
        return None
    text = str((sentence.meta or {})["text"])
    if entities is None:
        entities = spans(sentence.labels, given_scheme(sentence))
    found = []
    for entity in entities:
        start, end = words[entity.start].start, words[entity.end - 1].end
        found.append(TextSpan(start, end, entity.type, text=text[start:end]))
    return found


def given_scheme(sentence: LabelledSentence) -> Scheme:
    """The scheme that the labels were written in when spans became labels."""
    named = (sentence.meta or {}).get("scheme")
    return Scheme(named) if isinstance(named, str) and named in set(Scheme) else Scheme.IOB2


# -- reading spans from JSON -------------------------------------------------------------------------------------------


def read_span(value: object, field: str, *, names: Mapping[str, Sequence[str]] | None = None) -> TextSpan:
    """A span as `[start, end, label]` or as an object; `names` says how a platform calls its parts."""
    if isinstance(value, list):
        if len(value) != 3:
            raise InvalidInput("write it as [start, end, label]", field=field)
        start, end, label = value
        text = None
    elif isinstance(value, dict):
        names = names or {}
        start, end, label = (_part(value, names.get(part, (part,))) for part in ("start", "end", "label"))
        text = value.get("text")
    else:
        raise InvalidInput("write it as [start, end, label] or as an object with these", field=field)
    return TextSpan(
        integer(start, f"{field}.start"),
        integer(end, f"{field}.end"),
        one_label(label, f"{field}.label"),
        field,
        text if isinstance(text, str) else None,
    )


def _part(value: Mapping[str, Any], names: Sequence[str]) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)


def integer(value: object, field: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return value
    raise InvalidInput(NOT_TOLD if value is None else "it must be a whole number of characters", field=field)


def one_label(value: object, field: str) -> str:
    if isinstance(value, list):
        if len(value) != 1:
            told = f"{len(value)} labels ({', '.join(map(str, value[:5]))})" if value else "no label"
            raise InvalidInput(f"{told}: a span needs exactly one", field=field)
        value = value[0]
    if isinstance(value, str) and value:
        return value
    raise InvalidInput(NOT_TOLD if value in (None, "") else "it must be text", field=field)
