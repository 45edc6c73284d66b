"""Filters and cursors of the queue, and the SQL of a page. Values are always query parameters.

`criteria` says how items are looked up by what is not a column of theirs.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from service.errors import InvalidInput
from service.review.items import ITEM_STATES, TASK_DELETION_STATE
from service.review.projection.facets import encode_facet
from service.review.projection.signatures import SignatureTest
from service.review.queue.criteria import (
    ITEM,
    READ_STEPS,
    build_decision_criterion,
    build_facet_criterion,
    build_words_criterion,
    find_rarest_facet,
    is_rare,
)
from service.review.queue.word_search import (
    build_phrases_match,
    build_search_match,
    find_words_in_order,
    is_common,
    is_fast_to_look_up,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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
MAX_PROGRESS_CALLS: Final = 100  # of 0.2 µs each
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
        criteria = [build_words_criterion(match) for match in self._matches]
        if self.verdict is not None or self.decided_by is not None:
            criteria.append(build_decision_criterion(self.verdict, self.decided_by, self.viewer))
        return criteria + [build_facet_criterion(facet) for facet in self._facets]

    @property
    def only_match(self) -> str | None:
        """The full-text query, if there is one and not two."""
        matches = self._matches
        return matches[0] if len(matches) == 1 else None

    @property
    def _matches(self) -> list[str]:
        matches = []
        if self.q is not None:
            matches.append(build_search_match(self.q))
        if self.phrases:
            matches.append(build_phrases_match(self.phrases))
        return matches

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
    queue_filter: QueueFilter,
    *,
    limit: int | None,
    after: str | None,
    now: float,
    rare: Criterion | None,
    state: ItemState | None = None,
    without: Criterion | None = None,
) -> tuple[str, SqlValues]:
    """The query for the items of a page, and for one more: if it exists, there is a next page.

    A row is the position of an item and its number. `limit` of None: all items. `state`: only of those that the filter shows,
    the items in this one. `without`: a criterion that the caller checks.
    """
    source, where, values = _build_conditions(queue_filter, now=now, rare=rare, state=state, without=without)
    if after is not None:
        position = QueuePosition.from_cursor(after)
        where.append("(items.rank, items.tie, items.dataset, items.id) > (?, ?, ?, ?)")
        values += [position.rank, position.tie, position.dataset, position.id]
    values.append(-1 if limit is None else limit + 1)
    order = "items.rank, items.tie, items.dataset, items.id"
    # All the parts are constants of this module and of `criteria`.
    return f"SELECT {order}, items.no FROM {source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?", values  # noqa: S608


def _build_conditions(
    queue_filter: QueueFilter,
    *,
    now: float,
    rare: Criterion | None,
    state: ItemState | None = None,
    without: Criterion | None = None,
) -> tuple[str, list[str], SqlValues]:
    """The source of the rows, the conditions and their values.

    `rare` is a criterion of the filter that few items meet: the query starts from them. Without one the items are read from an
    index that has their signatures.
    """
    where: list[str] = []
    values: SqlValues = []
    source, item = "items", "items.no"
    if rare is not None:
        source, item = f"({rare.rows}) AS rare CROSS JOIN items ON items.no = rare.item", "rare.item"
        values += rare.values
    if queue_filter.dataset is not None:
        where.append("items.dataset = ?")
        values.append(queue_filter.dataset)
    if queue_filter.datasets is not None:
        where.append(f"items.dataset IN ({', '.join('?' * len(queue_filter.datasets))})")
        values += queue_filter.datasets
    if state is None and queue_filter.state == "all":
        where.append("items.state <> ?")
        values.append(TASK_DELETION_STATE)
    else:
        where.append("items.state = ?")
        values.append(state or queue_filter.state)
    criteria = [criterion for criterion in queue_filter.criteria if criterion not in (rare, without)]
    tests = [criterion.signature for criterion in criteria if criterion.signature is not None]
    if rare is None and tests:
        where.append("items.signature & ? = ?")
        test = reduce(SignatureTest.join, tests)
        values += [test.mask, test.bits]
    for criterion in criteria:
        where.append(criterion.check.replace(ITEM, item))
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
    """The numbers of the items of a page, and of the item after it.

    Items that meet two common criteria may be rare, or far down in the queue. So the queue is read in its order for half the
    time that it takes to look up the items of the rarer one. Then they are looked up.
    """
    page = PageRequest(queue_filter, limit, after, now)
    criteria = queue_filter.criteria
    rare = next((criterion for criterion in criteria if is_rare(db, criterion)), None)
    rarest = find_rarest_facet(db, criteria) if rare is None else None
    if rarest is not None:
        facet, items = rarest
        try:
            with limit_steps(db, items * READ_STEPS):
                return _select_numbers(db, page, None)
        except TooManyStepsError:
            rare = facet
    return _select_numbers(db, page, rare)


class PageRequest(NamedTuple):
    filter: QueueFilter
    limit: int
    after: str | None
    now: float


class TooManyStepsError(Exception):
    """A query has taken as many steps as it was allowed."""


@contextmanager
def limit_steps(db: sqlite3.Connection, steps: int) -> Iterator[None]:
    """Raises TooManyStepsError when the queries of the block together take more steps of SQLite's virtual machine.

    SQLite calls the handler by the steps of all runs of a statement, and Python keeps statements: a handler that stops at its
    first call stops a query of 5,000 steps under a limit of 8,000 every second time. So calls are counted. Each statement
    adds at most one call too many or too few, one percent of the limit.
    """
    steps_per_call = max(steps // MAX_PROGRESS_CALLS, 1)
    calls = 0

    def count_call() -> bool:
        nonlocal calls
        calls += 1
        return calls * steps_per_call > steps

    db.set_progress_handler(count_call, steps_per_call)
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise TooManyStepsError from None
        raise
    finally:
        db.set_progress_handler(None, 0)


def _select_numbers(db: sqlite3.Connection, page: PageRequest, rare: Criterion | None) -> list[int]:
    match = page.filter.only_match
    words = None if match is None else build_words_criterion(match)
    if match is not None and rare != words and is_fast_to_look_up(match) and is_common(db, match):
        rows = _read_rows(db, page, limit=None, rare=rare, without=words)
        found = find_words_in_order(db, match, (row[-1] for row in rows), page.limit + 1)
        if found is not None:
            return found
    rows = _read_rows(db, page, limit=page.limit, rare=rare)
    return [row[-1] for row in islice(rows, page.limit + 1)]


def _read_rows(
    db: sqlite3.Connection,
    page: PageRequest,
    *,
    limit: int | None,
    rare: Criterion | None,
    without: Criterion | None = None,
) -> Iterator[tuple[float, float, str, str, int]]:
    """Positions and numbers, in the order of the queue.

    The index is in the order of the queue for one state only: all states are read side by side.
    """
    queue_filter, _, after, now = page
    states = ITEM_STATES if queue_filter.state == "all" and rare is None else (None,)
    queries = (
        build_page_query(queue_filter, limit=limit, after=after, now=now, rare=rare, state=state, without=without)
        for state in states
    )
    return merge(*(db.execute(query, values) for query, values in queries))


def count_matching(db: sqlite3.Connection, queue_filter: QueueFilter, *, now: float) -> int:
    """The number of items on all pages."""
    criteria = queue_filter.criteria
    rare = next((criterion for criterion in criteria if is_rare(db, criterion)), None)
    if rare is None and (rarest := find_rarest_facet(db, criteria)) is not None:
        rare, _ = rarest
    source, where, values = _build_conditions(queue_filter, now=now, rare=rare)
    query = f"SELECT count(*) FROM {source} WHERE {' AND '.join(where)}"  # noqa: S608 - constants, as above
    return int(db.execute(query, values).fetchone()[0])
