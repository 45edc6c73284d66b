"""Filters and cursors of the queue, and the SQL of a page. Values are always query parameters.

`criteria` says how items are looked up by what is not a column of theirs.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from service.errors import InvalidInput
from service.review.items import ITEM_STATES, TASK_DELETION_STATE
from service.review.projection.facets import encode_facet
from service.review.queue.criteria import (
    build_decision_criterion,
    build_facet_criterion,
    build_words_criterion,
    is_rare,
)
from service.review.queue.word_search import build_phrases_match, build_search_match

if TYPE_CHECKING:
    import sqlite3

    from service.contracts import SuspectKind, Verdict
    from service.review.items import ItemState
    from service.review.queue.criteria import Criterion

SqlValues: TypeAlias = "list[str | float | int | None]"
MAX_PAGE_SIZE: Final = 200
# A decision ends its reviewer's claim. The claim is not withdrawn in the log: claims and decisions are in different
# partitions, and a replica that reads the withdrawal first would hand out an item that has all its decisions.
ACTIVE_CLAIM: Final = (
    "claims.until > ? AND NOT EXISTS (SELECT 1 FROM decisions AS own WHERE own.dataset = claims.dataset"
    " AND own.id = claims.id AND own.reviewer = claims.reviewer AND own.revision = items.revision"
    " AND own.verdict <> 'withdrawn')"
)
INVALID_CURSOR: Final = "it is not a cursor of this queue: use `next` of the previous page"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFilter:
    """Selects items; labels in full or by their type. `datasets`: only items of these.

    `viewer` is the reviewer who looks: of open items, those that they have decided are left out. `reviewer` also leaves out
    the items that others have open.

    `q` searches the words (see `build_search_match`), `phrases` for any of these sequences of words. `verdict` and `decided_by` are of one decision in force.
    """

    dataset: str | None = None
    datasets: tuple[str, ...] | None = None
    given: str | None = None
    suggested: str | None = None
    annotator: str | None = None
    batch: str | None = None
    kind: SuspectKind | None = None
    state: ItemState | Literal["all"] = "open"
    reviewer: str | None = None
    viewer: str | None = None
    q: str | None = None
    phrases: tuple[tuple[str, ...], ...] = ()
    verdict: Verdict | None = None
    decided_by: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        if self.state not in (*ITEM_STATES, "all"):
            raise InvalidInput(f"{self.state!r} is not one of {', '.join(ITEM_STATES)}, all", field="state")
        if self.reviewer is not None and self.viewer is None:
            object.__setattr__(self, "viewer", self.reviewer)

    @property
    def criteria(self) -> list[Criterion]:
        """What is not a column of an item. Those that are likely to be rare come first."""
        criteria = []
        if self.q is not None:
            criteria.append(build_words_criterion(build_search_match(self.q)))
        if self.phrases:
            criteria.append(build_words_criterion(build_phrases_match(self.phrases)))
        if self.verdict is not None or self.decided_by is not None:
            criteria.append(build_decision_criterion(self.verdict, self.decided_by, self.viewer))
        return criteria + [build_facet_criterion(facet) for facet in self._facets]

    @property
    def _facets(self) -> list[str]:
        facets = []
        if self.given is not None and self.suggested is not None:
            facets.append(encode_facet("pair", self.given, self.suggested))
        elif self.given is not None:
            facets.append(encode_facet("given", self.given))
        elif self.suggested is not None:
            facets.append(encode_facet("suggested", self.suggested))
        for name, value in (
            ("batch", self.batch),
            ("annotator", self.annotator),
            ("kind", self.kind),
            ("model", self.model),
        ):
            if value is not None:
                facets.append(encode_facet(name, value))
        return facets


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position of an item in the queue. It is unique."""

    rank: float
    tie: float
    dataset: str
    id: str

    def to_cursor(self) -> str:
        text = json.dumps([self.rank, self.tie, self.dataset, self.id], ensure_ascii=False)
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def from_cursor(cls, cursor: str) -> QueuePosition:
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            rank, tie, dataset, sentence_id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            position = cls(float(rank), float(tie), dataset, sentence_id)
            (dataset + sentence_id).encode()
        except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, OverflowError):
            raise InvalidInput(INVALID_CURSOR, field="after") from None
        are_texts = isinstance(dataset, str) and isinstance(sentence_id, str)
        if not (are_texts and math.isfinite(position.rank) and math.isfinite(position.tie)):
            raise InvalidInput(INVALID_CURSOR, field="after")
        return position


