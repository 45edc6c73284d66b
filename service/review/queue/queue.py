"""The queue that people work on: a SQLite file that the projector builds from topics, and everybody reads."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar, cast

from service.contracts import Assessment, Message
from service.errors import InvalidInput
from service.review.items import NO_ITEM, ReviewItem, agreement_of, doubts_told, shown_of, suspects_told, words_told
from service.review.projection import tables as store
from service.review.projection.control_sample import is_blind
from service.review.projection.outcomes import decisions_about
from service.review.queue import overview as sums
from service.review.queue.file import QueueFile
from service.review.queue.filters import MAX_LIMIT, RARE, Place, QueueFilter, page_query, task_facet
from service.review.queue.recall import RecallEstimate, recall_estimate

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from service.review.queue.overview import Overview, PairPrecision

__all__ = ["Page", "Queue", "QueueFilter"]

T = TypeVar("T")


class Page(Message):
    """Items worst first, and the cursor that the next page goes on after (none: there is no more)."""

    items: tuple[ReviewItem, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class _Claims:
    """Who has the item open, by the clock of the reader; of two, the one who was first in the topic."""

    by: str | None = None
    until: datetime | None = None


class Queue(QueueFile):
    """What is asked of the file. Any thread may; writing is for the projector alone."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path)
        self._offsets: dict[str, dict[str, float]] = {}
        self._sums: dict[tuple[str | None, ...], object] = {}
        self._sums_of = 0
        self._summing = threading.Lock()

    # -- reading ---------------------------------------------------------------------------------------------------

    def page(
        self,
        filter: QueueFilter,  # noqa: A002 - the word for it
        *,
        limit: int,
        after: str | None = None,
        now: datetime | None = None,
    ) -> Page:
        if not 1 <= limit <= MAX_LIMIT:
            raise InvalidInput(f"{limit} is not between 1 and {MAX_LIMIT}", field="limit")
        moment = now or datetime.now(UTC)
        with self.reading() as db:
            rare = next((facet for facet in filter.facets if _held_by_few(db, facet)), None)
            query, values = page_query(filter, limit=limit, after=after, now=moment.timestamp(), rare=rare)
            numbers = [number for (number,) in db.execute(query, values)]
            items = [_item(db, number, moment) for number in numbers[:limit]]
            following = _place(db, numbers[limit - 1]).cursor() if len(numbers) > limit else None
        return Page(items=tuple(items), next=following)

    def item(self, dataset: str, id: str, *, now: datetime | None = None) -> ReviewItem | None:  # noqa: A002 - as in messages
        with self.reading() as db:
            query = "SELECT no FROM items WHERE dataset = ? AND id = ? AND state <> ?"
            row = db.execute(query, (dataset, id, NO_ITEM)).fetchone()
            return None if row is None else _item(db, row[0], now or datetime.now(UTC))

    def of_task(self, dataset: str, platform: str, task: str) -> list[str]:
        """The ids of what is not closed and came from a platform's task."""
        query = (
            "SELECT i.id FROM facets f JOIN items i ON i.no = f.item"
            " WHERE f.facet = ? AND i.dataset = ? AND i.state IN ('open', 'decided') ORDER BY i.id"
        )
        with self.reading() as db:
            return [identity for (identity,) in db.execute(query, (task_facet(platform, task), dataset))]

    def revisions(self, dataset: str, ids: Iterable[str]) -> dict[str, int]:
        """Of those that are known here."""
        query = "SELECT revision FROM items WHERE dataset = ? AND id = ?"
        with self.reading() as db:
            found = {one: db.execute(query, (dataset, one)).fetchone() for one in ids}
        return {one: int(row[0]) for one, row in found.items() if row is not None}

    def counts(self, dataset: str | None = None) -> dict[str, int]:
        with self.reading() as db:
            return sums.counts(db, dataset)

    def counts_by_dataset(self) -> dict[str, dict[str, int]]:
        return self._summed(("counts",), sums.counts_by_dataset)

    def verdicts_by_dataset(self) -> dict[str, dict[str, int]]:
        return self._summed(("verdicts",), sums.verdicts_by_dataset)

    def overview(self, dataset: str | None = None) -> Overview:
        with self.reading() as db:
            return sums.overview(db, dataset, None if dataset is None else self._offsets.get(dataset))

    def precision(self, dataset: str | None = None) -> list[PairPrecision]:
        return self._summed(("precision", dataset), lambda db: sums.precision(db, dataset))

    def recall_estimate(self, dataset: str) -> RecallEstimate:
        return self._summed(("recall", dataset), lambda db: recall_estimate(db, dataset))

    def _summed(self, name: tuple[str | None, ...], add_up: Callable[[sqlite3.Connection], T]) -> T:
        """Numbers that every scrape asks for: added up once, until something changes."""
        version = self.version  # before reading: what is newer than its number is only added up once more
        with self._summing:
            if self._sums_of != version:
                self._sums, self._sums_of = {}, version
            kept = self._sums.get(name)
        if kept is None:
            with self.reading() as db:
                kept = add_up(db)
            with self._summing:
                if self._sums_of == version:
                    self._sums[name] = kept
        return cast("T", copy.deepcopy(kept))  # who asked may change it

    def clear(self) -> None:
        super().clear()
        self._offsets = {}

    def show_offsets(self, dataset: str, offsets: dict[str, float] | None) -> None:
        """What the overview tells of the ranker."""
        kept = {name: found for name, found in self._offsets.items() if name != dataset}
        self._offsets = kept if offsets is None else {**kept, dataset: offsets}


