"""Sentences in the report: given entities above the words, suggested ones below, doubtful words marked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from service.errors import InvalidInput
from service.formats.plain.assessments import worst_word
from service.labels import OUTSIDE, Span, entity_type, spans
from service.text import arrow, count, decimal, esc, percent, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.contracts import Assessment, EntitySpan, Flag, SuspectSpan
    from service.labels import Scheme

COLOURS: Final = 8
NOTHING: Final = "no entity"
# The page's size is bounded whatever the data: a sentence of thousands of words is shown around its doubts.
LONG: Final = 120
AROUND: Final = 20
MOST_WORDS: Final = 240
MOST_DOUBTS: Final = 12
MOST_QUOTED: Final = 12
MOST_CHARACTERS: Final = 200
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "missed": ("Missed", "An entity the labels leave out"),
    "spurious": ("Spurious", "A label where there is no entity"),
    "type": ("Wrong type", "The right words under another type"),
    "boundary": ("Wrong boundary", "The right type over other words"),
}


class Palette:
    """One colour a type, by order of appearance; the type's name always stands beside it."""

    def __init__(self, classes: Sequence[str]) -> None:
        types = dict.fromkeys(entity_type(name) for name in classes if name != OUTSIDE)
        self._numbers = {name: number % COLOURS for number, name in enumerate(types)}

    def css(self, kind: str) -> str:
        return f"t{self._numbers.setdefault(kind, len(self._numbers) % COLOURS)}"


def sentence_item(assessment: Assessment, scheme: Scheme, palette: Palette) -> str:
    """One sentence of the worst, as a list item."""
    kinds = " ".join(dict.fromkeys(f"k-{suspect.kind}" for suspect in assessment.suspects))
    source = assessment.source or ""
    where = f'<span class="source">{esc(source)}</span>' if source else ""
    who = f'<span class="source">by {esc(assessment.annotator)}</span>' if assessment.annotator else ""
    flags = plural(len(assessment.flags), "doubt") if assessment.flags else "not flagged"
    return (
        f'<li class="sentence {kinds}"><header><h3><span class="label">id</span> <bdi>{esc(assessment.id or "")}</bdi></h3>'
        f'{where}{who}<span class="count">{flags}</span>'
        f'<span class="score"><span class="label">priority</span> {decimal(assessment.priority)}</span></header>'
        f'<p class="words">{words(assessment, scheme, palette)}</p>{_doubts(assessment)}</li>'
    )


def words(assessment: Assessment, scheme: Scheme, palette: Palette) -> str:
    """The words with their spans. What the marks say is said in text below the sentence, so they are hidden there."""
    given = _over(given_spans(assessment.labels, scheme))
    suggested = _over(_suggestions(assessment))
    flags = {flag.index: flag for flag in assessment.flags}
    worst = worst_word(assessment) if not flags else None
    shown = _shown(assessment)
    cells = []
    after = 0
    for index in shown:
        cells.append(_gap(index - after))
        new, after = index != after, index + 1
        flag = flags.get(index)
        above = _edge(given.get(index), index, assessment, palette, side="g", new=new)
        below = _edge(suggested.get(index), index, assessment, palette, side="s", new=new)
        joined = _joins(given, index) or _joins(suggested, index)
        css = "w" + (" worst" if index == worst else "") + (" joined" if joined else "")
        tag = "mark" if flag else "span"
        cells.append(
            f'<{tag} class="{css}" title="{esc(_told(assessment, index, flag))}">'
            f"{above}<bdi>{_cut(assessment.tokens[index])}</bdi>{below}</{tag}>" + ("" if joined else " ")
        )
    cells.append(_gap(len(assessment.tokens) - after))
    return "".join(cells)


def _shown(assessment: Assessment) -> Sequence[int]:
    """The words to show: all, or of a long sentence those around its doubts, else around its least likely word."""
    size = len(assessment.tokens)
    if size <= LONG:
        return range(size)
    places = [place for place, _ in _doubt_lines(assessment)[:MOST_DOUBTS]] or [worst_word(assessment) or 0]
    found: set[int] = set()
    for place in places:
        if len(found) >= MOST_WORDS:
            break
        found.update(range(max(place - AROUND, 0), min(place + AROUND + 1, size)))
    return sorted(found)


def _gap(left_out: int) -> str:
    if not left_out:
        return ""
    return f'<span class="gap" title="{plural(left_out, "word")} left out">…</span> '


def _cut(token: str) -> str:
    return esc(token if len(token) <= MOST_CHARACTERS else f"{token[:MOST_CHARACTERS]}…")


def given_spans(labels: Sequence[str], scheme: Scheme) -> list[Span]:
    """The given entities; labels that the scheme can't read are shown word by word."""
    try:
        return spans(labels, scheme)
    except InvalidInput:
        return [Span(index, index + 1, label) for index, label in enumerate(labels) if label != OUTSIDE]


