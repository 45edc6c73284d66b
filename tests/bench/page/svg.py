"""Small plots as SVG: values with their spread, and curves on logarithmic scales. Same input, same bytes.

A plot has its own ground and one accent colour, in a light and a dark form that the browser chooses.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STYLE = (
    ".ground{fill:#fff}text{fill:#1c2733}.small{fill:#4b5a6b;font-size:12px}.grid{stroke:#d5dce4;stroke-width:1}"
    ".line{stroke:#3867b5;stroke-width:2;fill:none}.mark{fill:#3867b5}.goal{stroke:#c4701f;stroke-dasharray:4 3}"
    "@media (prefers-color-scheme:dark){.ground{fill:#161b22}text{fill:#e6edf5}.small{fill:#a9b7c6}.grid{stroke:#323d4a}"
    ".line{stroke:#7fa8ec}.mark{fill:#7fa8ec}.goal{stroke:#e0a066}}"
)
WIDTH = 760
ROW = 26
LABEL_WIDTH = 300
VALUE_WIDTH = 70
MARGIN = 16
PANEL = (360, 190)
PANEL_PLOT = (52, 30, 290, 116)  # x, y, width, height within a panel


class Bar(NamedTuple):
    """A value with its spread."""

    label: str
    value: float
    least: float
    most: float


class Panel(NamedTuple):
    """A curve in a panel of its own."""

    title: str
    x: str
    y: str
    points: Sequence[tuple[float, float]]


def draw_bars(title: str, bars: Sequence[Bar], *, unit: str = "", line: float | None = None) -> str:
    """Horizontal bars from zero; a whisker shows the spread, and `line` a value to compare with."""
    scale = max([*(bar.most for bar in bars), line or 0.0]) or 1.0
    left, right = MARGIN + LABEL_WIDTH, WIDTH - MARGIN - VALUE_WIDTH

    def place(value: float) -> str:
        return _number(left + (right - left) * value / scale)

    parts = []
    for row, bar in enumerate(bars):
        middle = MARGIN + ROW * row + ROW / 2
        length = _number((right - left) * bar.value / scale)
        parts += [
            f'<text x="{left - 10}" y="{_number(middle + 4)}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect class="mark" opacity=".45" x="{left}" y="{_number(middle - 7)}" width="{length}" height="14"/>',
            f'<path class="line" d="M{place(bar.least)} {_number(middle)}H{place(bar.most)}"/>',
            f'<circle class="mark" cx="{place(bar.value)}" cy="{_number(middle)}" r="4"/>',
            f'<text x="{right + 12}" y="{_number(middle + 4)}">{format_value(bar.value)}{escape(unit)}</text>',
        ]
    height = 2 * MARGIN + ROW * len(bars)
    if line is not None:
        parts.append(f'<path class="goal" d="M{place(line)} {MARGIN}V{height - MARGIN}"/>')
    return _wrap(title, WIDTH, height, parts)


def draw_panels(title: str, panels: Sequence[Panel]) -> str:
    """Curves side by side, both axes logarithmic: a straight line at 45° is a cost in proportion to the size."""
    parts: list[str] = []
    for number, panel in enumerate(panels):
        column, row = number % 2, number // 2
        offset = (column * (PANEL[0] + MARGIN) + MARGIN // 2, row * PANEL[1] + MARGIN // 2)
        parts += [f'<g transform="translate({offset[0]} {offset[1]})">', *_draw_panel(panel), "</g>"]
    rows = (len(panels) + 1) // 2
    return _wrap(title, WIDTH, rows * PANEL[1] + MARGIN, parts)


def _draw_panel(panel: Panel) -> Iterable[str]:
    left, top, width, height = PANEL_PLOT
    points = [(x, y) for x, y in panel.points if x > 0 and y > 0]
    yield f'<text x="{left}" y="16" font-weight="600">{escape(panel.title)}</text>'
    if not points:
        return
    x_low, x_high = _choose_range([x for x, _ in points])
    y_low, y_high = _choose_range([y for _, y in points])

    def place(x: float, y: float) -> tuple[str, str]:
        across = (math.log10(x) - x_low) / (x_high - x_low)
        up = (math.log10(y) - y_low) / (y_high - y_low)
        return _number(left + width * across), _number(top + height * (1 - up))

    for power in range(math.ceil(y_low), math.floor(y_high) + 1):
        _, y = place(10**x_low, 10.0**power)
        yield f'<path class="grid" d="M{left} {y}H{left + width}"/>'
        yield (
            f'<text class="small" x="{left - 6}" y="{_number(float(y) + 4)}" text-anchor="end">'
            f"{format_size(10.0**power)}</text>"
        )
    path = " ".join(f"{'M' if number == 0 else 'L'}{' '.join(place(*point))}" for number, point in enumerate(points))
    yield f'<path class="line" d="{path}"/>'
    for point in points:
        x, y = place(*point)
        yield f'<circle class="mark" cx="{x}" cy="{y}" r="3.5"/>'
    bottom = top + height + 18
    for (size, cost), anchor in ((points[0], "start"), (points[-1], "end")):
        x, _ = place(size, cost)
        yield f'<text class="small" x="{x}" y="{bottom}" text-anchor="{anchor}">{format_size(size)}</text>'
    yield f'<text class="small" x="{left + width / 2:g}" y="{bottom}" text-anchor="middle">{escape(panel.x)}</text>'
    yield f'<text class="small" x="{left + width}" y="16" text-anchor="end">{escape(panel.y)}</text>'


def _choose_range(values: Sequence[float]) -> tuple[float, float]:
    """Whole powers of ten around the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return float(low), float(max(high, low + 1))


def format_value(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def format_size(value: float) -> str:
    for limit, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:g}{suffix}"
    return f"{value:g}"


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _wrap(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'font-family="system-ui, sans-serif" font-size="13">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        f'<rect class="ground" width="{width}" height="{height}"/>\n{body}\n</svg>\n'
    )
