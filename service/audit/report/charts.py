"""View models of the report's charts and tables: which marks, where, with which text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from service.audit.summary import LOG_ODDS_EDGES, AuditSummary, ClassConfusion, ScoreHistogram
from service.text import format_count, pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

_TICKS: Final = (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
_NARROW_TICKS: Final = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 44, 12, 14, 38
# Shades of the heat map. The stylesheet gives each a text colour with enough contrast.
_HEAT_STEPS: Final = 5
# Bounds the size of the noise matrix; a line below it counts the classes left out.
MAX_CLASSES: Final = 24
MAX_CONFUSIONS: Final = 12


class AxisTick(NamedTuple):
    at: float
    name: str


class HistogramBar(NamedTuple):
    title: str
    x: float
    width: float
    top: float
    flagged_top: float | None


@dataclass(frozen=True, slots=True)
class HistogramView:
    """Coordinates are those of the SVG's view box."""

    css: str
    description: str
    width: int
    height: int
    left: int
    right: int
    base: float
    grid: Sequence[AxisTick]
    ticks: Sequence[AxisTick]
    bars: Sequence[HistogramBar]


def build_histogram(
    scores: ScoreHistogram, *, name: str, width: int, height: int, narrow: bool = False
) -> HistogramView:
    """Sentences by score. The score axis stretches towards 0 and 1, the count axis is logarithmic."""
    left, right, top = _MARGIN_LEFT, width - _MARGIN_RIGHT, _MARGIN_TOP
    inner_height = height - top - _MARGIN_BOTTOM
    bins = len(scores.total)
    step = (right - left) / bins
    decades = max(math.ceil(math.log10(max(int(scores.total.max()), 1) + 1)), 1)

    def y(number: int) -> float:
        # The offset of 0.3 decades lets the bar of a single sentence show.
        return top + inner_height * (1 - (math.log10(number) + 0.3) / (decades + 0.3))

    def x(score: float) -> float:
        log_odds = math.log10(score / (1 - score))
        share = float((log_odds - LOG_ODDS_EDGES[0]) / (LOG_ODDS_EDGES[-1] - LOG_ODDS_EDGES[0]))
        return left + step + share * (bins - 2) * step

    bars = []
    for index in range(bins):
        total, flagged = int(scores.total[index]), int(scores.flagged[index])
        if total:
            title = f"{name} {_format_bin(index)}: {pluralize(total, 'sentence')}, {format_count(flagged)} flagged"
            flagged_top = y(flagged) if flagged else None
            bars.append(HistogramBar(title, left + index * step + 0.75, step - 1.5, y(total), flagged_top))
    grid = [AxisTick(y(10**power), _abbreviate_count(10**power)) for power in range(decades + 1)]
    return HistogramView(
        css="narrow" if narrow else "wide",
        description=_describe_histogram(scores, name),
        width=width,
        height=height,
        left=left,
        right=right,
        base=top + inner_height,
        grid=[line for line in grid if line.at >= top - 1],
        ticks=[AxisTick(x(tick), _format_probability(tick)) for tick in (_NARROW_TICKS if narrow else _TICKS)],
        bars=bars,
    )


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


class ClassRow(NamedTuple):
    name: str
    words: int
    threshold: float | None
    warming_up: bool
    flagged: int


def build_class_rows(summary: AuditSummary) -> list[ClassRow]:
    """Each class with its threshold, the words behind it and how many of them are flagged."""
    flagged = summary.flagged_by_class
    return [
        ClassRow(name, words, summary.thresholds.get(name), name in summary.warming_up, flagged[name])
        for name, words in summary.words_by_class.items()
    ]


class ConfusionTable(NamedTuple):
    rows: Sequence[ClassConfusion]
    pairs_left_out: int
    words_left_out: int


def build_confusion_table(summary: AuditSummary) -> ConfusionTable:
    """The most frequent pairs given → suggested."""
    pairs = summary.list_confusions()
    left_out = pairs[MAX_CONFUSIONS:]
    return ConfusionTable(pairs[:MAX_CONFUSIONS], len(left_out), sum(pair.words for pair in left_out))


class NoiseCell(NamedTuple):
    suggested: str
    is_diagonal: bool
    words: int
    share: float | None
    """Of the words given the row's class; none where there are no such words."""
    heat: int


class NoiseRow(NamedTuple):
    name: str
    cells: Sequence[NoiseCell]


class NoiseTable(NamedTuple):
    classes: Sequence[str]
    rows: Sequence[NoiseRow]
    classes_left_out: int


def build_noise_table(summary: AuditSummary) -> NoiseTable:
    """The estimated noise matrix as a heat map: rows given, columns suggested."""
    chosen = _select_most_confused(summary)
    shares = summary.noise_shares
    off_diagonal = shares.copy()
    np.fill_diagonal(off_diagonal, 0)
    largest = float(off_diagonal.max()) if off_diagonal.size else 0.0

    def build_cell(i: int, j: int) -> NoiseCell:
        share = float(shares[i, j]) if summary.noise[i].sum() else None
        # The square root spreads small shares out: most pairs are confused in well under one per cent of cases.
        heat = math.ceil(_HEAT_STEPS * math.sqrt(share / largest)) if share and i != j else 0
        return NoiseCell(summary.classes[j], i == j, int(summary.noise[i, j]), share, heat)

    rows = [NoiseRow(summary.classes[i], [build_cell(i, j) for j in chosen]) for i in chosen]
    return NoiseTable([row.name for row in rows], rows, len(summary.classes) - len(chosen))


def _select_most_confused(summary: AuditSummary) -> Sequence[int]:
    if len(summary.classes) <= MAX_CLASSES:
        return range(len(summary.classes))
    off_diagonal = summary.noise.copy()
    np.fill_diagonal(off_diagonal, 0)
    doubts = off_diagonal.sum(axis=0) + off_diagonal.sum(axis=1)
    return sorted(np.argsort(-doubts, kind="stable")[:MAX_CLASSES].tolist())
