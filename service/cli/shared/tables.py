"""Tables on a terminal, and how they show bytes and times."""

from __future__ import annotations

import base64
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.cli.shared.terminal import sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right_aligned: Sequence[int] = ()) -> str:
    """Columns as wide as their longest cell. Columns in `right_aligned` hold numbers."""
    cells = [[sanitize(cell) for cell in row] for row in (head, *rows)]
    widths = [max(_measure_width(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for row in cells:
        padded = []
        for column, cell in enumerate(row):
            space = " " * (widths[column] - _measure_width(cell))
            padded.append(space + cell if column in right_aligned else cell + space)
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _measure_width(text: str) -> int:
    """Width in columns of a terminal: East Asian letters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def format_timestamp(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def truncate(text: str, max_length: int = 80) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def bytes_to_json(value: bytes | None) -> dict[str, str] | None:
    """Bytes in JSON: as text if they are UTF-8, else in base64."""
    if value is None:
        return None
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
