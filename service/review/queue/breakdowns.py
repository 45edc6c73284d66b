"""Counts of the queue by annotator, reviewer and model, and the conditions that all counts share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from service.contracts import Message
from service.statistics.annotators.sums import OTHER_ANNOTATORS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

MAX_ANNOTATORS = 200
MAX_REVIEWERS = 200
INCLUDES_CONTROLS_NOTE = "flagged items and open control sentences"

# `? IS NULL` selects all datasets. Open control sentences are counted with the flagged items, by the numbers they show: if a
# label pair, an annotator or a range of scores had fewer items here than in the queue, the others would be known to be
# control sentences. An item that was deleted with its task is not counted, like one that was deleted by itself.
FROM_ITEMS = "FROM items WHERE (? IS NULL OR dataset = ?)"
FROM_FACETS = (
    "FROM facet_names AS f CROSS JOIN facets ON facets.facet = f.no CROSS JOIN items ON items.no = facets.item"
)
WHERE_REVIEWED = "(state IN ('open', 'adjudication') OR (state = 'decided' AND reason = 'flagged'))"


class Annotator(Message):
    annotator: str | None
    items: int = 0
    decided: int = 0
    errors: int = 0


class Reviewer(Message):
    reviewer: str
    decisions: int = 0


class JudgingModel(Message):
    model: str
    items: int = 0


def count_by_annotator(db: sqlite3.Connection, dataset: str | None) -> tuple[Annotator, ...]:
    """Counts of flagged items and open control sentences."""
    counts: dict[str | None, dict[str, int]] = {}
    for name, items in db.execute(
        f"SELECT annotator, count(*) {FROM_ITEMS} AND {WHERE_REVIEWED} GROUP BY annotator",
        (dataset, dataset),
    ):
        counts[name] = {"items": items}
    for name, decided, errors in db.execute(
        "SELECT annotator, count(*), sum(verdict = 'error') FROM outcomes"
        " WHERE (? IS NULL OR dataset = ?) AND reason <> 'control' GROUP BY annotator",
        (dataset, dataset),
    ):
        counts.setdefault(name, {}).update(decided=decided, errors=errors)
    annotators = [Annotator(annotator=name, **n) for name, n in counts.items()]
    annotators.sort(key=lambda annotator: (-annotator.items, -annotator.decided, annotator.annotator or ""))
    return tuple(annotators[:MAX_ANNOTATORS])


class AnnotatorCounts(NamedTuple):
    """Counts of one annotator and dataset. `confirmed_errors` includes control sentences, which nothing had flagged."""

    items: int = 0
    decided: int = 0
    confirmed_errors: int = 0


def count_annotators(db: sqlite3.Connection, dataset: str, first: Sequence[str] = ()) -> dict[str, AnnotatorCounts]:
    """Items in review as in the queue, and what reviewers decided, of at most MAX_ANNOTATORS names.

    They are the names in `first`, then those with the most items. All others together are OTHER_ANNOTATORS.
    """
    names = list(dict.fromkeys(first))[:MAX_ANNOTATORS]
    most = db.execute(
        f"SELECT annotator, count(*) AS n {FROM_ITEMS} AND annotator IS NOT NULL GROUP BY annotator"
        " ORDER BY n DESC, annotator LIMIT ?",
        (dataset, dataset, 2 * MAX_ANNOTATORS),
    )
    names += [name for (name, _) in most if name not in names][: MAX_ANNOTATORS - len(names)]
    listed = json.dumps(names)
    # The name, or that of the others.
    label = "CASE WHEN annotator IN (SELECT value FROM json_each(?)) THEN annotator ELSE ? END AS label"
    counts = {
        name: AnnotatorCounts(items)
        for name, items in db.execute(
            f"SELECT {label}, count(*) {FROM_ITEMS} AND {WHERE_REVIEWED} AND annotator IS NOT NULL GROUP BY label",
            (listed, OTHER_ANNOTATORS, dataset, dataset),
        )
    }
    for name, decided, errors in db.execute(
        f"SELECT {label}, count(*), sum(verdict = 'error') FROM outcomes"  # noqa: S608 - a constant
        " WHERE dataset = ? AND annotator IS NOT NULL GROUP BY label",
        (listed, OTHER_ANNOTATORS, dataset),
    ):
        counts[name] = AnnotatorCounts(counts.get(name, AnnotatorCounts()).items, decided, errors)
    return counts


def count_by_reviewer(db: sqlite3.Connection, dataset: str | None) -> tuple[Reviewer, ...]:
    rows = db.execute(
        "SELECT reviewer, count(*) AS n FROM decisions WHERE verdict <> 'withdrawn' AND (? IS NULL OR dataset = ?)"
        " GROUP BY reviewer ORDER BY n DESC, reviewer LIMIT ?",
        (dataset, dataset, MAX_REVIEWERS),
    )
    return tuple(Reviewer(reviewer=reviewer, decisions=decisions) for reviewer, decisions in rows)


def count_by_model(db: sqlite3.Connection, dataset: str | None) -> tuple[JudgingModel, ...]:
    rows = db.execute(
        f"SELECT f.name, count(*) AS n {FROM_FACETS} WHERE f.name >= '[\"model\"' AND f.name < '[\"model$'"
        f" AND {WHERE_REVIEWED} AND (? IS NULL OR dataset = ?) GROUP BY f.name ORDER BY n DESC, f.name",
        (dataset, dataset),
    )
    return tuple(JudgingModel(model=json.loads(facet)[1], items=items) for facet, items in rows)
