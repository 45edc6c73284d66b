"""The queue that people work on: a SQLite file that the projector builds from topics, and everybody reads."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar, cast

from service.contracts import Assessment, Message
from service.errors import InvalidInput
from service.review.items import (
    TOMBSTONE_STATE,
    ReviewItem,
    build_shown,
    compute_agreement,
    to_review_flags,
    to_review_suspects,
    to_review_words,
)
from service.review.projection import tables as store
from service.review.projection.control_sample import is_blind
from service.review.projection.outcomes import read_decisions
from service.review.queue import overview as sums
from service.review.queue.file import QueueFile
from service.review.queue.filters import (
    MAX_PAGE_SIZE,
    MAX_RARE_ITEMS,
    QueueFilter,
    QueuePosition,
    build_page_query,
    build_task_facet,
)
from service.review.queue.recall import RecallEstimate, estimate_recall

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from service.review.queue.overview import Overview, PairPrecision, ThresholdPoint

__all__ = ["QueueFilter", "QueuePage", "ReviewQueue"]

T = TypeVar("T")


class QueuePage(Message):
    """Items worst first, and the cursor that the next page goes on after (none: there is no more)."""

    items: tuple[ReviewItem, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class _ActiveClaim:
    """Who has the item open, by the clock of the reader; of two, the one who was first in the topic."""

    reviewer: str | None = None
    until: datetime | None = None


class ReviewQueue(QueueFile):
    """What is asked of the file. Any thread may; writing is for the projector alone."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path)
        self._ranker_offsets: dict[str, dict[str, float]] = {}
        self._cache: dict[tuple[str | None, ...], object] = {}
        self._cache_version = 0
        self._cache_lock = threading.Lock()

    # -- reading ---------------------------------------------------------------------------------------------------

    def get_page(
        self,
        filter: QueueFilter,  # noqa: A002 - the word for it
        *,
        limit: int,
        after: str | None = None,
        now: datetime | None = None,
    ) -> QueuePage:
        if not 1 <= limit <= MAX_PAGE_SIZE:
            raise InvalidInput(f"{limit} is not between 1 and {MAX_PAGE_SIZE}", field="limit")
        moment = now or datetime.now(UTC)
        with self.read_transaction() as db:
            rare = next((facet for facet in filter.facets if _is_rare(db, facet)), None)
            query, values = build_page_query(filter, limit=limit, after=after, now=moment.timestamp(), rare=rare)
            numbers = [number for (number,) in db.execute(query, values)]
            items = [_read_item(db, number, moment) for number in numbers[:limit]]
            following = _read_position(db, numbers[limit - 1]).to_cursor() if len(numbers) > limit else None
        return QueuePage(items=tuple(items), next=following)

    def get_item(self, dataset: str, id: str, *, now: datetime | None = None) -> ReviewItem | None:  # noqa: A002 - as in messages
        with self.read_transaction() as db:
            query = "SELECT no FROM items WHERE dataset = ? AND id = ? AND state <> ?"
            row = db.execute(query, (dataset, id, TOMBSTONE_STATE)).fetchone()
            return None if row is None else _read_item(db, row[0], now or datetime.now(UTC))

    def find_task_item_ids(self, dataset: str, platform: str, task: str) -> list[str]:
        """The ids of what is not closed and came from a platform's task."""
        query = (
            "SELECT i.id FROM facets f JOIN items i ON i.no = f.item"
            " WHERE f.facet = ? AND i.dataset = ? AND i.state IN ('open', 'decided') ORDER BY i.id"
        )
        with self.read_transaction() as db:
            return [identity for (identity,) in db.execute(query, (build_task_facet(platform, task), dataset))]

    def get_revisions(self, dataset: str, ids: Iterable[str]) -> dict[str, int]:
        """Of those that are known here."""
        query = "SELECT revision FROM items WHERE dataset = ? AND id = ?"
        with self.read_transaction() as db:
            found = {one: db.execute(query, (dataset, one)).fetchone() for one in ids}
        return {one: int(row[0]) for one, row in found.items() if row is not None}

    def count_items(self, dataset: str | None = None) -> dict[str, int]:
        with self.read_transaction() as db:
            return sums.count_items(db, dataset)

    def count_items_by_dataset(self) -> dict[str, dict[str, int]]:
        return self._compute_cached(("counts",), sums.count_items_by_dataset)

    def count_verdicts_by_dataset(self) -> dict[str, dict[str, int]]:
        return self._compute_cached(("verdicts",), sums.count_verdicts_by_dataset)

    def build_overview(self, dataset: str | None = None) -> Overview:
        with self.read_transaction() as db:
            return sums.build_overview(db, dataset, None if dataset is None else self._ranker_offsets.get(dataset))

    def list_threshold_points(self, dataset: str) -> tuple[ThresholdPoint, ...]:
        """How the dataset's thresholds have moved: one point per day with a sentence in review, oldest first."""
        return self._compute_cached(("thresholds", dataset), lambda db: sums.list_threshold_points(db, dataset))

    def compute_pair_precision(self, dataset: str | None = None) -> list[PairPrecision]:
        return self._compute_cached(("precision", dataset), lambda db: sums.compute_pair_precision(db, dataset))

    def estimate_recall(self, dataset: str) -> RecallEstimate:
        return self._compute_cached(("recall", dataset), lambda db: estimate_recall(db, dataset))

    def _compute_cached(self, key: tuple[str | None, ...], compute: Callable[[sqlite3.Connection], T]) -> T:
        """Numbers that every scrape asks for: added up once, until something changes."""
        version = self.version  # before reading: what is newer than its number is only added up once more
        with self._cache_lock:
            if self._cache_version != version:
                self._cache, self._cache_version = {}, version
            kept = self._cache.get(key)
        if kept is None:
            with self.read_transaction() as db:
                kept = compute(db)
            with self._cache_lock:
                if self._cache_version == version:
                    self._cache[key] = kept
        return cast("T", copy.deepcopy(kept))  # who asked may change it

    def clear(self) -> None:
        super().clear()
        self._ranker_offsets = {}

    def set_ranker_offsets(self, dataset: str, offsets: dict[str, float] | None) -> None:
        """What the overview tells of the ranker."""
        kept = {name: found for name, found in self._ranker_offsets.items() if name != dataset}
        self._ranker_offsets = kept if offsets is None else {**kept, dataset: offsets}


