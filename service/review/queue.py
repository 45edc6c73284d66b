"""The queue that people work on: a SQLite file that the projector builds from topics, and everybody reads.

The file may be deleted at any time; the projector begins a new one when it starts. One process has a file for itself.
"""

from __future__ import annotations

import copy
import fcntl
import os
import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from service.contracts import Assessment, Message
from service.errors import InvalidInput, SettingsError, StateError
from service.review import overview as sums
from service.review import store
from service.review.filters import MAX_LIMIT, RARE, Place, QueueFilter, page_query, task_facet
from service.review.items import ReviewItem, agreement_of, doubtful_of, shown_of, suspects_of
from service.review.recall import RecallEstimate, recall_estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.review.overview import Overview, PairPrecision

__all__ = ["Page", "Queue", "QueueFilter"]

MEMORY = ":memory:"

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


class Queue:
    """Reads from any thread, each with a connection of its own. Writing is for the projector alone."""

    def __init__(self, path: Path | str) -> None:
        """`:memory:` is a file as well, a temporary one: connections of several threads can't share memory safely."""
        self._folder = tempfile.TemporaryDirectory(prefix="labelwatch-queue-") if str(path) == MEMORY else None
        self.path = Path(self._folder.name) / "queue.sqlite" if self._folder else Path(path)
        self._lock = _take_lock(self.path)
        self._mutex = threading.Lock()
        self._idle: list[sqlite3.Connection] | None = []  # none: closed
        self._offsets: dict[str, dict[str, float]] = {}
        self._sums: dict[tuple[str | None, ...], object] = {}
        self._sums_of = 0
        self.version = 0  # grows with every change, for those who wait for one
        try:
            self._writer, self._file = self._made()
        except BaseException:
            os.close(self._lock)
            raise

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
            row = db.execute("SELECT no FROM items WHERE dataset = ? AND id = ?", (dataset, id)).fetchone()
            return None if row is None else _item(db, row[0], now or datetime.now(UTC))

    def of_task(self, dataset: str, platform: str, task: str) -> list[str]:
        """The ids of what is not closed and came from a platform's task."""
        query = (
            "SELECT i.id FROM facets f JOIN items i ON i.no = f.item"
            " WHERE f.facet = ? AND i.dataset = ? AND i.state != 'closed' ORDER BY i.id"
        )
        with self.reading() as db:
            return [identity for (identity,) in db.execute(query, (task_facet(platform, task), dataset))]

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
        with self._mutex:
            if self._sums_of != version:
                self._sums, self._sums_of = {}, version
            kept = self._sums.get(name)
        if kept is None:
            with self.reading() as db:
                kept = add_up(db)
            with self._mutex:
                if self._sums_of == version:
                    self._sums[name] = kept
        return cast("T", copy.deepcopy(kept))  # who asked may change it

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One moment of the file."""
        with _told(self.path):
            with self._mutex:
                if self._idle is None:
                    raise StateError("the review queue is closed")
                pool = self._idle
                db = pool.pop() if pool else self._connect(self.path)
            try:
                db.execute("BEGIN")
                try:
                    yield db
                finally:
                    db.execute("COMMIT")
            finally:
                self._give_back(db, pool)

    def _give_back(self, db: sqlite3.Connection, pool: list[sqlite3.Connection]) -> None:
        with self._mutex:
            if pool is self._idle:  # the file has not been closed or made anew meanwhile
                pool.append(db)
                return
        db.close()

    # -- writing: the projector's ----------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        with _told(self.path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")
        self.version += 1

    def clear(self) -> None:
        """Empty, to be built again; in a new file where somebody has deleted it."""
        if self.lost:
            with self._mutex:
                idle, self._idle = self._idle, []
            for db in (*(idle or ()), self._writer):
                db.close()
            self._writer, self._file = self._made()
        with self.writing() as db:
            for table in store.TABLES:
                db.execute(f"DELETE FROM {table}")  # noqa: S608 - a constant
        self._offsets = {}

    @property
    def lost(self) -> bool:
        """Whether somebody has deleted the file."""
        try:
            return self.path.stat().st_ino != self._file
        except OSError:
            return True

    def show_offsets(self, dataset: str, offsets: dict[str, float] | None) -> None:
        """What the overview tells of the ranker."""
        kept = {name: found for name, found in self._offsets.items() if name != dataset}
        self._offsets = kept if offsets is None else {**kept, dataset: offsets}

    def close(self) -> None:
        with self._mutex:
            idle, self._idle = self._idle, None
        if idle is None:
            return
        for db in (*idle, self._writer):
            db.close()
        os.close(self._lock)
        if self._folder is not None:
            self._folder.cleanup()

    def _made(self) -> tuple[sqlite3.Connection, int]:
        """A new file with its tables. What an earlier process left is not trusted: the topics may be others now."""
        with _told(self.path):
            made = self.path.with_name(self.path.name + ".new")  # whoever opens the file finds its tables in it
            for path in (made, self.path):
                for suffix in ("", "-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
            made.touch(0o600)
            with closing(self._connect(made)) as db:
                db.executescript(store.SCHEMA)
            file = made.stat().st_ino
            made.replace(self.path)
            return self._connect(self.path), file

    def _connect(self, path: Path) -> sqlite3.Connection:
        address = f"{path.resolve().as_uri()}?mode=rw"  # never makes an empty one where ours is gone
        db = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")  # it can be built again
        return db


def _held_by_few(db: sqlite3.Connection, facet: str) -> bool:
    query = "SELECT count(*) FROM (SELECT 1 FROM facets WHERE facet = ? LIMIT ?)"
    return int(db.execute(query, (facet, RARE + 1)).fetchone()[0]) <= RARE


def _place(db: sqlite3.Connection, number: int) -> Place:
    return Place(*db.execute("SELECT rank, tie, dataset, id FROM items WHERE no = ?", (number,)).fetchone())


def _item(db: sqlite3.Connection, number: int, now: datetime) -> ReviewItem:
    dataset, identity, revision, reason, state, rank, inclusion, value = db.execute(
        "SELECT i.dataset, i.id, i.revision, i.reason, i.state, i.rank, i.inclusion, b.value"
        " FROM items AS i JOIN bodies AS b ON b.item = i.no WHERE i.no = ?",
        (number,),
    ).fetchone()
    key = (dataset, identity)
    said = Assessment.model_validate_json(value)
    about = [one for one in store.decisions_about(db, key) if one.revision == revision and not one.withdrawn]
    claim = _claim(db, key, now)
    _, epoch, share = store.ranker_settings(db, dataset)
    probability = (inclusion or share or None) if reason == "control" else 1.0
    decided = state == "decided"
    return ReviewItem(
        dataset=dataset,
        id=identity,
        revision=revision,
        state=state,
        closed_by=reason if state == "closed" else None,
        rank=rank,
        priority=said.priority,
        score=said.score,
        tokens=said.tokens,
        labels=said.labels,
        annotator=said.annotator,
        source=said.source,
        annotated_at=said.annotated_at,
        scored_at=said.scored_at,
        doubtful=doubtful_of(said),
        suspects=suspects_of(said),
        words=said.words,
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


def _take_lock(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise SettingsError(f"the review queue can't be kept at {path}: {error.strerror or error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise SettingsError(f"another process keeps its review queue at {path}: give each a file of its own") from None
    return lock


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(f"the review queue at {path} failed: {error}") from error
