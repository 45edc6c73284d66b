"""Writes assessments to the tables of the queue.

Rows of new items are collected and written together, sorted by facet: neighbours in a table are then written one after another.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from service.contracts import PlatformTask
from service.log.codec import encode_headers
from service.review.decisions import to_timestamp
from service.review.items import TASK_DELETION_STATE, compute_weighted_scores, select_flags, select_suspects
from service.review.projection.control_sample import FlaggedNumbers
from service.review.projection.facets import FacetNumbers, build_facets, encode_task_facet
from service.review.projection.signatures import build_signature
from service.review.projection.summaries import Group, ItemSummary, read_item_summary
from service.review.projection.tables import OPEN_SETTLEMENT, to_utc_day
from service.review.ranker import WordKind, find_word_kinds
from service.review.review_state import derive_item_state, is_task_deletion, supersedes
from service.statistics.sampling import DrawPurpose, draw_uniform

if TYPE_CHECKING:
    import sqlite3

    from service.contracts import Assessment
    from service.log.protocol import Record
    from service.review.items import ItemState
    from service.review.projection.summaries import Summaries
    from service.review.ranker import Ranker
    from service.review.review_state import SentenceKey


class ItemWriter:
    """Puts and drops items. Before others read the tables `bodies`, `texts` and `facets`, call `flush`."""

    def __init__(self, summaries: Summaries) -> None:
        self._summaries = summaries
        self.new_keys: set[SentenceKey] = set()
        """The items of this transaction that replace none and are of no task: only a decision can change their state."""
        self.last_flagged: dict[str, FlaggedNumbers] = {}
        """The flagged item of each dataset that was put last."""
        self._facet_numbers = FacetNumbers()
        self._bodies: list[tuple[object, ...]] = []
        self._texts: list[tuple[int, str]] = []
        self._facets: list[tuple[int, int]] = []

    def clear(self) -> None:
        """For an empty file, and after a transaction that was rolled back."""
        self._facet_numbers.clear()
        self.new_keys.clear()
        for rows in (self._bodies, self._texts, self._facets):
            rows.clear()

    def put(self, db: sqlite3.Connection, assessment: Assessment, record: Record, ranker: Ranker) -> bool:
        """Whether the assessment is the item now: an older revision that arrives late is not."""
        task = PlatformTask.from_sentence(assessment)
        names = _list_facets(assessment, task)
        facets = self._facet_numbers.find_all(db, names)
        row = _build_row(assessment, task, ranker, build_signature(names))
        number = _insert_item(db, row)
        if number is not None and task is None:
            self.new_keys.add((row.dataset, row.id))
        if number is None and self._drop_superseded(db, assessment):
            number = _insert_item(db, row)
        if number is None:
            return False
        if row.reason == "flagged":
            self.last_flagged[row.dataset] = FlaggedNumbers(row.rank, row.priority, row.score)
        summary = ItemSummary(row.day, row.annotator, row.shown_score, row.shown_priority, row.inclusion, facets=names)
        self._summaries.add(Group(row.dataset, row.reason, row.state), summary.list_values(row.reason))
        headers = encode_headers(record.headers)
        # The text of a list of numbers is JSON.
        self._bodies.append(
            (
                number,
                record.value,
                record.key,
                headers,
                record.partition,
                record.offset,
                str(facets),
            )
        )
        self._texts.append((number, " ".join(assessment.tokens)))
        self._facets += [(facet, number) for facet in facets]
        return True

    def _drop_superseded(self, db: sqlite3.Connection, assessment: Assessment) -> bool:
        """Drops the item of the sentence if the assessment replaces it."""
        query = "SELECT no, revision FROM items WHERE dataset = ? AND id = ?"
        number, revision = db.execute(query, (assessment.dataset, str(assessment.id))).fetchone()
        if supersedes(assessment.revision, revision):
            self.new_keys.discard((assessment.dataset, str(assessment.id)))
            self._drop_number(db, number)
            return True
        return False

    def drop(self, db: sqlite3.Connection, dataset: str, sentence_id: str) -> None:
        row = db.execute("SELECT no FROM items WHERE dataset = ? AND id = ?", (dataset, sentence_id)).fetchone()
        if row is not None:
            self.new_keys.discard((dataset, sentence_id))
            self._drop_number(db, row[0])

    def _drop_number(self, db: sqlite3.Connection, number: int) -> None:
        """The body has the item's facets: an index of facets by item would double the rows that each new item writes."""
        self.flush(db)
        group, summary = read_item_summary(db, number)
        self._summaries.add(group, summary.list_values(group.reason), -1)
        (facets,) = db.execute("SELECT facets FROM bodies WHERE item = ?", (number,)).fetchone()
        rows = [(facet, number) for facet in json.loads(facets)]
        db.executemany("DELETE FROM facets WHERE facet = ? AND item = ?", rows)
        for statement in (
            "DELETE FROM items WHERE no = ?",
            "DELETE FROM bodies WHERE item = ?",
            "DELETE FROM texts WHERE rowid = ?",
        ):
            db.execute(statement, (number,))

    def flush(self, db: sqlite3.Connection) -> None:
        if not self._bodies:
            return
        db.executemany("INSERT INTO bodies VALUES (?, ?, ?, ?, ?, ?, ?)", self._bodies)
        db.executemany("INSERT INTO texts (rowid, words) VALUES (?, ?)", self._texts)
        db.executemany("INSERT INTO facets VALUES (?, ?)", sorted(self._facets))
        for rows in (self._bodies, self._texts, self._facets):
            rows.clear()