def build_page_query(
    queue_filter: QueueFilter, *, limit: int, after: str | None, now: float, rare: Criterion | None
) -> tuple[str, SqlValues]:
    """The query for the items of a page, and for one more: if it exists, there is a next page."""
    source, where, values = _build_conditions(queue_filter, now=now, rare=rare)
    if after is not None:
        position = QueuePosition.from_cursor(after)
        where.append("(items.rank, items.tie, items.dataset, items.id) > (?, ?, ?, ?)")
        values += [position.rank, position.tie, position.dataset, position.id]
    values.append(limit + 1)
    order = "items.rank, items.tie, items.dataset, items.id"
    # All the parts are constants of this module and of `criteria`.
    return f"SELECT items.no FROM {source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?", values  # noqa: S608


def _build_conditions(
    queue_filter: QueueFilter, *, now: float, rare: Criterion | None
) -> tuple[str, list[str], SqlValues]:
    """The source of the rows, the conditions and their values.

    `rare` is a criterion of the filter that few items meet: the query starts from them.
    """
    where: list[str] = []
    values: SqlValues = []
    source = "items"
    if rare is not None:
        source = f"({rare.rows}) AS rare CROSS JOIN items ON items.no = rare.item"
        values += rare.values
    if queue_filter.dataset is not None:
        where.append("items.dataset = ?")
        values.append(queue_filter.dataset)
    if queue_filter.datasets is not None:
        where.append(f"items.dataset IN ({', '.join('?' * len(queue_filter.datasets))})")
        values += queue_filter.datasets
    where.append("items.state <> ?" if queue_filter.state == "all" else "items.state = ?")
    values.append(TASK_DELETION_STATE if queue_filter.state == "all" else queue_filter.state)
    for criterion in queue_filter.criteria:
        if criterion != rare:
            where.append(criterion.check)
            values += criterion.values
    decider = queue_filter.viewer if queue_filter.state == "open" else queue_filter.reviewer
    if decider is not None and queue_filter.state in ("open", "adjudication"):
        where.append(
            "NOT EXISTS (SELECT 1 FROM decisions AS own WHERE own.dataset = items.dataset AND own.id = items.id"
            " AND own.reviewer = ? AND own.revision = items.revision AND own.verdict <> 'withdrawn')"
        )
        values.append(decider)
    if queue_filter.reviewer is not None:
        where.append(
            "coalesce((SELECT claims.reviewer FROM claims WHERE claims.dataset = items.dataset AND claims.id = items.id"  # noqa: S608 - a constant
            f" AND {ACTIVE_CLAIM} ORDER BY claims.partition, claims.offset LIMIT 1), ?) = ?"
        )
        values += [now, queue_filter.reviewer, queue_filter.reviewer]
    return source, where, values


def select_page(
    db: sqlite3.Connection, queue_filter: QueueFilter, *, limit: int, after: str | None = None, now: float
) -> list[int]:
    """The numbers of the items of a page, and of the item after it."""
    rare = _find_rare(db, queue_filter)
    query, values = build_page_query(queue_filter, limit=limit, after=after, now=now, rare=rare)
    return [number for (number,) in db.execute(query, values)]


def count_matching(db: sqlite3.Connection, queue_filter: QueueFilter, *, now: float) -> int:
    """The number of items on all pages."""
    source, where, values = _build_conditions(queue_filter, now=now, rare=_find_rare(db, queue_filter))
    query = f"SELECT count(*) FROM {source} WHERE {' AND '.join(where)}"  # noqa: S608 - constants, as above
    return int(db.execute(query, values).fetchone()[0])


def _find_rare(db: sqlite3.Connection, queue_filter: QueueFilter) -> Criterion | None:
    return next((criterion for criterion in queue_filter.criteria if is_rare(db, criterion)), None)
