"""View models of the report's sentences: given entities above the words, suggested ones below, doubtful words marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from service.contracts import SuspectSpan
from service.errors import InvalidInput
from service.formats.plain.assessments import find_worst_word
from service.labels import OUTSIDE, Span, get_entity_type, parse_spans
from service.text import format_percent, format_score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.audit.report.palette import Palette
    from service.contracts import Assessment, EntitySpan, Flag
    from service.labels import Scheme

NO_ENTITY: Final = "no entity"
# These bound the size of the page. Of a long sentence it shows the words around the doubts.
MAX_UNCUT_WORDS: Final = 120
CONTEXT_WORDS: Final = 20
MAX_SHOWN_WORDS: Final = 240
MAX_DOUBTS: Final = 12
MAX_QUOTED_WORDS: Final = 12
MAX_TOKEN_CHARS: Final = 200
SUSPECT_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "missed": ("Missed", "An entity the labels leave out"),
    "spurious": ("Spurious", "A label where there is no entity"),
    "type": ("Wrong type", "An entity of another type in this place"),
    "boundary": ("Wrong boundary", "The right type over other words"),
}


class SpanPiece(NamedTuple):
    """A word's piece of a span. The span's name is on its first piece, and again after a gap."""

    css: str
    name: str


class WordView(NamedTuple):
    token: str
    description: str
    given: SpanPiece | None
    suggested: SpanPiece | None
    is_flagged: bool
    is_worst: bool
    """The least likely word of a sentence without flags."""
    is_joined: bool
    """Whether a span continues on the next word."""
    left_out_before: int


class DoubtView(NamedTuple):
    """`Wrong type “China” PER → LOC 98 % sure`. Empty texts are not shown."""

    kind: str
    given_words: str
    given_label: str
    suggested_words: str
    suggested_label: str
    confidence: float


class LeastLikelyWord(NamedTuple):
    token: str
    label: str
    p_given: float


@dataclass(frozen=True, slots=True)
class SentenceView:
    kinds: str
    """CSS classes by the kinds of its suspects, for the filter above the list."""
    id: str
    source: str
    annotator: str
    n_flags: int
    priority: str
    words: Sequence[WordView]
    left_out_after: int
    doubts: Sequence[DoubtView]
    doubts_left_out: int
    least_likely: LeastLikelyWord | None


def build_sentence(assessment: Assessment, scheme: Scheme, palette: Palette) -> SentenceView:
    doubts = _list_doubts(assessment)
    shown = _select_words(assessment, [index for index, _ in doubts])
    return SentenceView(
        kinds=" ".join(dict.fromkeys(f"k-{suspect.kind}" for suspect in assessment.suspects)),
        id=assessment.id or "",
        source=assessment.source or "",
        annotator=assessment.annotator or "",
        n_flags=len(assessment.flags),
        priority=format_score(assessment.priority),
        words=_build_words(assessment, scheme, palette, shown),
        left_out_after=len(assessment.tokens) - (shown[-1] + 1 if shown else 0),
        doubts=[
            build_suspect(assessment, doubt) if isinstance(doubt, SuspectSpan) else _build_flag(doubt)
            for _, doubt in doubts[:MAX_DOUBTS]
        ],
        doubts_left_out=max(len(doubts) - MAX_DOUBTS, 0),
        least_likely=None if assessment.flags else _find_least_likely(assessment),
    )


def _build_words(assessment: Assessment, scheme: Scheme, palette: Palette, shown: Sequence[int]) -> list[WordView]:
    given = _index_by_word(parse_given_spans(assessment.labels, scheme))
    suggested = _index_by_word(_collect_suggested_spans(assessment))
    flags = {flag.index: flag for flag in assessment.flags}
    worst = find_worst_word(assessment) if not flags else None
    words = []
    next_index = 0
    for index in shown:
        flag = flags.get(index)
        after_gap = index != next_index
        words.append(
            WordView(
                token=_shorten_token(assessment.tokens[index]),
                description=_describe_word(assessment, index, flag),
                given=_build_piece(given.get(index), index, assessment, palette, after_gap=after_gap),
                suggested=_build_piece(suggested.get(index), index, assessment, palette, after_gap=after_gap),
                is_flagged=flag is not None,
                is_worst=index == worst,
                is_joined=_is_continued(given, index) or _is_continued(suggested, index),
                left_out_before=index - next_index,
            )
        )
        next_index = index + 1
    return words


def _select_words(assessment: Assessment, doubtful: Sequence[int]) -> Sequence[int]:
    """All words. Of a long sentence, those around its doubts or else around its least likely word."""
    size = len(assessment.tokens)
    if size <= MAX_UNCUT_WORDS:
        return range(size)
    selected: set[int] = set()
    for index in doubtful[:MAX_DOUBTS] or [find_worst_word(assessment) or 0]:
        if len(selected) >= MAX_SHOWN_WORDS:
            break
        selected.update(range(max(index - CONTEXT_WORDS, 0), min(index + CONTEXT_WORDS + 1, size)))
    return sorted(selected)


def _shorten_token(token: str) -> str:
    return token if len(token) <= MAX_TOKEN_CHARS else f"{token[:MAX_TOKEN_CHARS]}…"


def parse_given_spans(labels: Sequence[str], scheme: Scheme) -> list[Span]:
    """The given entities. Labels that the scheme can't parse are shown word by word."""
    try:
        return parse_spans(labels, scheme)
    except InvalidInput:
        return [Span(index, index + 1, label) for index, label in enumerate(labels) if label != OUTSIDE]


