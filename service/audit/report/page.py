"""The audit as one HTML page that needs nothing beside it: no script, no font, no picture from anywhere.

Its content security policy forbids all of these, so that even a mistake in escaping could run or load nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from service.audit.report.charts import class_table, confusion_list, histogram, noise_table
from service.audit.report.sentences import KINDS, Palette, sentence_item, suspect_line
from service.text import count, esc, percent, plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from service.audit.summary import Summary
    from service.labels import Scheme

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class About:
    """What the report says of the run itself."""

    sources: Sequence[str]
    model: str
    fingerprint: str
    method: str
    token_score: str
    scheme: Scheme
    stream: bool
    rejected: int = 0
    made_at: datetime | None = None


def page(summary: Summary, about: About) -> str:
    """The whole document."""
    title = f"Label audit of {_sources(about)}"
    style = files("service.audit.report").joinpath("page.css").read_text(encoding="utf-8")
    body = "".join(
        (
            _head(summary, about),
            _scores(summary, about),
            '<div class="columns">',
            _confusions(summary),
            _classes(summary, about),
            "</div>",
            _suspects(summary),
            _noise(summary),
            _worst(summary, about),
            _foot(about),
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{esc(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>{body}</main>\n</body>\n</html>\n"
    )


def _sources(about: About, most: int = 3) -> str:
    names = ", ".join(about.sources[:most])
    return names if len(about.sources) <= most else f"{names} and {len(about.sources) - most} more"


def _head(summary: Summary, about: About) -> str:
    unscored = sum(summary.unscored.values())
    figures = [
        (count(summary.sentences), "sentences", ""),
        (count(summary.words), "words", ""),
        (count(summary.flagged_sentences), "sentences flagged", _of(summary.flagged_sentences, summary.sentences)),
        (count(summary.flagged_words), "labels doubted", _of(summary.flagged_words, summary.scored_words)),
    ]
    if unscored:
        figures.append((count(unscored), "words not scored", _of(unscored, summary.words)))
    if about.rejected:
        figures.append((count(about.rejected), "sentences skipped", ""))
    if summary.deleted:
        figures.append((count(summary.deleted), "sentences marked deleted", ""))
    cards = "".join(
        f"<div{' class=doubted' if 'flagged' in name or 'doubted' in name else ''}><dt>{name}</dt>"
        f"<dd>{number}{f'<small>{share}</small>' if share else ''}</dd></div>"
        for number, name, share in figures
    )
    reasons = "; ".join(f"{plural(n, 'word')}: {esc(why)}" for why, n in summary.unscored.most_common())
    note = f'<p class="note">Not scored: {reasons}.</p>' if reasons else ""
    return (
        f'<header class="top"><p class="brand">labelwatch · label audit</p><h1>{esc(_sources(about))}</h1>'
        f'<p class="lede">{_lede(summary)}</p><dl class="figures">{cards}</dl>{note}'
        '<nav aria-label="Sections"><a href="#scores">Scores</a><a href="#confusions">Confusions</a>'
        '<a href="#classes">Classes</a><a href="#suspects">Suspects</a><a href="#noise">Noise</a>'
        '<a href="#worst">Worst sentences</a></nav></header>'
    )


def _of(part: int, whole: int) -> str:
    return percent(part / whole) if whole else ""


def _lede(summary: Summary) -> str:
    if not summary.sentences:
        return "There was no sentence to judge."
    pairs = summary.confusions(1)
    if not pairs:
        return f"No label is doubted in {plural(summary.sentences, 'sentence')}."
    kind, number = summary.kinds.most_common(1)[0] if summary.kinds else ("", 0)
    often = f" Most doubts about entities are of one kind: {KINDS[kind][0].lower()} ({count(number)})." if kind else ""
    return (
        f"One label in {count(max(1, round(summary.scored_words / summary.flagged_words)))} is doubtful. The commonest doubt: "
        f"<b>{esc(pairs[0].given)}</b> where the model reads <b>{esc(pairs[0].suggested)}</b> "
        f"({plural(pairs[0].words, 'word')}).{often}"
    )


def _scores(summary: Summary, about: About) -> str:
    # The paper's counting methods leave [0, 1]; then the chart shows what the list is sorted by.
    by_score = not summary.scores.outside
    spread = summary.scores if by_score else summary.priorities
    name = "score" if by_score else "priority"
    what = (
        f"{esc(about.method)}, {esc(about.token_score)}"
        if by_score
        else f"{esc(about.method)} is no number between 0 and 1, so this is the priority"
    )
    return (
        f'<section id="scores"><h2>Sentence scores</h2><p class="note">{what}. Low is bad. The axis stretches towards both '
        'ends, where the differences are; the heights are logarithmic. <span class="key"><i class="bar"></i>all</span> '
        '<span class="key"><i class="bar doubt"></i>flagged</span></p>'
        f"<figure>{histogram(spread, name=name, width=1040, height=260)}"
        f"{histogram(spread, name=name, width=400, height=240, narrow=True)}</figure></section>"
    )


def _confusions(summary: Summary) -> str:
    return (
        '<section id="confusions"><h2>Confusions</h2><p class="note">Words by the label they were given and the label the '
        f"model would give.</p>{confusion_list(summary)}</section>"
    )


def _suspects(summary: Summary) -> str:
    cards = []
    largest = max(summary.kinds.values(), default=0)
    for kind, (name, meaning) in KINDS.items():
        number = summary.kinds.get(kind, 0)
        example = summary.examples.get(kind)
        shown = (
            f'<p class="example">{suspect_line(example.assessment, example.suspect)}</p>' if example is not None else ""
        )
        width = 100 * number / largest if largest else 0
        cards.append(
            f'<div class="card"><dt>{name}</dt><dd><b>{count(number)}</b><p>{meaning}.</p>{shown}'
            f'<svg class="rule" viewBox="0 0 100 2" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect class="track" width="100" height="2"/><rect class="fill doubt" width="{width:.1f}" height="2"/></svg></dd></div>'
        )
    return (
        '<section id="suspects"><h2>Suspects by kind</h2><p class="note">The same doubts said of entities. The example is '
        f'the one the model is surest of.</p><dl class="cards">{"".join(cards)}</dl></section>'
    )


def _classes(summary: Summary, about: About) -> str:
    how = (
        "the running mean at the end of the stream, started from the model's own held-out words"
        if about.stream
        else "the mean over the words of this file; a class with too few of them is <em>warming up</em> and uses the "
        "model's held-out words where there are any"
    )
    return (
        '<section id="classes"><h2>Class thresholds</h2><p class="note">How likely the model finds a label on words that '
        f"have it: {how}. A word is doubted when another class is the likeliest and one reaches its threshold.</p>"
        f"{class_table(summary)}</section>"
    )


def _noise(summary: Summary) -> str:
    return (
        '<section id="noise"><h2 id="noise-title">Noise matrix</h2><p class="note">An estimate: of the words given a class '
        f"(row), the share that should be another (column) if the model is right.</p>{noise_table(summary)}</section>"
    )


def _worst(summary: Summary, about: About) -> str:
    worst = summary.worst
    palette = Palette(summary.classes)
    choices = [("all", "All"), *((kind, name) for kind, (name, _) in KINDS.items() if summary.kinds.get(kind))]
    radios = "".join(
        f'<input type="radio" name="kind" id="show-{kind}"{" checked" if kind == "all" else ""}>'
        f'<label for="show-{kind}">{name}</label>'
        for kind, name in choices
    )
    items = "".join(sentence_item(assessment, about.scheme, palette) for assessment in worst)
    shown = "all" if len(worst) == summary.sentences else count(len(worst))
    return (
        f'<section id="worst"><h2>The worst sentences</h2><p class="note">{shown.capitalize()} by priority, worst first. '
        'Given entities above the words, suggested ones below; <mark class="sample">doubtful words</mark> are marked. Point '
        f'at a word for its probabilities.</p><fieldset class="filter"><legend class="sr">Show</legend>{radios}</fieldset>'
        f'<ol class="sentences">{items}</ol></section>'
    )


def _foot(about: About) -> str:
    made = f" on {about.made_at:%Y-%m-%d %H:%M %Z}" if about.made_at is not None else ""
    passes = "as a stream (each sentence judged by those before it)" if about.stream else "in two passes"
    return (
        f"<footer><p>Made by labelwatch{made}, {passes}, with the model {esc(about.model)} "
        f"<code>{esc(about.fingerprint[:12])}</code>. Labels read as {esc(about.scheme.upper())}. "
        "A doubt is a reason to look, not a verdict.</p></footer>"
    )
