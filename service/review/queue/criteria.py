"""The criteria of a filter that are not columns of an item: its facets, its words, and the decisions about it.

Each criterion can be used in two ways. The items of a rare one are looked up and then sorted. A common one is checked item by
item while the queue is read in its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.review.projection.signatures import SignatureTest, build_signature_test

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from service.contracts import Verdict

MAX_RARE_ITEMS: Final = 1_000
MAX_JOINED_ITEMS: Final = 100_000
"""So many items of one facet are looked up in the others at most. A lookup takes 0.4 µs."""
READ_STEPS: Final = 8
"""Steps of SQLite's virtual machine, for each of these items, in which the queue is read in its order before. A lookup takes
about 16, an item that is read in the order of the queue 5."""
ITEM: Final = "{item}"
ROWS: Final = "{rows}"
COUNT_ROWS: Final = "SELECT count(*) FROM ({rows} LIMIT ?)"


@dataclass(frozen=True, slots=True)
class Criterion:
    """`rows` selects the numbers of the items as `item`, `check` is a condition on one row of `items`.

    In a check, ITEM stands for the number of the item. `signature` is None where it says nothing about the criterion.
    """

    rows: str
    check: str
    values: tuple[str | None, ...]
    signature: SignatureTest | None = None


def build_facet_criterion(facet: str) -> Criterion:
    return Criterion(
        rows="SELECT item FROM facets WHERE facet = (SELECT no FROM facet_names WHERE name = ?)",
        check="EXISTS (SELECT 1 FROM facets AS f WHERE f.facet = (SELECT no FROM facet_names WHERE name = ?)"
        " AND f.item = {item})",
        values=(facet,),
        signature=build_signature_test(facet),
    )


def build_words_criterion(match: str) -> Criterion:
    """`match` is a full-text query of `word_search`.

    The check reads all matching numbers once: of 100,000 items 60,000 in 25 ms. `word_search` has what is done for a common
    word before.
    """
    rows = "SELECT rowid AS item FROM texts WHERE texts MATCH ?"
    return Criterion(rows=rows, check=f"{ITEM} IN ({rows})", values=(match,))


def build_decision_criterion(verdict: Verdict | None, reviewer: str | None, viewer: str | None) -> Criterion:
    """Items with a decision in force that has this verdict and this reviewer; None is any.

    Decisions about an item that lacks others are hidden from all but their reviewer, so a filter does not find them either.
    """
    return Criterion(
        rows="SELECT DISTINCT i.no AS item FROM decisions AS d INDEXED BY decisions_by_verdict CROSS JOIN items AS i"
        " ON i.dataset = d.dataset AND i.id = d.id AND i.revision = d.revision WHERE d.verdict <> 'withdrawn' AND d.verdict = coalesce(?, d.verdict)"
        " AND d.reviewer = coalesce(?, d.reviewer) AND (i.complete OR d.reviewer = ?)",
        check="EXISTS (SELECT 1 FROM decisions AS d WHERE d.dataset = items.dataset AND d.id = items.id"
        " AND d.revision = items.revision AND d.verdict <> 'withdrawn' AND d.verdict = coalesce(?, d.verdict)"
        " AND d.reviewer = coalesce(?, d.reviewer) AND (items.complete OR d.reviewer = ?))",
        values=(verdict, reviewer, viewer),
    )


def is_rare(db: sqlite3.Connection, criterion: Criterion) -> bool:
    return _count_rows(db, criterion, MAX_RARE_ITEMS) <= MAX_RARE_ITEMS


def find_rarest_facet(db: sqlite3.Connection, criteria: Sequence[Criterion]) -> tuple[Criterion, int] | None:
    """Of two or more facets the one that the fewest items have, and their number; None if it is too common to start from."""
    facets = [criterion for criterion in criteria if criterion.signature is not None]
    if len(facets) < 2:
        return None
    counts = [_count_rows(db, facet, MAX_JOINED_ITEMS) for facet in facets]
    fewest = min(counts)
    return (facets[counts.index(fewest)], fewest) if fewest <= MAX_JOINED_ITEMS else None


def _count_rows(db: sqlite3.Connection, criterion: Criterion, maximum: int) -> int:
    """The number of items that meet the criterion; one more than `maximum` for all larger numbers."""
    query = COUNT_ROWS.replace(ROWS, criterion.rows)
    return int(db.execute(query, (*criterion.values, maximum + 1)).fetchone()[0])
