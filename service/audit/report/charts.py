"""The report's charts: inline SVG for marks on an axis, tables where the numbers themselves are the picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from service.audit.summary import LOG_ODDS_EDGES, AuditSummary, ScoreHistogram
from service.text import escape_html, format_count, format_percent, pluralize, render_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

_TICKS: Final = (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
_NARROW_TICKS: Final = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
# Steps of the heat map, each with a text colour that can be read on it.
_HEAT_STEPS: Final = 5
# More classes than this make a table that nobody reads; the rest is said in a line below.
MAX_CLASSES: Final = 24


def render_histogram(scores: ScoreHistogram, *, name: str, width: int, height: int, narrow: bool = False) -> str:
    """Sentences by score: the score's axis stretches towards 0 and 1, the counts' axis is logarithmic."""
    left, right, top, bottom = 44, 12, 14, 38
    inner_width, inner_height = width - left - right, height - top - bottom
    bins = len(scores.total)
    step = inner_width / bins
    most = max(int(scores.total.max()), 1)
    decades = max(math.ceil(math.log10(most + 1)), 1)

    def y(number: int) -> float:
        # A bar for one sentence is as high as the axis allows it to be seen.
        return top + inner_height * (1 - (math.log10(number) + 0.3) / (decades + 0.3))

    def x(score: float) -> float:
        odds = math.log10(score / (1 - score))
        return (
            left
            + step
            + float((odds - LOG_ODDS_EDGES[0]) / (LOG_ODDS_EDGES[-1] - LOG_ODDS_EDGES[0])) * (bins - 2) * step
        )

    css, told = "narrow" if narrow else "wide", escape_html(_describe_histogram(scores, name))
    parts = [f'<svg class="chart {css}" viewBox="0 0 {width} {height}" role="img" aria-label="{told}">']
    for power in range(decades + 1):
        line = y(10**power)
        if line < top - 1:
            continue
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{line:.1f}" y2="{line:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{left - 8}" y="{line + 4:.1f}" text-anchor="end">{_abbreviate_count(10**power)}</text>'
        )
    base = top + inner_height
    for place in range(bins):
        total, flagged = int(scores.total[place]), int(scores.flagged[place])
        if not total:
            continue
        at, wide = left + place * step + 0.75, step - 1.5
        told = f"{name} {_format_bin(place)}: {pluralize(total, 'sentence')}, {format_count(flagged)} flagged"
        parts.append(f"<g><title>{escape_html(told)}</title>")
        parts.append(
            f'<rect class="bar" x="{at:.1f}" y="{y(total):.1f}" width="{wide:.1f}" height="{base - y(total):.1f}"/>'
        )
        if flagged:
            parts.append(
                f'<rect class="bar doubt" x="{at:.1f}" y="{y(flagged):.1f}" width="{wide:.1f}" '
                f'height="{base - y(flagged):.1f}"/>'
            )
        parts.append("</g>")
    parts.append(f'<line class="axis" x1="{left}" x2="{width - right}" y1="{base:.1f}" y2="{base:.1f}"/>')
    for tick in _NARROW_TICKS if narrow else _TICKS:
        at = x(tick)
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{base:.1f}" y2="{base + 4:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{at:.1f}" y="{base + 17:.1f}" text-anchor="middle">{_format_probability(tick)}</text>'
        )
    parts.append(f'<text class="tick end" x="{left}" y="{height - 4}">← doubtful</text>')
    parts.append(f'<text class="tick end" x="{width - right}" y="{height - 4}" text-anchor="end">clean →</text>')
    parts.append("</svg>")
    return "".join(parts)


def _describe_histogram(scores: ScoreHistogram, name: str) -> str:
    low = int(scores.total[: int(np.searchsorted(LOG_ODDS_EDGES, 0.0)) + 1].sum())
    return (
        f"Histogram of the {name} of {pluralize(int(scores.total.sum()), 'sentence')}: {format_count(low)} lie under 0.5; "
        f"{format_count(int(scores.flagged.sum()))} are flagged."
    )


def _format_bin(index: int) -> str:
    edges = [1 / (1 + 10 ** -float(edge)) for edge in LOG_ODDS_EDGES]
    if index == 0:
        return f"under {edges[0]:.2g}"
    if index == len(edges):
        return f"over {_format_probability(edges[-1])}"
    return f"{edges[index - 1]:.4g} to {edges[index]:.4g}"


def _format_probability(value: float) -> str:
    return f"{value:.4f}".rstrip("0").removeprefix("0")


def _abbreviate_count(number: int) -> str:
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number // size}{unit}"
    return str(number)


def render_bar(share: float, *, css: str = "", mark: float | None = None) -> str:
    """A bar in a table cell; the number beside it says the same, so it is hidden from screen readers."""
    full = max(0.0, min(share, 1.0)) * 100
    tick = "" if mark is None else f'<rect class="mark" x="{100 * mark:.2f}" y="0" width="0.8" height="10"/>'
    return (
        '<svg class="meter" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        f'<rect class="track" width="100" height="10"/><rect class="fill {css}" width="{full:.2f}" height="10"/>{tick}</svg>'
    )


def render_class_table(summary: AuditSummary) -> str:
    """Thresholds with the words behind them and the share of those that is doubted."""
    rows = []
    flagged = summary.flagged_by_class
    for name, words in summary.words_by_class.items():
        threshold = summary.thresholds.get(name)
        warming = name in summary.warming_up
        note = ' <span class="tag">warming up</span>' if warming else ""
        shown = "none yet" if threshold is None else f"{threshold:.3f}"
        meter = "" if threshold is None else render_bar(threshold, css="soft" if warming else "")
        doubted = "–" if not words else format_percent(flagged[name] / words)
        rows.append(
            f'<tr><th scope="row">{escape_html(name)}{note}</th><td class="num">{format_count(words)}</td>'
            f'<td class="num">{shown}</td><td class="meter-cell">{meter}</td>'
            f'<td class="num">{format_count(flagged[name])}</td><td class="num">{doubted}</td></tr>'
        )
    return (
        '<table class="classes"><thead><tr><th scope="col">Class</th><th scope="col" class="num">Words</th>'
        '<th scope="col" class="num" colspan="2">Threshold</th>'
        '<th scope="col" class="num" colspan="2">Doubted</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def render_confusion_list(summary: AuditSummary, max_pairs: int = 12) -> str:
    """The commonest pairs given → suggested."""
    pairs = summary.list_confusions()
    if not pairs:
        return '<p class="empty">No label is doubted.</p>'
    largest = pairs[0].words
    items = [
        f'<tr><th scope="row"><span class="given">{escape_html(pair.given)}</span> {render_arrow()} '
        f'<span class="suggested">{escape_html(pair.suggested)}</span></th>'
        f'<td class="meter-cell">{render_bar(pair.words / largest, css="doubt")}</td>'
        f'<td class="num">{format_count(pair.words)}</td><td class="num muted">{format_percent(pair.share)}</td></tr>'
        for pair in pairs[:max_pairs]
    ]
    rest = sum(pair.words for pair in pairs[max_pairs:])
    more = (
        f'<p class="note">{pluralize(rest, "more word")} in {pluralize(len(pairs) - max_pairs, "rarer pair")}.</p>'
        if rest
        else ""
    )
    return (
        '<table class="pairs"><thead><tr><th scope="col">Given → suggested</th><td></td>'
        '<th scope="col" class="num">Words</th><th scope="col" class="num">Of the given</th></tr></thead>'
        f"<tbody>{''.join(items)}</tbody></table>{more}"
    )


def render_noise_table(summary: AuditSummary) -> str:
    """The estimated noise matrix as a heat map: rows given, columns suggested."""
    chosen = _select_most_confused(summary)
    names = [escape_html(summary.classes[k]) for k in chosen]
    shares = summary.noise_shares
    away = shares.copy()
    np.fill_diagonal(away, 0)
    largest = float(away.max()) if away.size else 0.0
    head = "".join(f'<th scope="col"><span>{name}</span></th>' for name in names)
    rows = []
    for i, name in zip(chosen, names, strict=True):
        cells = []
        for j in chosen:
            share, words = float(shares[i, j]), int(summary.noise[i, j])
            if i == j:
                kept = format_percent(share) if summary.noise[i].sum() else "–"
                cells.append(f'<td class="kept">{kept}</td>')
            elif not words:
                cells.append('<td class="none"><span class="sr">0</span></td>')
            else:
                # The root spreads small shares out: most classes are confused in well under one per cent of cases.
                heat = math.ceil(_HEAT_STEPS * math.sqrt(share / largest))
                told = f"{pluralize(words, 'word')} given {summary.classes[i]}, suggested {summary.classes[j]}"
                cells.append(f'<td class="h{heat}" title="{escape_html(told)}">{format_percent(share)}</td>')
        rows.append(f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>')
    left_out = len(summary.classes) - len(chosen)
    note = (
        f'<p class="note">{pluralize(left_out, "class", "classes")} with fewer doubts left out.</p>' if left_out else ""
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="noise-title"><table class="noise"><thead><tr>'
        f'<td class="corner">given ↓ &nbsp; should be →</td>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{note}'
    )


def _select_most_confused(summary: AuditSummary) -> Sequence[int]:
    if len(summary.classes) <= MAX_CLASSES:
        return range(len(summary.classes))
    away = summary.noise.copy()
    np.fill_diagonal(away, 0)
    doubts = away.sum(axis=0) + away.sum(axis=1)
    return sorted(np.argsort(-doubts, kind="stable")[:MAX_CLASSES].tolist())
