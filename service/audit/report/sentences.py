"""Sentences in the report: given entities above the words, suggested ones below, doubtful words marked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from service.errors import InvalidInput
from service.formats.plain.assessments import find_worst_word
from service.labels import OUTSIDE, Span, get_entity_type, parse_spans
from service.text import escape_html, format_count, format_percent, format_score, pluralize, render_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.contracts import Assessment, EntitySpan, Flag, SuspectSpan
    from service.labels import Scheme

N_COLOURS: Final = 8
NO_ENTITY: Final = "no entity"
# The page's size is bounded whatever the data: a sentence of thousands of words is shown around its doubts.
MAX_UNCUT_WORDS: Final = 120
CONTEXT_WORDS: Final = 20
MAX_SHOWN_WORDS: Final = 240
MAX_DOUBT_LINES: Final = 12
MAX_QUOTED_WORDS: Final = 12
MAX_TOKEN_CHARS: Final = 200
SUSPECT_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "missed": ("Missed", "An entity the labels leave out"),
    "spurious": ("Spurious", "A label where there is no entity"),
    "type": ("Wrong type", "The right words under another type"),
    "boundary": ("Wrong boundary", "The right type over other words"),
}


class Palette:
    """One colour a type, by order of appearance; the type's name always stands beside it."""

    def __init__(self, classes: Sequence[str]) -> None:
        types = dict.fromkeys(get_entity_type(name) for name in classes if name != OUTSIDE)
        self._numbers = {name: number % N_COLOURS for number, name in enumerate(types)}

    def get_css_class(self, kind: str) -> str:
        return f"t{self._numbers.setdefault(kind, len(self._numbers) % N_COLOURS)}"


def render_sentence(assessment: Assessment, scheme: Scheme, palette: Palette) -> str:
    """One sentence of the worst, as a list item."""
    kinds = " ".join(dict.fromkeys(f"k-{suspect.kind}" for suspect in assessment.suspects))
    source = assessment.source or ""
    where = f'<span class="source">{escape_html(source)}</span>' if source else ""
    who = f'<span class="source">by {escape_html(assessment.annotator)}</span>' if assessment.annotator else ""
    flags = pluralize(len(assessment.flags), "doubt") if assessment.flags else "not flagged"
    return (
        f'<li class="sentence {kinds}"><header><h3><span class="label">id</span> <bdi>{escape_html(assessment.id or "")}</bdi></h3>'
        f'{where}{who}<span class="count">{flags}</span>'
        f'<span class="score"><span class="label">priority</span> {format_score(assessment.priority)}</span></header>'
        f'<p class="words">{render_words(assessment, scheme, palette)}</p>{_render_doubts(assessment)}</li>'
    )


def render_words(assessment: Assessment, scheme: Scheme, palette: Palette) -> str:
    """The words with their spans. What the marks say is said in text below the sentence, so they are hidden there."""
    given = _index_by_word(parse_given_spans(assessment.labels, scheme))
    suggested = _index_by_word(_collect_suggested_spans(assessment))
    flags = {flag.index: flag for flag in assessment.flags}
    worst = find_worst_word(assessment) if not flags else None
    shown = _select_words(assessment)
    cells = []
    after = 0
    for index in shown:
        cells.append(_render_gap(index - after))
        new, after = index != after, index + 1
        flag = flags.get(index)
        above = _render_span_piece(given.get(index), index, assessment, palette, side="g", new=new)
        below = _render_span_piece(suggested.get(index), index, assessment, palette, side="s", new=new)
        joined = _is_continued(given, index) or _is_continued(suggested, index)
        css = "w" + (" worst" if index == worst else "") + (" joined" if joined else "")
        tag = "mark" if flag else "span"
        cells.append(
            f'<{tag} class="{css}" title="{escape_html(_describe_word(assessment, index, flag))}">'
            f"{above}<bdi>{_render_token(assessment.tokens[index])}</bdi>{below}</{tag}>" + ("" if joined else " ")
        )
    cells.append(_render_gap(len(assessment.tokens) - after))
    return "".join(cells)


def _select_words(assessment: Assessment) -> Sequence[int]:
    """The words to show: all, or of a long sentence those around its doubts, else around its least likely word."""
    size = len(assessment.tokens)
    if size <= MAX_UNCUT_WORDS:
        return range(size)
    places = [place for place, _ in _collect_doubt_lines(assessment)[:MAX_DOUBT_LINES]] or [
        find_worst_word(assessment) or 0
    ]
    found: set[int] = set()
    for place in places:
        if len(found) >= MAX_SHOWN_WORDS:
            break
        found.update(range(max(place - CONTEXT_WORDS, 0), min(place + CONTEXT_WORDS + 1, size)))
    return sorted(found)


def _render_gap(left_out: int) -> str:
    if not left_out:
        return ""
    return f'<span class="gap" title="{pluralize(left_out, "word")} left out">…</span> '


def _render_token(token: str) -> str:
    return escape_html(token if len(token) <= MAX_TOKEN_CHARS else f"{token[:MAX_TOKEN_CHARS]}…")


def parse_given_spans(labels: Sequence[str], scheme: Scheme) -> list[Span]:
    """The given entities; labels that the scheme can't read are shown word by word."""
    try:
        return parse_spans(labels, scheme)
    except InvalidInput:
        return [Span(index, index + 1, label) for index, label in enumerate(labels) if label != OUTSIDE]


