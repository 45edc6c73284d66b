"""Counts of items, outcomes and decisions by what the overview and the filters show, kept up to date by the projector.

With them the overview reads some hundred rows. A scan took 6 s at 100,000 items. A row of the table `summaries` counts what has
one value in one dimension, such as the items of a day, by dataset, reason and state. The rows of the dataset ALL_DATASETS are
the sums over all datasets: a name of a dataset is never empty.

For outcomes and pairs the state is what was decided. Changes are collected during a transaction and written at its end, so
that a batch of a thousand new items writes each row once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from service.statistics.histogram import UNIT_EDGES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

ALL_DATASETS: Final = ""
FACETS: Final = ("given", "kind", "model", "suggested", "types")
"""The facets that are counted. An annotator is a dimension; pairs, batches and tasks are not counted."""
FACET_STARTS: Final = tuple(f'["{name}"' for name in FACETS)

# Scores between 0 and 1 are dense near both ends: bins of equal width would put nearly all of them into one or two.
SCORE_BIN_EDGES: Final = (
    *(0.0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4),
    *(0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 0.997, 0.999, 1.0),
)
SCORE_STEP: Final = 0.25
"""The width of the bins below 0 and above 1: some methods count words."""
MAX_SCORE_STEPS: Final = 4_000_000
FINE_EDGES: Final = tuple(sorted({*SCORE_BIN_EDGES[:-1], 0.25, 0.75}))

UPSERT: Final = (
    "INSERT INTO summaries (dimension, dataset, value, reason, state, n) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET n = n + excluded.n"
)
DELETE_EMPTY: Final = (
    "DELETE FROM summaries WHERE dimension = ? AND dataset = ? AND value = ? AND reason = ? AND state = ? AND n = 0"
)
SELECT_ITEM: Final = (
    "SELECT i.dataset, i.reason, i.state, i.day, i.annotator, i.shown_score, i.shown_priority, i.inclusion, b.facets"
    " FROM items AS i JOIN bodies AS b ON b.item = i.no WHERE i.no = ?"
)


class Group(NamedTuple):
    """What the counts of a dimension are split by."""

    dataset: str
    reason: str
    state: str


@dataclass(frozen=True, slots=True)
class ItemSummary:
    """What is counted of an item. `score` and `priority` are those that the queue shows."""

    day: str | None
    annotator: str | None
    score: float | None
    priority: float | None
    inclusion: float | None
    facets: Iterable[str]

    def list_values(self, reason: str) -> Iterator[tuple[str, str]]:
        """Its value in each dimension."""
        yield "item", ""
        if self.day is not None:
            yield "day", self.day
        yield to_name_value("annotator", self.annotator)
        yield from list_shown_values(self.score, self.priority)
        if reason == "control":
            yield "inclusion", encode_number(self.inclusion)
        for facet in self.facets:
            if _is_counted(facet):
                yield "facet", facet


@lru_cache(maxsize=4096)
def _is_counted(facet: str) -> bool:
    return facet.startswith(FACET_STARTS)


def list_shown_values(score: float | None, priority: float | None) -> Iterator[tuple[str, str]]:
    """The bins of the numbers that the queue shows."""
    if score is not None:
        yield "score", encode_number(find_score_bin(score))
    if priority is not None:
        yield "priority", str(bisect_right(UNIT_EDGES, priority))


def find_score_bin(score: float) -> float:
    """The lower end of the narrowest bin that a score is in; the ends of wider bins are among those of the narrow ones."""
    if 0 <= score <= 1:
        return FINE_EDGES[bisect_right(FINE_EDGES, score) - 1]
    steps = min(max(score / SCORE_STEP, -MAX_SCORE_STEPS), MAX_SCORE_STEPS)
    return SCORE_STEP * (steps // 1)


def to_name_value(dimension: str, name: str | None) -> tuple[str, str]:
    """Dimension and value of a name that may be missing: a missing one has a dimension of its own."""
    return (f"no_{dimension}", "") if name is None else (dimension, name)


@lru_cache(maxsize=4096)
def encode_number(number: float | None) -> str:
    return "" if number is None else repr(float(number))


def decode_number(text: str) -> float | None:
    return float(text) if text else None


class Summaries:
    """Collects changes of counts. Call `flush` at the end of the transaction that makes the changes."""

    def __init__(self) -> None:
        self._changes: dict[Group, Counter[tuple[str, str]]] = {}

    def clear(self) -> None:
        """For an empty file, and after a transaction that was rolled back."""
        self._changes.clear()

    def add(self, group: Group, values: Iterable[tuple[str, str]], n: int = 1) -> None:
        """Counts what has these values in these dimensions; with -1, no longer."""
        counts = self._changes.get(group)
        if counts is None:
            counts = self._changes[group] = Counter()
        for value in values:
            counts[value] += n

    def move(self, before: Group, after: Group, values: Iterable[tuple[str, str]]) -> None:
        listed = tuple(values)
        self.add(before, listed, -1)
        self.add(after, listed)

    def flush(self, db: sqlite3.Connection) -> None:
        changes: Counter[tuple[str, str, str, str, str]] = Counter()
        for (dataset, reason, state), counts in self._changes.items():
            for (dimension, value), n in counts.items():
                if n:
                    changes[dimension, dataset, value, reason, state] += n
                    changes[dimension, ALL_DATASETS, value, reason, state] += n
        self._changes.clear()
        db.executemany(UPSERT, sorted((*key, n) for key, n in changes.items() if n))
        db.executemany(DELETE_EMPTY, [key for key, n in changes.items() if n < 0])


def read_item_summary(db: sqlite3.Connection, number: int) -> tuple[Group, ItemSummary]:
    """What is counted of an item in the tables."""
    dataset, reason, state, day, annotator, score, priority, inclusion, numbers = db.execute(
        SELECT_ITEM, (number,)
    ).fetchone()
    query = "SELECT name FROM facet_names WHERE no IN (SELECT value FROM json_each(?))"
    facets = [facet for (facet,) in db.execute(query, (numbers,))]
    return Group(dataset, reason, state), ItemSummary(day, annotator, score, priority, inclusion, facets)
