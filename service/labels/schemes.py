"""How a label says where an entity begins and ends: IOB1, IOB2, BILUO and IO.

Reading is lenient, because the labels are in doubt: an I- or L- that continues nothing starts an entity, and an entity
that nothing closes ends where its type ends. So IOB1 and IOB2 are read alike; they differ only in writing.

| scheme | prefixes        | also read                                                               |
|--------|-----------------|-------------------------------------------------------------------------|
| iob1   | I, B where two entities of one type touch | lower-case prefixes                           |
| iob2   | B, I            | lower-case prefixes                                                     |
| biluo  | B, I, L, U      | lower-case prefixes; E- as L-, S- and W- as U-, M- as I- (BIOES, BMES, BMEWO) |
| io     | none: bare types | "I-" in front of the type                                              |

Only "O" is outside. The prefix ends at the first hyphen: "B-PRODUCT-NAME" has the type "PRODUCT-NAME". A letter that is
no prefix of the scheme belongs to the type: in IO data "E-MAIL" is a type.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from service.errors import InvalidInput, UnknownLabelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OUTSIDE = "O"

T = TypeVar("T")


class Scheme(StrEnum):
    """A labelling scheme, by its name in settings and on the command line."""

    IOB1 = "iob1"
    IOB2 = "iob2"
    BILUO = "biluo"
    IO = "io"


class Span(NamedTuple):
    """An entity over the words start..end-1."""

    start: int
    end: int
    type: str


class Tag(NamedTuple):
    """A parsed label: its canonical prefix ("O", "B", "I", "L" or "U"; always "I" in IO) and its type ("" outside)."""

    prefix: str
    type: str


_ANY_CASE_BI = {"B": "B", "I": "I", "b": "B", "i": "I"}
_ALIASES = {"L": "L", "U": "U", "E": "L", "S": "U", "W": "U", "M": "I"}

# The spellings of prefixes that each scheme reads, and the canonical prefix of each.
PREFIX_SPELLINGS: dict[Scheme, dict[str, str]] = {
    Scheme.IOB1: _ANY_CASE_BI,
    Scheme.IOB2: _ANY_CASE_BI,
    Scheme.BILUO: _ANY_CASE_BI | _ALIASES | {spelt.lower(): prefix for spelt, prefix in _ALIASES.items()},
    Scheme.IO: {"I": "I", "i": "I"},
}

# The prefixes that each scheme writes.
PREFIXES: dict[Scheme, str] = {Scheme.IOB1: "BI", Scheme.IOB2: "BI", Scheme.BILUO: "BILU", Scheme.IO: "I"}


def split_prefix(label: str, scheme: Scheme) -> tuple[str | None, str]:
    """The canonical prefix, or None if the label has no prefix of the scheme, and the rest."""
    if label[1:2] == "-" and len(label) > 2 and (prefix := PREFIX_SPELLINGS[scheme].get(label[0])):
        return prefix, label[2:]
    return None, label


@lru_cache(maxsize=4096)
def parse_label(label: str, scheme: Scheme) -> Tag:
    """Parses one label, or raises an UnknownLabelError that says why it is not a label of the scheme."""
    if label == OUTSIDE:
        return Tag(OUTSIDE, "")
    prefix, entity = split_prefix(label, scheme)
    if prefix is None and scheme is Scheme.IO and label:
        return Tag("I", label)
    if prefix is None:
        spellings = ", ".join(f"{p}-" for p in PREFIXES[scheme])
        raise UnknownLabelError(
            f"label {label!r} is neither {OUTSIDE!r} nor starts with a prefix of scheme {scheme.value} ({spellings}). "
            f'If it means "outside", map it ({{{_quote(label)}: "O"}}); if the labels have no prefixes, the scheme is io'
        )
    if entity == OUTSIDE:
        raise UnknownLabelError(f"label {label!r}: an entity type can't be called {OUTSIDE!r}")
    return Tag(prefix, entity)


def parse_labels(labels: Sequence[str], scheme: Scheme) -> list[Tag]:
    """Parses a sentence's labels; the error names the word."""
    tags: list[Tag] = []
    for label in labels:
        try:
            tags.append(parse_label(label, scheme))
        except UnknownLabelError as error:
            raise UnknownLabelError(error.problem, field="labels", word=len(tags)) from None
    return tags


@lru_cache(maxsize=4096)
def get_entity_type(label: str, scheme: Scheme | None = None) -> str:
    """The type without its prefix; "O" stays "O".

    Without a scheme the prefixes of all schemes are removed, so "E-MAIL" becomes "MAIL": name the scheme if types may
    look like that.
    """
    return split_prefix(label, Scheme.BILUO if scheme is None else scheme)[1]


