"""Reads the counts that the projector keeps (see `projection.summaries`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from service.review.projection.summaries import ALL_DATASETS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

REVIEWED_STATES: Final = ("open", "adjudication")
INCLUDES_CONTROLS_NOTE: Final = "flagged items and open control sentences"


class SummaryCount(NamedTuple):
    """How many have a value in a dimension, of one reason and state."""

    value: str
    reason: str
    state: str
    n: int

    @property
    def is_reviewed(self) -> bool:
        """Whether the overview counts these items.

        Open control sentences are counted with the flagged items, by the numbers they show: if a label pair, an annotator
        or a range of scores had fewer items here than in the queue, the others would be known to be control sentences. An
        item that was deleted with its task is not counted, like one that was deleted by itself.
        """
        return self.state in REVIEWED_STATES or (self.state == "decided" and self.reason == "flagged")


def is_reviewed(count: SummaryCount) -> bool:
    return count.is_reviewed


def is_error(count: SummaryCount) -> bool:
    """Of outcomes: their state is the verdict."""
    return count.state == "error"


def read_counts(db: sqlite3.Connection, dimension: str, dataset: str | None) -> Iterator[SummaryCount]:
    """The counts of a dataset, or of all together."""
    query = "SELECT value, reason, state, n FROM summaries WHERE dimension = ? AND dataset = ? AND n > 0"
    return map(SummaryCount._make, db.execute(query, (dimension, ALL_DATASETS if dataset is None else dataset)))


def sum_by_value(
    db: sqlite3.Connection,
    dimension: str,
    dataset: str | None,
    *,
    select: Callable[[SummaryCount], bool] = lambda _: True,
) -> dict[str, int]:
    """The selected counts added up by value."""
    sums: dict[str, int] = {}
    for count in read_counts(db, dimension, dataset):
        if select(count):
            sums[count.value] = sums.get(count.value, 0) + count.n
    return sums


def sum_by_name(
    db: sqlite3.Connection,
    dimension: str,
    dataset: str | None,
    *,
    select: Callable[[SummaryCount], bool] = lambda _: True,
) -> dict[str | None, int]:
    """Like `sum_by_value`, for a name that may be missing."""
    sums: dict[str | None, int] = {}
    sums.update(sum_by_value(db, dimension, dataset, select=select).items())
    sums.update((None, n) for n in sum_by_value(db, f"no_{dimension}", dataset, select=select).values())
    return sums
