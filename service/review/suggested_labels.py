"""The labels of a sentence after all its doubts are accepted: its given entities, with the suggested ones in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import UnknownLabelError
from service.labels import OUTSIDE, Span, convert_scheme, find_sequence_problem, labels_from_spans, parse_spans
from service.labels.rendering import match_spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.contracts import EntitySpan
    from service.labels import Scheme
    from service.review.items import ReviewFlag, ReviewItem


def accept_suggestions(item: ReviewItem, scheme: Scheme) -> tuple[str, ...]:
    """Words that are not in doubt keep their labels. Raises UnknownLabelError for labels that the scheme can't read."""
    given = parse_spans(item.labels, scheme)
    replaced = [_to_span(suspect.given_span) for suspect in item.suspects if suspect.given_span is not None]
    suggested = {_to_span(suspect.suggested_span) for suspect in item.suspects if suspect.suggested_span is not None}
    kept = [span for span in given if not any(_overlaps(span, other) for other in (*replaced, *suggested))]
    labels = _write_spans([*kept, *suggested], kept, item, scheme)
    for flag in select_single_flags(item):
        labels[flag.index] = flag.suggested
    changed = {index for index, (new, old) in enumerate(zip(labels, item.labels, strict=True)) if new != old}
    if find_sequence_problem(labels, scheme, changed) is not None:
        labels = match_spelling(convert_scheme(labels, scheme, scheme), item.labels, scheme)
    return tuple(labels)


def select_single_flags(item: ReviewItem) -> list[ReviewFlag]:
    """The words in doubt that are no part of an entity in doubt."""
    ranges = [
        range(span.start, span.end)
        for suspect in item.suspects
        for span in (suspect.given_span, suspect.suggested_span)
        if span is not None
    ]
    return [flag for flag in item.doubtful if not any(flag.index in words for words in ranges)]


def _write_spans(spans: Iterable[Span], kept: Iterable[Span], item: ReviewItem, scheme: Scheme) -> list[str]:
    """The labels of these entities. Those that are kept stay as the annotator wrote them, unless that changes them."""
    ordered = sorted(spans)
    written = match_spelling(labels_from_spans(ordered, len(item.labels), scheme), item.labels, scheme)
    written = _spell_as_suggested(written, item.doubtful, scheme)
    labels = list(written)
    for span in kept:
        labels[span.start : span.end] = item.labels[span.start : span.end]
    return labels if parse_spans(labels, scheme) == ordered else written


def _spell_as_suggested(labels: list[str], flags: Sequence[ReviewFlag], scheme: Scheme) -> list[str]:
    """The service's own spelling of a label, where it means the same."""
    spelled = list(labels)
    for flag in flags:
        try:
            same = parse_spans([flag.suggested], scheme) == parse_spans([labels[flag.index]], scheme)
        except UnknownLabelError:
            continue
        if same and flag.suggested[:1].upper() == labels[flag.index][:1].upper():
            spelled[flag.index] = flag.suggested
    return spelled


def describe_type(span: EntitySpan | None) -> str:
    return OUTSIDE if span is None else span.type


def _to_span(span: EntitySpan) -> Span:
    return Span(span.start, span.end, span.type)


def _overlaps(a: Span, b: Span) -> bool:
    return a.start < b.end and b.start < a.end