def _list_facets(assessment: Assessment, task: PlatformTask | None) -> set[str]:
    facets = build_facets(
        select_flags(assessment),
        select_suspects(assessment),
        annotator=assessment.annotator,
        model=assessment.model.name,
        batch=assessment.batch,
    )
    return facets if task is None else facets | {encode_task_facet(task)}


class ItemRow(NamedTuple):
    """The columns of a new item. `shown_priority` and `shown_score` are its own until a control sentence has a position."""

    dataset: str
    id: str
    revision: int
    reason: str
    state: ItemState | str
    rank: float
    tie: float
    priority: float | None
    score: float | None
    draw: float
    shown_priority: float | None
    shown_score: float | None
    inclusion: float | None
    annotator: str | None
    day: str | None
    scored_at: float
    lowest_scores: str
    batch: str | None
    task: str | None
    signature: int


INSERT_ITEM: Final = (
    f"INSERT INTO items ({', '.join(ItemRow._fields)}) VALUES ({', '.join('?' * len(ItemRow._fields))})"  # noqa: S608 - constants
    " ON CONFLICT DO NOTHING"
)


def _build_row(assessment: Assessment, task: PlatformTask | None, ranker: Ranker, signature: int) -> ItemRow:
    key = (assessment.dataset, str(assessment.id))
    lowest_scores = compute_lowest_by_kind(assessment) if assessment.reason == "flagged" else []
    priority, score = _discard_non_finite(assessment.priority), _discard_non_finite(assessment.score)
    return ItemRow(
        *key,
        revision=assessment.revision,
        reason=assessment.reason,
        state=TASK_DELETION_STATE
        if task is not None and is_task_deletion(assessment)
        else derive_item_state(assessment.reason, OPEN_SETTLEMENT, deleted_with_task=False),
        rank=ranker.rank(priority, lowest_scores),
        tie=1.0 if priority is None else priority,
        priority=priority,
        score=score,
        draw=draw_uniform(*key, DrawPurpose.RING_POSITION),
        shown_priority=priority,
        shown_score=score,
        inclusion=assessment.inclusion_probability,
        annotator=assessment.annotator,
        day=to_utc_day(assessment.scored_at),
        scored_at=to_timestamp(assessment.scored_at),
        lowest_scores=json.dumps([[*kind, lowest] for kind, lowest in lowest_scores]),
        batch=None if assessment.update else assessment.batch,
        task=None if task is None else task.deletion_id,
        signature=signature,
    )


def _insert_item(db: sqlite3.Connection, row: ItemRow) -> int | None:
    """The number of the new row; None if there is an item of the sentence."""
    cursor = db.execute(INSERT_ITEM, row)
    return cursor.lastrowid if cursor.rowcount else None


def _discard_non_finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else number


def compute_lowest_by_kind(assessment: Assessment) -> list[tuple[WordKind, float]]:
    """The lowest weighted score of each kind of word. The ranker needs no more: the lowest word of each decides the rank."""
    lowest: dict[WordKind, float] = {}
    kinds = find_word_kinds(assessment.labels, select_flags(assessment))
    for kind, weighted_score in zip(kinds, compute_weighted_scores(assessment), strict=False):
        if weighted_score is not None and weighted_score < lowest.get(kind, math.inf) and weighted_score > -math.inf:
            lowest[kind] = weighted_score
    return sorted(lowest.items(), key=lambda entry: (entry[0].given, entry[0].suggested or ""))