def _is_rare(db: sqlite3.Connection, facet: str) -> bool:
    query = "SELECT count(*) FROM (SELECT 1 FROM facets WHERE facet = ? LIMIT ?)"
    return int(db.execute(query, (facet, MAX_RARE_ITEMS + 1)).fetchone()[0]) <= MAX_RARE_ITEMS


def _read_position(db: sqlite3.Connection, number: int) -> QueuePosition:
    return QueuePosition(*db.execute("SELECT rank, tie, dataset, id FROM items WHERE no = ?", (number,)).fetchone())


def _read_item(db: sqlite3.Connection, number: int, now: datetime) -> ReviewItem:
    dataset, identity, revision, reason, state, rank, priority, score, inclusion, value = db.execute(
        "SELECT i.dataset, i.id, i.revision, i.reason, i.state, i.rank, i.shown_priority, i.shown_score, i.inclusion, b.value"
        " FROM items AS i JOIN bodies AS b ON b.item = i.no WHERE i.no = ?",
        (number,),
    ).fetchone()
    key = (dataset, identity)
    said = Assessment.model_validate_json(value)
    about = [one for one in read_decisions(db, key) if one.revision == revision and not one.withdrawn]
    claim = _read_active_claim(db, key, now)
    _, epoch, share = store.read_ranker_settings(db, dataset)
    probability = (inclusion or share or None) if reason == "control" else 1.0
    decided = state == "decided"
    blind = not decided and is_blind(db, dataset, share)
    disguised = not decided and reason == "control"
    return ReviewItem(
        dataset=dataset,
        id=identity,
        revision=revision,
        state=state,
        closed_by=None if state != "closed" else reason if reason in store.CLOSING_REASONS else "deleted",
        blind=blind,
        rank=rank,
        priority=priority if disguised else said.priority,
        score=score if disguised else said.score,
        tokens=said.tokens,
        labels=said.labels,
        annotator=said.annotator,
        source=said.source,
        annotated_at=said.annotated_at,
        scored_at=said.scored_at,
        doubtful=to_review_flags(said, blind=blind),
        suspects=to_review_suspects(said, blind=blind),
        words=to_review_words(said, blind=blind),
        thresholds=said.thresholds,
        warming_up=said.warming_up,
        model=said.model,
        method=said.method,
        token_score=said.token_score,
        claimed_by=claim.reviewer,
        claimed_until=claim.until,
        decisions=tuple(one.model_copy(update={"shown": None}) for one in about),
        agreement=compute_agreement(about),
        reason=reason if decided else None,
        inclusion_probability=probability if decided else None,
    ).with_shown(build_shown(said, ranker_epoch=epoch))


def _read_active_claim(db: sqlite3.Connection, key: tuple[str, str], now: datetime) -> _ActiveClaim:
    row = db.execute(
        "SELECT reviewer, until FROM claims WHERE dataset = ? AND id = ? AND until > ? ORDER BY partition, offset LIMIT 1",
        (*key, now.timestamp()),
    ).fetchone()
    return _ActiveClaim() if row is None else _ActiveClaim(row[0], datetime.fromtimestamp(row[1], UTC))