def _suggestions(assessment: Assessment) -> list[Span]:
    """Suggested entities, "no entity" over what should have none, and for the rest of the flags their own label."""
    found: list[Span] = []
    for suspect in assessment.suspects:
        span = suspect.suggested_span or suspect.given_span
        if span is not None:
            found.append(Span(span.start, span.end, NOTHING if suspect.suggested_span is None else span.type))
    taken = {index for span in found for index in range(span.start, span.end)}
    for flag in assessment.flags:
        if flag.index not in taken:
            kind = NOTHING if flag.suggested == OUTSIDE else entity_type(flag.suggested)
            found.append(Span(flag.index, flag.index + 1, kind))
    return found


def _over(found: Sequence[Span]) -> dict[int, Span]:
    return {index: span for span in found for index in range(span.start, span.end)}


def _joins(over: Mapping[int, Span], index: int) -> bool:
    span = over.get(index)
    return span is not None and index + 1 < span.end


def _edge(span: Span | None, index: int, assessment: Assessment, palette: Palette, *, side: str, new: bool) -> str:
    """A word's piece of a span. The first piece has the name, `new` ones (after words left out) too."""
    if span is None:
        return f'<i class="{side}"></i>'
    named = new or index == span.start
    ends = (" first" if index == span.start else "") + (" last" if index == span.end - 1 else "")
    if named and len(" ".join(assessment.tokens[index : span.end])) > len(span.type) + 1:
        ends += " spill"  # the name may run over the span's next words, so it need not widen the first
    colour = "tn" if span.type == NOTHING else palette.css(span.type)
    name = esc(span.type) if named else ""
    return f'<i class="{side} on {colour}{ends}" aria-hidden="true">{name}</i>'


def _told(assessment: Assessment, index: int, flag: Flag | None) -> str:
    label, word = assessment.labels[index], assessment.words[index] if index < len(assessment.words) else None
    if word is None or word.p_given is None:
        return f"{label} · not scored: {word.unscored if word and word.unscored else 'no reason told'}"
    told = f"given {label}: {percent(word.p_given)}"
    if flag is not None:
        told += f" · suggested {flag.suggested}: {percent(flag.p_suggested)}"
        if flag.threshold is not None:
            told += f" (threshold {flag.threshold:.3f})"
    return told


def _doubts(assessment: Assessment) -> str:
    if not assessment.flags:
        worst = worst_word(assessment)
        if worst is None:
            return ""
        p_given = assessment.words[worst].p_given or 0.0
        return (
            f'<p class="doubts quiet">Least likely: <bdi>{_cut(assessment.tokens[worst])}</bdi> as '
            f"{esc(assessment.labels[worst])}, {percent(p_given)}</p>"
        )
    lines = _doubt_lines(assessment)
    items = [line() for _, line in lines[:MOST_DOUBTS]]
    if len(lines) > MOST_DOUBTS:
        items.append(f"{count(len(lines) - MOST_DOUBTS)} more")
    return f'<ul class="doubts">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


def _doubt_lines(assessment: Assessment) -> list[tuple[int, Callable[[], str]]]:
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
        lines.append((place, partial(suspect_line, assessment, suspect)))
    lines += [(flag.index, partial(_flag_line, flag)) for flag in assessment.flags if flag.index not in told]
    return lines


def suspect_line(assessment: Assessment, suspect: SuspectSpan) -> str:
    """`Wrong type: China, PER → LOC, 98 %`."""
    given, suggested = suspect.given_span, suspect.suggested_span
    if given is not None and suggested is not None and (given.start, given.end) != (suggested.start, suggested.end):
        one_type = given.type == suggested.type
        before = "" if one_type else f' <span class="given">{esc(given.type)}</span>'
        after = "" if one_type else f' <span class="suggested">{esc(suggested.type)}</span>'
        change = f"{_text(assessment, given)}{before} {arrow()} {_text(assessment, suggested)}{after}"
    else:
        at = suggested or given
        change = (_text(assessment, at) if at is not None else "") + f" {_types(given, suggested)}"
    return (
        f'<span class="kind">{KINDS[suspect.kind][0]}</span> {change} '
        f'<span class="sure">{percent(suspect.confidence)} sure</span>'
    )


def _types(given: EntitySpan | None, suggested: EntitySpan | None) -> str:
    before = NOTHING if given is None else given.type
    after = NOTHING if suggested is None else suggested.type
    return f'<span class="given">{esc(before)}</span> {arrow()} <span class="suggested">{esc(after)}</span>'


def _flag_line(flag: Flag) -> str:
    return (
        f'<span class="kind">Label</span> <q><bdi>{_cut(flag.token)}</bdi></q> <span class="given">{esc(flag.given)}</span> '
        f'{arrow()} <span class="suggested">{esc(flag.suggested)}</span> '
        f'<span class="sure">{percent(flag.p_suggested)} sure</span>'
    )


def _text(assessment: Assessment, span: EntitySpan) -> str:
    end = min(span.end, span.start + MOST_QUOTED)
    quoted = " ".join(_cut(token) for token in assessment.tokens[span.start : end])
    return f"<q><bdi>{quoted}{' …' if end < span.end else ''}</bdi></q>"
