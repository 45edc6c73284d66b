"""The values of --map: names of types and labels on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable


def parse_label_map(pairs: Iterable[str], *, example: str) -> dict[str, str]:
    """Parses OLD=NEW pairs. Two values for one name are an error."""
    label_map: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{pair!r} is not OLD=NEW, such as {example}", param_hint="--map")
        if label_map.setdefault(old, new) != new:
            raise typer.BadParameter(f"{old} is mapped to {label_map[old]} and to {new}", param_hint="--map")
    return label_map
