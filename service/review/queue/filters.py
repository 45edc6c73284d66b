"""Which items, and where a page goes on: filters, cursors and the SQL they become. Values are parameters, always.

What an item can be found by is kept as facets, one short text each (`given:PER`, `pair:B-PER B-ORG`): a rare one is
looked up and its few items sorted, a common one is checked while the queue is walked in its order.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from service.errors import InvalidInput
from service.labels import get_entity_type
from service.review.items import ITEM_STATES, TOMBSTONE_STATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import Flag, SuspectKind, SuspectSpan
    from service.review.items import ItemState

SqlValues: TypeAlias = "list[str | float | int]"
MAX_PAGE_SIZE: Final = 200
MAX_RARE_ITEMS: Final = 1_000
INVALID_CURSOR: Final = "it is no cursor of this queue: take `next` of the page before"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFilter:
    """Which items are wanted; labels by their type or in full. `reviewer` leaves out what others have open."""

    dataset: str | None = None
    given: str | None = None
    suggested: str | None = None
    annotator: str | None = None
    kind: SuspectKind | None = None
    state: ItemState | Literal["all"] = "open"
    reviewer: str | None = None

    def __post_init__(self) -> None:
        if self.state not in (*ITEM_STATES, "all"):
            raise InvalidInput(f"{self.state!r} is none of {', '.join(ITEM_STATES)}, all", field="state")

    @property
    def facets(self) -> list[str]:
        found = []
        if self.given is not None and self.suggested is not None:
            found.append(_encode_facet("pair", self.given, self.suggested))
        elif self.given is not None:
            found.append(_encode_facet("given", self.given))
        elif self.suggested is not None:
            found.append(_encode_facet("suggested", self.suggested))
        if self.annotator is not None:
            found.append(_encode_facet("annotator", self.annotator))
        if self.kind is not None:
            found.append(_encode_facet("kind", self.kind))
        return found


@lru_cache(maxsize=4096)
def _encode_facet(name: str, *values: str) -> str:
    return json.dumps([name, *values], ensure_ascii=False)


def build_facets(doubtful: Iterable[Flag], suspects: Iterable[SuspectSpan], annotator: str | None) -> set[str]:
    """Everything an item can be found by."""
    found = {_encode_facet("kind", suspect.kind) for suspect in suspects}
    if annotator is not None:
        found.add(_encode_facet("annotator", annotator))
    for doubt in doubtful:
        givens, suggesteds = ({label, get_entity_type(label)} for label in (doubt.given, doubt.suggested))
        found |= {_encode_facet("given", label) for label in givens}
        found |= {_encode_facet("suggested", label) for label in suggesteds}
        found |= {_encode_facet("pair", given, suggested) for given in givens for suggested in suggesteds}
        found.add(_encode_facet("types", get_entity_type(doubt.given), get_entity_type(doubt.suggested)))
    return found


TASK_FACET_GLOB: Final = '[[]"task",*'


def build_task_facet(platform: str, task: str) -> str:
    """By the platform's task: several annotations may be of one."""
    return _encode_facet("task", platform, task)


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where an item stands in the queue. Two never share one."""

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
            rank, tie, dataset, identity = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            place = cls(float(rank), float(tie), dataset, identity)
            (dataset + identity).encode()
        except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, OverflowError):
            raise InvalidInput(INVALID_CURSOR, field="after") from None
        texts = isinstance(dataset, str) and isinstance(identity, str)
        if not (texts and math.isfinite(place.rank) and math.isfinite(place.tie)):
            raise InvalidInput(INVALID_CURSOR, field="after")
        return place


def build_page_query(
    queue_filter: QueueFilter, *, limit: int, after: str | None, now: float, rare: str | None
) -> tuple[str, SqlValues]:
    """The items of a page, one more than asked for, so that it shows whether there is a next one.

    `rare`: one of the facets that few items hold, which are looked up and sorted.
    """
    where: list[str] = []
    values: SqlValues = []
    facets = queue_filter.facets
    source = "items"
    if rare is not None:
        source = "facets CROSS JOIN items ON items.no = facets.item"
        where.append("facets.facet = ?")
        values.append(rare)
        facets.remove(rare)
    if queue_filter.dataset is not None:
        where.append("items.dataset = ?")
        values.append(queue_filter.dataset)
    where.append("items.state <> ?" if queue_filter.state == "all" else "items.state = ?")
    values.append(TOMBSTONE_STATE if queue_filter.state == "all" else queue_filter.state)
    if after is not None:
        place = QueuePosition.from_cursor(after)
        where.append("(items.rank, items.tie, items.dataset, items.id) > (?, ?, ?, ?)")
        values += [place.rank, place.tie, place.dataset, place.id]
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
