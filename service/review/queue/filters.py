"""Filters and cursors of the queue, and the SQL of a page. Values are always query parameters.

A filter looks items up by their facets. The items of a rare facet are looked up and sorted. A common facet is checked item
by item while the queue is read in its order.
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

if TYPE_CHECKING:
    from service.contracts import SuspectKind
    from service.review.items import ItemState

SqlValues: TypeAlias = "list[str | float | int]"
MAX_PAGE_SIZE: Final = 200
MAX_RARE_ITEMS: Final = 1_000
INVALID_CURSOR: Final = "it is not a cursor of this queue: use `next` of the previous page"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFilter:
    """Selects items; labels in full or by their type. `reviewer` leaves out the items that others have open."""

    dataset: str | None = None
    given: str | None = None
    suggested: str | None = None
    annotator: str | None = None
    kind: SuspectKind | None = None
    state: ItemState | Literal["all"] = "open"
    reviewer: str | None = None

    def __post_init__(self) -> None:
        if self.state not in (*ITEM_STATES, "all"):
            raise InvalidInput(f"{self.state!r} is not one of {', '.join(ITEM_STATES)}, all", field="state")

    @property
    def facets(self) -> list[str]:
        facets = []
        if self.given is not None and self.suggested is not None:
            facets.append(encode_facet("pair", self.given, self.suggested))
        elif self.given is not None:
            facets.append(encode_facet("given", self.given))
        elif self.suggested is not None:
            facets.append(encode_facet("suggested", self.suggested))
        if self.annotator is not None:
            facets.append(encode_facet("annotator", self.annotator))
        if self.kind is not None:
            facets.append(encode_facet("kind", self.kind))
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
    queue_filter: QueueFilter, *, limit: int, after: str | None, now: float, rare_facet: str | None
) -> tuple[str, SqlValues]:
    """The query for the items of a page, and for one more: if it exists, there is a next page.

    `rare_facet` is a facet of the filter that few items have: the query starts from them.
    """
    where: list[str] = []
    values: SqlValues = []
    facets = queue_filter.facets
    source = "items"
    if rare_facet is not None:
        source = "facets CROSS JOIN items ON items.no = facets.item"
        where.append("facets.facet = ?")
        values.append(rare_facet)
        facets.remove(rare_facet)
    if queue_filter.dataset is not None:
        where.append("items.dataset = ?")
        values.append(queue_filter.dataset)
    where.append("items.state <> ?" if queue_filter.state == "all" else "items.state = ?")
    values.append(TASK_DELETION_STATE if queue_filter.state == "all" else queue_filter.state)
    if after is not None:
        position = QueuePosition.from_cursor(after)
        where.append("(items.rank, items.tie, items.dataset, items.id) > (?, ?, ?, ?)")
        values += [position.rank, position.tie, position.dataset, position.id]
    for facet in facets:
        where.append("EXISTS (SELECT 1 FROM facets AS f WHERE f.facet = ? AND f.item = items.no)")
        values.append(facet)
    if queue_filter.reviewer is not None:
        where.append(
            "coalesce((SELECT claims.reviewer FROM claims WHERE claims.dataset = items.dataset AND claims.id = items.id"
            " AND claims.until > ? ORDER BY claims.partition, claims.offset LIMIT 1), ?) = ?"
        )
        values += [now, queue_filter.reviewer, queue_filter.reviewer]
    values.append(limit + 1)
    order = "items.rank, items.tie, items.dataset, items.id"
    # All the parts are constants of this module.
    return f"SELECT items.no FROM {source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?", values  # noqa: S608
