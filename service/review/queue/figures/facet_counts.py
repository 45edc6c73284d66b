"""How many items of a state each value of the queue's filters would show."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from service.contracts import Message
from service.review.items import TASK_DELETION_STATE
from service.review.projection.summaries import FACETS
from service.review.queue.figures.summary_counts import sum_by_value

if TYPE_CHECKING:
    import sqlite3

    from service.review.items import ItemState


class FacetCount(Message):
    value: str = Field(description="As the filter takes it")
    items: int


class FacetCounts(Message):
    """Values of the filters of `GET /v1/review` with the number of items, ordered by value. An item counts once per value."""

    given: tuple[FacetCount, ...] = Field(description="Types of doubted labels")
    suggested: tuple[FacetCount, ...] = Field(description="Types of suggested labels")
    kind: tuple[FacetCount, ...] = Field(description="What is wrong with an entity")
    model: tuple[FacetCount, ...] = Field(description="Models that judged the items")


def count_facets(db: sqlite3.Connection, dataset: str | None, state: ItemState | Literal["all"]) -> FacetCounts:
    """Counts items as the list of this state has them, so that open control sentences can't be told from others."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
    types: dict[str, set[str]] = {"given": set(), "suggested": set()}
    found = sum_by_value(
        db,
        "facet",
        dataset,
        select=lambda count: count.state == state if state != "all" else count.state != TASK_DELETION_STATE,
    )
    for facet, items in found.items():
        name, *parts = json.loads(facet)
        if name == "types":
            for side, value in zip(("given", "suggested"), parts, strict=True):
                types[side].add(value)
        else:
            counts[name][parts[0]] = items
    # Labels are facets in full and by their type; the filters offer the types.
    for side, names in types.items():
        counts[side] = Counter({value: counts[side][value] for value in names})
    return FacetCounts(
        **{
            name: tuple(FacetCount(value=value, items=items) for value, items in sorted(counts[name].items()))
            for name in FacetCounts.model_fields
        }
    )
