"""Facets: the short texts that the queue's filters look items up by, such as `["given", "PER"]`.

An item has one facet per label, label pair, suspect kind, annotator, batch, model and platform task.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from service.labels import get_entity_type

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from service.contracts import Flag, PlatformTask, SuspectSpan
MAX_CACHED_NUMBERS: Final = 50_000


class FacetNumbers:
    """The numbers of facets in one file, for its writer. Numbers take a quarter of the space of the texts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def find_all(self, db: sqlite3.Connection, facets: Iterable[str]) -> list[int]:
        known = self._numbers
        return [known[facet] if facet in known else self._find(db, facet) for facet in facets]

    def _find(self, db: sqlite3.Connection, facet: str) -> int:
        """The number of the facet; a new one gets the next number."""
        number = self._numbers.get(facet)
        if number is None:
            db.execute("INSERT OR IGNORE INTO facet_names (name) VALUES (?)", (facet,))
            number = int(db.execute("SELECT no FROM facet_names WHERE name = ?", (facet,)).fetchone()[0])
            if len(self._numbers) >= MAX_CACHED_NUMBERS:
                self._numbers.clear()
            self._numbers[facet] = number
        return number

    def clear(self) -> None:
        """For a new file, and after a transaction that was rolled back."""
        self._numbers.clear()


@lru_cache(maxsize=4096)
def encode_facet(name: str, *values: str) -> str:
    return json.dumps([name, *values], ensure_ascii=False)


def encode_task_facet(task: PlatformTask) -> str:
    return encode_facet("task", *task)


def build_facets(
    flags: Iterable[Flag],
    suspects: Iterable[SuspectSpan],
    *,
    annotator: str | None,
    model: str,
    batch: str | None = None,
) -> set[str]:
    """The facets of an item, except that of its task. Labels are facets in full and by their type."""
    facets = {encode_facet("kind", suspect.kind) for suspect in suspects} | {encode_facet("model", model)}
    if annotator is not None:
        facets.add(encode_facet("annotator", annotator))
    if batch is not None:
        facets.add(encode_facet("batch", batch))
    for flag in flags:
        given_labels, suggested_labels = ({label, get_entity_type(label)} for label in (flag.given, flag.suggested))
        facets |= {encode_facet("given", label) for label in given_labels}
        facets |= {encode_facet("suggested", label) for label in suggested_labels}
        facets |= {encode_facet("pair", given, suggested) for given in given_labels for suggested in suggested_labels}
        facets.add(encode_facet("types", get_entity_type(flag.given), get_entity_type(flag.suggested)))
    return facets
