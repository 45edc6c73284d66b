"""Curves as small SVG pictures with logarithmic axes, about 2 kB each."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH: Final = 420
HEIGHT: Final = 240
LEFT: Final = 62
RIGHT: Final = 16
TOP: Final = 34
BOTTOM: Final = 40
FONT: Final = 'font-family="sans-serif" font-size="10" fill="#444"'
DASHED: Final = 'stroke="#999" stroke-dasharray="4 3"'


class LogAxis:
    """Whole powers of ten around the values, on a length of pixels."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low = math.floor(math.log10(min(values)))
        self._high = max(math.ceil(math.log10(max(values))), self._low + 1)
        self._start, self._end = start, end

    def locate(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self._low, self._high + 1)]


def render_curve(curve: Mapping[str, Any]) -> str | None:
    """The picture of a curve from its JSON; None where it has no two points on logarithmic axes.

    A dashed line through the first point shows what a linear cost would be.
    """
    points = [(point["x"], point["value"]) for point in curve["points"] if point["x"] > 0 and point["value"] > 0]
    if len(points) < 2:
        return None
    (first_x, first_value), (last_x, _) = points[0], points[-1]
    linear_value = first_value * (last_x / first_x) ** curve["linear_exponent"]
    x_axis = LogAxis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    y_axis = LogAxis([*(value for _, value in points), linear_value], HEIGHT - BOTTOM, TOP)
    placed = [(x_axis.locate(x), y_axis.locate(value)) for x, value in points]
    line = " ".join(f"{x},{y}" for x, y in placed)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<text x="{LEFT}" y="16" font-size="12" fill="#111">{escape(curve["name"])}: {escape(curve["unit"])}</text>',
    ]
    for tick in x_axis.ticks:
        x = x_axis.locate(tick)
        parts.append(f'<path d="M{x} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{tick:,g}</text>')
    for tick in y_axis.ticks:
        y = y_axis.locate(tick)
        parts.append(f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 3}" text-anchor="end">{tick:,g}</text>')
    parts += [
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(curve["x"])}</text>',
        f'<path d="M{placed[0][0]} {placed[0][1]}L{placed[-1][0]} {y_axis.locate(linear_value)}" {DASHED}/>',
        f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="2"/>',
        *(f'<circle cx="{x}" cy="{y}" r="3" fill="#1f6feb"/>' for x, y in placed),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