def _collect_suggested_spans(assessment: Assessment) -> list[Span]:
    """Suggested entities, "no entity" over spurious ones, and the labels of flags that no suspect covers."""
    spans: list[Span] = []
    for suspect in assessment.suspects:
        span = suspect.suggested_span or suspect.given_span
        if span is not None:
            spans.append(Span(span.start, span.end, NO_ENTITY if suspect.suggested_span is None else span.type))
    covered = {index for span in spans for index in range(span.start, span.end)}
    for flag in assessment.flags:
        if flag.index not in covered:
            kind = NO_ENTITY if flag.suggested == OUTSIDE else get_entity_type(flag.suggested)
            spans.append(Span(flag.index, flag.index + 1, kind))
    return spans


def _index_by_word(entities: Sequence[Span]) -> dict[int, Span]:
    return {index: span for span in entities for index in range(span.start, span.end)}


def _is_continued(span_by_word: Mapping[int, Span], index: int) -> bool:
    span = span_by_word.get(index)
    return span is not None and index + 1 < span.end


def _build_piece(
    span: Span | None, index: int, assessment: Assessment, palette: Palette, *, after_gap: bool
) -> SpanPiece | None:
    if span is None:
        return None
    css = ["tn" if span.type == NO_ENTITY else palette.get_css_classes(span.type)]
    if index == span.start:
        css.append("first")
    if index == span.end - 1:
        css.append("last")
    has_name = after_gap or index == span.start
    if has_name and len(" ".join(assessment.tokens[index : span.end])) > len(span.type) + 1:
        css.append("spill")  # the name may extend over the span's next words, so it does not widen this one
    return SpanPiece(" ".join(css), span.type if has_name else "")


def _describe_word(assessment: Assessment, index: int, flag: Flag | None) -> str:
    label, word = assessment.labels[index], assessment.words[index] if index < len(assessment.words) else None
    if word is None or word.p_given is None:
        return f"{label} · not scored: {word.unscored if word and word.unscored else 'no reason given'}"
    description = f"given {label}: {format_percent(word.p_given)}"
    if flag is not None:
        description += f" · suggested {flag.suggested}: {format_percent(flag.p_suggested)}"
        if flag.threshold is not None:
            description += f" (threshold {flag.threshold:.3f})"
    return description


def _find_least_likely(assessment: Assessment) -> LeastLikelyWord | None:
    index = find_worst_word(assessment)
    if index is None:
        return None
    p_given = assessment.words[index].p_given or 0.0
    return LeastLikelyWord(_shorten_token(assessment.tokens[index]), assessment.labels[index], p_given)


def _list_doubts(assessment: Assessment) -> list[tuple[int, SuspectSpan | Flag]]:
    """Suspects, then the flags that no suspect covers, each with the index of its first doubtful word."""
    flagged = {flag.index for flag in assessment.flags}
    covered: set[int] = set()
    doubts: list[tuple[int, SuspectSpan | Flag]] = []
    for suspect in assessment.suspects:
        words = {
            index
            for span in (suspect.given_span, suspect.suggested_span)
            if span is not None
            for index in range(span.start, span.end)
        }
        covered |= words
        doubts.append((min(words & flagged or words, default=0), suspect))
    return doubts + [(flag.index, flag) for flag in assessment.flags if flag.index not in covered]


def build_suspect(assessment: Assessment, suspect: SuspectSpan) -> DoubtView:
    given, suggested = suspect.given_span, suspect.suggested_span
    kind = SUSPECT_KINDS[suspect.kind][0]
    if given is not None and suggested is not None and (given.start, given.end) != (suggested.start, suggested.end):
        same_type = given.type == suggested.type
        return DoubtView(
            kind=kind,
            given_words=_quote(assessment, given),
            given_label="" if same_type else given.type,
            suggested_words=_quote(assessment, suggested),
            suggested_label="" if same_type else suggested.type,
            confidence=suspect.confidence,
        )
    span = suggested or given
    return DoubtView(
        kind=kind,
        given_words="" if span is None else _quote(assessment, span),
        given_label=NO_ENTITY if given is None else given.type,
        suggested_words="",
        suggested_label=NO_ENTITY if suggested is None else suggested.type,
        confidence=suspect.confidence,
    )


def _build_flag(flag: Flag) -> DoubtView:
    return DoubtView("Label", _shorten_token(flag.token), flag.given, "", flag.suggested, flag.p_suggested)


def _quote(assessment: Assessment, span: EntitySpan) -> str:
    end = min(span.end, span.start + MAX_QUOTED_WORDS)
    words = " ".join(_shorten_token(token) for token in assessment.tokens[span.start : end])
    return f"{words}{' …' if end < span.end else ''}"