def _held_by_few(db: sqlite3.Connection, facet: str) -> bool:
    query = "SELECT count(*) FROM (SELECT 1 FROM facets WHERE facet = ? LIMIT ?)"
    return int(db.execute(query, (facet, RARE + 1)).fetchone()[0]) <= RARE


def _place(db: sqlite3.Connection, number: int) -> Place:
    return Place(*db.execute("SELECT rank, tie, dataset, id FROM items WHERE no = ?", (number,)).fetchone())


def _item(db: sqlite3.Connection, number: int, now: datetime) -> ReviewItem:
    dataset, identity, revision, reason, state, rank, priority, score, inclusion, value = db.execute(
        "SELECT i.dataset, i.id, i.revision, i.reason, i.state, i.rank, i.shown_priority, i.shown_score, i.inclusion, b.value"
        " FROM items AS i JOIN bodies AS b ON b.item = i.no WHERE i.no = ?",
        (number,),
    ).fetchone()
    key = (dataset, identity)
    said = Assessment.model_validate_json(value)
    about = [one for one in decisions_about(db, key) if one.revision == revision and not one.withdrawn]
    claim = _claim(db, key, now)
    _, epoch, share = store.ranker_settings(db, dataset)
    probability = (inclusion or share or None) if reason == "control" else 1.0
    decided = state == "decided"
    blind = not decided and is_blind(db, dataset, share)
    disguised = not decided and reason == "control"
    return ReviewItem(
        dataset=dataset,
        id=identity,
        revision=revision,
        state=state,
        closed_by=None if state != "closed" else reason if reason in store.CLOSING else "deleted",
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
        doubtful=doubts_told(said, blind=blind),
        suspects=suspects_told(said, blind=blind),
        words=words_told(said, blind=blind),
        thresholds=said.thresholds,
        warming_up=said.warming_up,
        model=said.model,
        method=said.method,
        token_score=said.token_score,
        claimed_by=claim.by,
        claimed_until=claim.until,
        decisions=tuple(one.model_copy(update={"shown": None}) for one in about),
        agreement=agreement_of(about),
        reason=reason if decided else None,
        inclusion_probability=probability if decided else None,
    ).knowing(shown_of(said, ranker_epoch=epoch))


def _claim(db: sqlite3.Connection, key: tuple[str, str], now: datetime) -> _Claims:
    row = db.execute(
        "SELECT reviewer, until FROM claims WHERE dataset = ? AND id = ? AND until > ? ORDER BY partition, offset LIMIT 1",
        (*key, now.timestamp()),
    ).fetchone()
    return _Claims() if row is None else _Claims(row[0], datetime.fromtimestamp(row[1], UTC))
