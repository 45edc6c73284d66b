"""The audit as one HTML page that needs nothing beside it: no script, no font, no picture from anywhere.

Its content security policy forbids all of these, so that even a mistake in escaping could run or load nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from service.audit.report.charts import render_class_table, render_confusion_list, render_histogram, render_noise_table
from service.audit.report.sentences import SUSPECT_KINDS, Palette, render_sentence, render_suspect
from service.text import escape_html, format_count, format_percent, pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from service.audit.summary import AuditSummary
    from service.labels import Scheme

CONTENT_SECURITY_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class ReportMetadata:
    """What the report says of the run itself."""

    sources: Sequence[str]
    model: str
    fingerprint: str
    method: str
    token_score: str
    scheme: Scheme
    stream: bool
    rejected: int = 0
    created_at: datetime | None = None


def render_page(summary: AuditSummary, metadata: ReportMetadata) -> str:
    """The whole document."""
    title = f"Label audit of {_join_sources(metadata)}"
    style = files("service.audit.report").joinpath("page.css").read_text(encoding="utf-8")
    body = "".join(
        (
            _render_header(summary, metadata),
            _render_scores(summary, metadata),
            '<div class="columns">',
            _render_confusions(summary),
            _render_classes(summary, metadata),
            "</div>",
            _render_suspects(summary),
            _render_noise(summary),
            _render_worst(summary, metadata),
            _render_footer(metadata),
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape_html(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>{body}</main>\n</body>\n</html>\n"
    )


def _join_sources(metadata: ReportMetadata, max_shown: int = 3) -> str:
    names = ", ".join(metadata.sources[:max_shown])
    return names if len(metadata.sources) <= max_shown else f"{names} and {len(metadata.sources) - max_shown} more"


def _render_header(summary: AuditSummary, metadata: ReportMetadata) -> str:
    unscored = sum(summary.unscored.values())
    figures = [
        (format_count(summary.sentences), "sentences", ""),
        (format_count(summary.words), "words", ""),
        (
            format_count(summary.flagged_sentences),
            "sentences flagged",
            _format_share(summary.flagged_sentences, summary.sentences),
        ),
        (
            format_count(summary.flagged_words),
            "labels doubted",
            _format_share(summary.flagged_words, summary.scored_words),
        ),
    ]
    if unscored:
        figures.append((format_count(unscored), "words not scored", _format_share(unscored, summary.words)))
    if metadata.rejected:
        figures.append((format_count(metadata.rejected), "sentences skipped", ""))
    if summary.deleted:
        figures.append((format_count(summary.deleted), "sentences marked deleted", ""))
    cards = "".join(
        f"<div{' class=doubted' if 'flagged' in name or 'doubted' in name else ''}><dt>{name}</dt>"
        f"<dd>{number}{f'<small>{share}</small>' if share else ''}</dd></div>"
        for number, name, share in figures
    )
    reasons = "; ".join(f"{pluralize(n, 'word')}: {escape_html(why)}" for why, n in summary.unscored.most_common())
    note = f'<p class="note">Not scored: {reasons}.</p>' if reasons else ""
    return (
        f'<header class="top"><p class="brand">labelwatch · label audit</p><h1>{escape_html(_join_sources(metadata))}</h1>'
        f'<p class="lede">{_render_lead(summary)}</p><dl class="figures">{cards}</dl>{note}'
        '<nav aria-label="Sections"><a href="#scores">Scores</a><a href="#confusions">Confusions</a>'
        '<a href="#classes">Classes</a><a href="#suspects">Suspects</a><a href="#noise">Noise</a>'
        '<a href="#worst">Worst sentences</a></nav></header>'
    )


def _format_share(part: int, whole: int) -> str:
    return format_percent(part / whole) if whole else ""


def _render_lead(summary: AuditSummary) -> str:
    if not summary.sentences:
        return "There was no sentence to judge."
    pairs = summary.list_confusions(1)
    if not pairs:
        return f"No label is doubted in {pluralize(summary.sentences, 'sentence')}."
    kind, number = summary.kinds.most_common(1)[0] if summary.kinds else ("", 0)
    often = (
        f" Most doubts about entities are of one kind: {SUSPECT_KINDS[kind][0].lower()} ({format_count(number)})."
        if kind
        else ""
    )
    return (
        f"One label in {format_count(max(1, round(summary.scored_words / summary.flagged_words)))} is doubtful. The commonest doubt: "
        f"<b>{escape_html(pairs[0].given)}</b> where the model reads <b>{escape_html(pairs[0].suggested)}</b> "
        f"({pluralize(pairs[0].words, 'word')}).{often}"
    )


def _render_scores(summary: AuditSummary, metadata: ReportMetadata) -> str:
    # The paper's counting methods leave [0, 1]; then the chart shows what the list is sorted by.
    by_score = not summary.scores.out_of_range
    spread = summary.scores if by_score else summary.priorities
    name = "score" if by_score else "priority"
    what = (
        f"{escape_html(metadata.method)}, {escape_html(metadata.token_score)}"
        if by_score
        else f"{escape_html(metadata.method)} is no number between 0 and 1, so this is the priority"
    )
    return (
        f'<section id="scores"><h2>Sentence scores</h2><p class="note">{what}. Low is bad. The axis stretches towards both '
        'ends, where the differences are; the heights are logarithmic. <span class="key"><i class="bar"></i>all</span> '
        '<span class="key"><i class="bar doubt"></i>flagged</span></p>'
        f"<figure>{render_histogram(spread, name=name, width=1040, height=260)}"
        f"{render_histogram(spread, name=name, width=400, height=240, narrow=True)}</figure></section>"
    )


def _render_confusions(summary: AuditSummary) -> str:
    return (
        '<section id="confusions"><h2>Confusions</h2><p class="note">Words by the label they were given and the label the '
        f"model would give.</p>{render_confusion_list(summary)}</section>"
    )


def _render_suspects(summary: AuditSummary) -> str:
    cards = []
    largest = max(summary.kinds.values(), default=0)
    for kind, (name, meaning) in SUSPECT_KINDS.items():
        number = summary.kinds.get(kind, 0)
        example = summary.examples.get(kind)
        shown = (
            f'<p class="example">{render_suspect(example.assessment, example.suspect)}</p>'
            if example is not None
            else ""
        )
        width = 100 * number / largest if largest else 0
        cards.append(
            f'<div class="card"><dt>{name}</dt><dd><b>{format_count(number)}</b><p>{meaning}.</p>{shown}'
            f'<svg class="rule" viewBox="0 0 100 2" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect class="track" width="100" height="2"/><rect class="fill doubt" width="{width:.1f}" height="2"/></svg></dd></div>'
        )
    return (
        '<section id="suspects"><h2>Suspects by kind</h2><p class="note">The same doubts said of entities. The example is '
        f'the one the model is surest of.</p><dl class="cards">{"".join(cards)}</dl></section>'
    )


def _render_classes(summary: AuditSummary, metadata: ReportMetadata) -> str:
    how = (
        "the running mean at the end of the stream, started from the model's own held-out words"
        if metadata.stream
        else "the mean over the words of this file; a class with too few of them is <em>warming up</em> and uses the "
        "model's held-out words where there are any"
    )
    return (
        '<section id="classes"><h2>Class thresholds</h2><p class="note">How likely the model finds a label on words that '
        f"have it: {how}. A word is doubted when another class is the likeliest and one reaches its threshold.</p>"
        f"{render_class_table(summary)}</section>"
    )


def _render_noise(summary: AuditSummary) -> str:
    return (
        '<section id="noise"><h2 id="noise-title">Noise matrix</h2><p class="note">An estimate: of the words given a class '
        f"(row), the share that should be another (column) if the model is right.</p>{render_noise_table(summary)}</section>"
    )


def _render_worst(summary: AuditSummary, metadata: ReportMetadata) -> str:
    worst = summary.worst
    palette = Palette(summary.classes)
    choices = [("all", "All"), *((kind, name) for kind, (name, _) in SUSPECT_KINDS.items() if summary.kinds.get(kind))]
    radios = "".join(
        f'<input type="radio" name="kind" id="show-{kind}"{" checked" if kind == "all" else ""}>'
        f'<label for="show-{kind}">{name}</label>'
        for kind, name in choices
    )
    items = "".join(render_sentence(assessment, metadata.scheme, palette) for assessment in worst)
    shown = "all" if len(worst) == summary.sentences else format_count(len(worst))
    return (
        f'<section id="worst"><h2>The worst sentences</h2><p class="note">{shown.capitalize()} by priority, worst first. '
        'Given entities above the words, suggested ones below; <mark class="sample">doubtful words</mark> are marked. Point '
        f'at a word for its probabilities.</p><fieldset class="filter"><legend class="sr">Show</legend>{radios}</fieldset>'
        f'<ol class="sentences">{items}</ol></section>'
    )


def _render_footer(metadata: ReportMetadata) -> str:
    made = f" on {metadata.created_at:%Y-%m-%d %H:%M %Z}" if metadata.created_at is not None else ""
    passes = "as a stream (each sentence judged by those before it)" if metadata.stream else "in two passes"
    return (
        f"<footer><p>Made by labelwatch{made}, {passes}, with the model {escape_html(metadata.model)} "
        f"<code>{escape_html(metadata.fingerprint[:12])}</code>. Labels read as {escape_html(metadata.scheme.upper())}. "
        "A doubt is a reason to look, not a verdict.</p></footer>"
    )
