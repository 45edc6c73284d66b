"""Counts of the queue by annotator, reviewer and model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from service.contracts import Message
from service.review.queue.figures.summary_counts import is_error, is_reviewed, sum_by_name, sum_by_value
from service.statistics.annotators.sums import OTHER_ANNOTATORS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence

    from service.review.queue.figures.summary_counts import SummaryCount

MAX_ANNOTATORS = 200
MAX_REVIEWERS = 200


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
    items = sum_by_name(db, "annotator", dataset, select=is_reviewed)
    decided = sum_by_name(db, "outcome_annotator", dataset, select=_is_flagged)
    errors = sum_by_name(db, "outcome_annotator", dataset, select=lambda count: _is_flagged(count) and is_error(count))
    annotators = [
        Annotator(annotator=name, items=items.get(name, 0), decided=decided.get(name, 0), errors=errors.get(name, 0))
        for name in {**items, **decided}
    ]
    annotators.sort(key=lambda annotator: (-annotator.items, -annotator.decided, annotator.annotator or ""))
    return tuple(annotators[:MAX_ANNOTATORS])


def _is_flagged(count: SummaryCount) -> bool:
    return count.reason != "control"


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
    held = sum_by_value(db, "annotator", dataset)
    most = sorted(held, key=lambda name: (-held[name], name))[: 2 * MAX_ANNOTATORS]
    names += [name for name in most if name not in names][: MAX_ANNOTATORS - len(names)]
    listed = set(names)
    items = _join_others(sum_by_value(db, "annotator", dataset, select=is_reviewed), listed)
    decided = _join_others(sum_by_value(db, "outcome_annotator", dataset), listed)
    errors = _join_others(sum_by_value(db, "outcome_annotator", dataset, select=is_error), listed)
    return {
        name: AnnotatorCounts(items.get(name, 0), decided.get(name, 0), errors.get(name, 0))
        for name in {**items, **decided}
    }


def _join_others(counts: Mapping[str, int], listed: Collection[str]) -> dict[str, int]:
    joined: dict[str, int] = {}
    for name, n in counts.items():
        label = name if name in listed else OTHER_ANNOTATORS
        joined[label] = joined.get(label, 0) + n
    return joined


def count_by_reviewer(db: sqlite3.Connection, dataset: str | None) -> tuple[Reviewer, ...]:
    decisions = sum_by_value(db, "reviewer", dataset)
    ordered = sorted(decisions.items(), key=lambda entry: (-entry[1], entry[0]))
    return tuple(Reviewer(reviewer=name, decisions=n) for name, n in ordered[:MAX_REVIEWERS])


def count_by_model(facets: Mapping[str, int]) -> tuple[JudgingModel, ...]:
    """From the items in review by facet."""
    ordered = sorted(facets.items(), key=lambda entry: (-entry[1], entry[0]))
    return tuple(
        JudgingModel(model=json.loads(facet)[1], items=n) for facet, n in ordered if facet.startswith('["model"')
    )
