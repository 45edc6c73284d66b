"""The histogram of priorities: all sentences of the stream, and those in review."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pydantic import Field

from service.contracts import Message
from service.review.queue.figures.summary_counts import is_reviewed, sum_by_value
from service.statistics.histogram import UNIT_EDGES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

EDGES: Final = (0.0, *UNIT_EDGES, 1.0)


class PriorityBin(Message):
    low: float
    high: float
    items: int = Field(description="In review: flagged items and open control sentences")
    sentences: int = Field(default=0, description="All sentences that the dataset's statistics contain")


def bin_priorities(db: sqlite3.Connection, dataset: str | None) -> tuple[PriorityBin, ...]:
    """The items in review by the priority that they show."""
    counts = sum_by_value(db, "priority", dataset, select=is_reviewed)
    return tuple(
        PriorityBin(low=low, high=high, items=counts.get(str(k), 0)) for k, (low, high) in enumerate(pairwise(EDGES))
    )


def add_sentences(bins: Sequence[PriorityBin], sentences: Sequence[int]) -> tuple[PriorityBin, ...]:
    return tuple(entry.model_copy(update={"sentences": count}) for entry, count in zip(bins, sentences, strict=True))