def _collect_suggested_spans(assessment: Assessment) -> list[Span]:
    """Suggested entities, "no entity" over what should have none, and for the rest of the flags their own label."""
    found: list[Span] = []
    for suspect in assessment.suspects:
        span = suspect.suggested_span or suspect.given_span
        if span is not None:
            found.append(Span(span.start, span.end, NO_ENTITY if suspect.suggested_span is None else span.type))
    taken = {index for span in found for index in range(span.start, span.end)}
    for flag in assessment.flags:
        if flag.index not in taken:
            kind = NO_ENTITY if flag.suggested == OUTSIDE else get_entity_type(flag.suggested)
            found.append(Span(flag.index, flag.index + 1, kind))
    return found


def _index_by_word(entities: Sequence[Span]) -> dict[int, Span]:
    return {index: span for span in entities for index in range(span.start, span.end)}


def _is_continued(span_by_word: Mapping[int, Span], index: int) -> bool:
    span = span_by_word.get(index)
    return span is not None and index + 1 < span.end


def _render_span_piece(
    span: Span | None, index: int, assessment: Assessment, palette: Palette, *, side: str, new: bool
) -> str:
    """A word's piece of a span. The first piece has the name, `new` ones (after words left out) too."""
    if span is None:
        return f'<i class="{side}"></i>'
    named = new or index == span.start
    ends = (" first" if index == span.start else "") + (" last" if index == span.end - 1 else "")
    if named and len(" ".join(assessment.tokens[index : span.end])) > len(span.type) + 1:
        ends += " spill"  # the name may run over the span's next words, so it need not widen the first
    colour = "tn" if span.type == NO_ENTITY else palette.get_css_class(span.type)
    name = escape_html(span.type) if named else ""
    return f'<i class="{side} on {colour}{ends}" aria-hidden="true">{name}</i>'


def _describe_word(assessment: Assessment, index: int, flag: Flag | None) -> str:
    label, word = assessment.labels[index], assessment.words[index] if index < len(assessment.words) else None
    if word is None or word.p_given is None:
        return f"{label} · not scored: {word.unscored if word and word.unscored else 'no reason told'}"
    told = f"given {label}: {format_percent(word.p_given)}"
    if flag is not None:
        told += f" · suggested {flag.suggested}: {format_percent(flag.p_suggested)}"
        if flag.threshold is not None:
            told += f" (threshold {flag.threshold:.3f})"
    return told


def _render_doubts(assessment: Assessment) -> str:
    if not assessment.flags:
        worst = find_worst_word(assessment)
        if worst is None:
            return ""
        p_given = assessment.words[worst].p_given or 0.0
        return (
            f'<p class="doubts quiet">Least likely: <bdi>{_render_token(assessment.tokens[worst])}</bdi> as '
            f"{escape_html(assessment.labels[worst])}, {format_percent(p_given)}</p>"
        )
    lines = _collect_doubt_lines(assessment)
    items = [line() for _, line in lines[:MAX_DOUBT_LINES]]
    if len(lines) > MAX_DOUBT_LINES:
        items.append(f"{format_count(len(lines) - MAX_DOUBT_LINES)} more")
    return f'<ul class="doubts">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


def _collect_doubt_lines(assessment: Assessment) -> list[tuple[int, Callable[[], str]]]:
    """Suspects, then the flags that none of them covers: the word each is at, and what writes it."""
    flagged = {flag.index for flag in assessment.flags}
    told: set[int] = set()
    lines: list[tuple[int, Callable[[], str]]] = []
    for suspect in assessment.suspects:
        covered = {
            index
            for span in (suspect.given_span, suspect.suggested_span)
            if span is not None
            for index in range(span.start, span.end)
        }
        told |= covered
        place = min(covered & flagged or covered, default=0)
        lines.append((place, partial(render_suspect, assessment, suspect)))
    lines += [(flag.index, partial(_render_flag, flag)) for flag in assessment.flags if flag.index not in told]
    return lines


def render_suspect(assessment: Assessment, suspect: SuspectSpan) -> str:
    """`Wrong type: China, PER → LOC, 98 %`."""
    given, suggested = suspect.given_span, suspect.suggested_span
    if given is not None and suggested is not None and (given.start, given.end) != (suggested.start, suggested.end):
        one_type = given.type == suggested.type
        before = "" if one_type else f' <span class="given">{escape_html(given.type)}</span>'
        after = "" if one_type else f' <span class="suggested">{escape_html(suggested.type)}</span>'
        change = (
            f"{_render_quote(assessment, given)}{before} {render_arrow()} {_render_quote(assessment, suggested)}{after}"
        )
    else:
        at = suggested or given
        change = (_render_quote(assessment, at) if at is not None else "") + f" {_render_types(given, suggested)}"
    return (
        f'<span class="kind">{SUSPECT_KINDS[suspect.kind][0]}</span> {change} '
        f'<span class="sure">{format_percent(suspect.confidence)} sure</span>'
    )


def _render_types(given: EntitySpan | None, suggested: EntitySpan | None) -> str:
    before = NO_ENTITY if given is None else given.type
    after = NO_ENTITY if suggested is None else suggested.type
    return f'<span class="given">{escape_html(before)}</span> {render_arrow()} <span class="suggested">{escape_html(after)}</span>'


def _render_flag(flag: Flag) -> str:
    return (
        f'<span class="kind">Label</span> <q><bdi>{_render_token(flag.token)}</bdi></q> <span class="given">{escape_html(flag.given)}</span> '
        f'{render_arrow()} <span class="suggested">{escape_html(flag.suggested)}</span> '
        f'<span class="sure">{format_percent(flag.p_suggested)} sure</span>'
    )


def _render_quote(assessment: Assessment, span: EntitySpan) -> str:
    end = min(span.end, span.start + MAX_QUOTED_WORDS)
    quoted = " ".join(_render_token(token) for token in assessment.tokens[span.start : end])
    return f"<q><bdi>{quoted}{' …' if end < span.end else ''}</bdi></q>"