def starts_entity(previous: tuple[str, T] | None, here: tuple[str, T]) -> bool:
    """Whether a word inside an entity starts a new one instead of continuing the previous word: the lenient rule."""
    return previous is None or here[0] in "BU" or previous[0] in "OLU" or previous[1] != here[1]


def group_entities(tags: Iterable[tuple[str, T]]) -> list[tuple[int, int, T]]:
    """The entities (start, end, type) in a sentence of (canonical prefix, type)."""
    entities: list[tuple[int, int, T]] = []
    previous: tuple[str, T] | None = None
    for word, tag in enumerate(tags):
        if tag[0] != OUTSIDE:
            start = word if starts_entity(previous, tag) else entities.pop()[0]
            entities.append((start, word + 1, tag[1]))
        previous = tag
    return entities


def parse_spans(labels: Sequence[str], scheme: Scheme) -> list[Span]:
    """The entities of a sentence, first to last. In IO, adjacent entities of one type are one."""
    return [Span(*entity) for entity in group_entities(parse_labels(labels, scheme))]


def format_label(prefix: str, entity: str, scheme: Scheme) -> str:
    """One label as the scheme writes it. In IO a bare type that looks like a prefixed label gets an "I-"."""
    if scheme is not Scheme.IO:
        return f"{prefix}-{entity}"
    return entity if split_prefix(entity, scheme)[0] is None else f"I-{entity}"


def labels_from_spans(entities: Iterable[Span], n: int, scheme: Scheme) -> list[str]:
    """The labels of a sentence of n words with these entities (in any order, none overlapping).

    `parse_spans` returns the same spans, except that IO joins adjacent entities of one type.
    """
    labels = [OUTSIDE] * n
    before = Span(0, 0, "")
    for span in sorted(entities):
        if not 0 <= span.start < span.end <= n:
            raise InvalidInput(f"span {tuple(span)} does not fit a sentence of {n} words", field="spans")
        if span.start < before.end:
            raise InvalidInput(f"spans {tuple(before)} and {tuple(span)} overlap", field="spans", word=span.start)
        if span.type in {"", OUTSIDE}:
            raise InvalidInput(f"span {tuple(span)}: an entity type can't be {span.type!r}", field="spans")
        length = span.end - span.start
        if scheme is Scheme.BILUO:
            prefixes = "U" if length == 1 else "B" + "I" * (length - 2) + "L"
        elif scheme is Scheme.IOB1 and not (before.end == span.start and before.type == span.type):
            prefixes = "I" * length
        else:
            prefixes = "B" + "I" * (length - 1)
        labels[span.start : span.end] = [format_label(prefix, span.type, scheme) for prefix in prefixes]
        before = span
    return labels


def convert_scheme(labels: Sequence[str], source: Scheme, target: Scheme) -> list[str]:
    """The same entities in another scheme: always a valid sequence, even if `labels` was none.

    IO can't separate adjacent entities of one type: conversion to IO joins them for good.
    """
    return labels_from_spans(parse_spans(labels, source), len(labels), target)


def can_follow(previous: Tag | None, following: Tag | None, scheme: Scheme) -> bool:
    """`is_valid_transition` for parsed labels."""
    match scheme:
        case Scheme.IO:
            return True
        case Scheme.IOB1 | Scheme.IOB2:
            bound = "B" if scheme is Scheme.IOB1 else "I"  # the prefix that must follow its own type
            if following is None or following.prefix != bound:
                return True
            return previous is not None and previous.type == following.type
        case Scheme.BILUO:
            is_open = previous is not None and previous.prefix in "BI"
            continues = following is not None and following.prefix in "IL"
            if is_open and continues:
                return previous is not None and following is not None and previous.type == following.type
            return is_open == continues


def is_valid_transition(previous: str | None, following: str | None, scheme: Scheme) -> bool:
    """Whether the strict scheme allows one label after the other; None stands for the sentence's start and end."""
    return can_follow(
        None if previous is None else parse_label(previous, scheme),
        None if following is None else parse_label(following, scheme),
        scheme,
    )


def is_valid_start(label: str, scheme: Scheme) -> bool:
    """Whether a sentence may begin with the label."""
    return is_valid_transition(None, label, scheme)


def is_valid_end(label: str, scheme: Scheme) -> bool:
    """Whether a sentence may end with the label."""
    return is_valid_transition(label, None, scheme)


def is_valid_sequence(labels: Sequence[str], scheme: Scheme) -> bool:
    """Whether the labels are a sequence that the strict scheme allows."""
    tags: list[Tag | None] = [None, *parse_labels(labels, scheme), None]
    return all(can_follow(a, b, scheme) for a, b in pairwise(tags))


def _quote(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
