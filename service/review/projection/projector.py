"""Keeps the queue up with its topics: dataset settings, review, decisions.

Begun anew it reads the topics from their beginning into an empty file. After each batch an item's state follows from
the newest messages of its key; the ranker and the places of the control sentences follow from all items and decisions
together, and are brought up to date when the topics have been read to their end: the ranker at once, the places as soon
as nothing more comes, or now and then while it does. So the order in which replicas
happen to read partitions leaves no trace.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING

from pydantic import ValidationError

from service.contracts import Assessment, Claim, DatasetSettings, Decision
from service.errors import StreamError
from service.log.codec import header
from service.review.decisions import CLAIM, read_key
from service.review.projection import control_sample as controls
from service.review.projection import outcomes as settle
from service.review.projection import tables as store
from service.review.projection.stale_revisions import Overwritten
from service.review.ranker import Ranker

if TYPE_CHECKING:
    import sqlite3
    import threading
    from collections.abc import Callable, Iterable

    from service.log.protocol import Follower, Record, Stream
    from service.log.topics import Topics
    from service.review.projection.outcomes import Lesson
    from service.review.queue.queue import Queue

PAUSE = 0.1
PAUSE_AFTER_ERROR = 1.0
PLACE_EVERY = 5.0

_log = logging.getLogger(__name__)


class Projector:
    """One thread runs it; the properties may be read from any."""

    def __init__(self, stream: Stream, topics: Topics, queue: Queue) -> None:
        self._stream = stream
        self._queue = queue
        self._readers: tuple[tuple[str, Callable[[sqlite3.Connection, Record], None]], ...] = (
            (topics.datasets, self._settings),
            (topics.review, self._assessment),
            (topics.decisions, self._decision),
        )
        self._followers: list[Follower] | None = None
        self._taught: dict[str, dict[str, dict[str, Lesson]]] = {}  # by dataset, sentence, reviewer
        self._rankers: dict[str, Ranker] = {}
        self._touched: set[tuple[str, str]] = set()
        self._to_fit: set[str] = set()
        self._to_place: set[str] = set()
        self._overwritten = Overwritten(stream, topics.review, queue)
        self._placed_at = 0.0
        self._caught_up = False
        self.trouble: str | None = None
        self.unreadable = 0

    @property
    def caught_up(self) -> bool:
        """Whether the end that the topics had when following began has been reached; it stays so."""
        return self._caught_up

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                try:
                    found = self.step()
                except StreamError as error:
                    if self.trouble is None:
                        _log.warning("the review queue waits for the log: %s", error)
                    self.trouble = str(error)
                    stop.wait(PAUSE_AFTER_ERROR)
                    continue
                self.trouble = None
                if not found:
                    stop.wait(PAUSE)
        finally:
            self.close()

    def step(self) -> int:
        """Takes in what has come; returns how many messages that was."""
        followers = self._opened()
        total = 0
        for follower, (_, take) in zip(followers, self._readers, strict=True):
            records = follower.poll()
            if records:
                self._take_in(records, take)
                total += len(records)
        behind = not all(follower.caught_up for follower in followers)
        if not behind:
            self._order(at_once=not total or not self._caught_up)
        self._caught_up = self._caught_up or not behind
        if not total and not behind:
            total = self._overwritten.write_again()
        return total

    def close(self) -> None:
        for follower in self._followers or ():
            follower.close()
        self._followers = None

    def _opened(self) -> list[Follower]:
        if self._followers is not None and self._queue.lost:
            _log.warning("the review queue's file is gone: it is built again")
            self.close()
        if self._followers is None:
            self._caught_up = False
            made: list[Follower] = []
            try:
                for topic, _ in self._readers:
                    made.append(self._stream.follow(topic))
            except BaseException:
                for follower in made:
                    follower.close()
                raise
            self._queue.clear()
            for kept in (self._taught, self._rankers, self._touched, self._to_fit, self._to_place):
                kept.clear()
            self._overwritten.clear()
            self._followers = made
        return self._followers

    def _take_in(self, records: Iterable[Record], take: Callable[[sqlite3.Connection, Record], None]) -> None:
        """All or nothing: a follower does not give records twice, so an error here ends the projector."""
        with self._queue.writing() as db:
            for record in records:
                try:
                    take(db, record)
                except (ValidationError, OverflowError):  # a number may be too large for the file
                    self.unreadable += 1
                    _log.warning("%s %d@%d is not a message we know", record.topic, record.partition, record.offset)
            for key in sorted(self._touched):
                self._learn(key, settle.settle(db, key))
            self._touched.clear()

    # -- one message -----------------------------------------------------------------------------------------------

    def _settings(self, db: sqlite3.Connection, record: Record) -> None:
        if record.value is None:
            name = (record.key or b"").decode(errors="replace")
            db.execute("DELETE FROM settings WHERE dataset = ?", (name,))
            self._to_fit.add(name)
            return
        settings = DatasetSettings.model_validate_json(record.value)
        if store.put_settings(db, settings):
            self._to_fit.add(settings.name)

    def _assessment(self, db: sqlite3.Connection, record: Record) -> None:
        if record.value is None:
            dataset, _, identity = (record.key or b"").decode(errors="replace").partition("/")
            self._changed(db, dataset, identity)
            store.drop_item(db, dataset, identity)
            self._overwritten.replaced((dataset, identity))
            return
        said = Assessment.model_validate_json(record.value)
        if said.id is None or said.reason == "scored":
            return
        key = (said.dataset, said.id)
        if store.put_item(db, said, record, self._rankers.get(said.dataset, Ranker())):
            self._overwritten.replaced(key)
            controls.place_one(db, *key)
            self._changed(db, *key)
        else:
            self._overwritten.came_late(db, key, record)

    def _changed(self, db: sqlite3.Connection, dataset: str, identity: str) -> None:
        self._touched.add((dataset, identity))
        self._touched.update(store.of_gone_task(db, dataset, identity))
        if dataset not in self._to_place and controls.has_controls(db, dataset):
            self._to_place.add(dataset)

    def _decision(self, db: sqlite3.Connection, record: Record) -> None:
        if record.value is None:
            self._erased(db, record)
            return
        if _is_claim(record):
            settle.put_claim(db, Claim.model_validate_json(record.value), record)
            return
        decision = Decision.model_validate_json(record.value)
        settle.put_decision(db, decision, record.value)
        self._touched.add((decision.dataset, decision.id))

    def _erased(self, db: sqlite3.Connection, record: Record) -> None:
        place = read_key(record.key or b"")
        if place is None:
            return
        dataset, identity, reviewer, claim = place
        if claim:
            settle.put_claim(db, Claim(dataset=dataset, id=identity, reviewer=reviewer), record)
            return
        key = (dataset, identity, reviewer)
        db.execute("DELETE FROM decisions WHERE dataset = ? AND id = ? AND reviewer = ?", key)
        self._touched.add((dataset, identity))

    def _learn(self, key: tuple[str, str], lessons: dict[str, Lesson]) -> None:
        dataset, identity = key
        taught = self._taught.setdefault(dataset, {})
        if taught.get(identity, {}) == lessons:
            return
        self._to_fit.add(dataset)
        if lessons:
            taught[identity] = lessons
        else:
            del taught[identity]

    # -- all of them together --------------------------------------------------------------------------------------

    def _order(self, *, at_once: bool) -> None:
        """All controls may have to move: that must not be done for every few that come."""
        due = at_once or time.monotonic() - self._placed_at >= PLACE_EVERY
        if not self._to_fit and not (self._to_place and due):
            return
        with self._queue.writing() as db:
            self._fit(db)
            if due:
                for dataset in sorted(self._to_place):
                    controls.place_all(db, dataset)
                self._to_place.clear()
                self._placed_at = time.monotonic()

    def _fit(self, db: sqlite3.Connection) -> None:
        for dataset in sorted(self._to_fit):
            setting, epoch, _ = store.ranker_settings(db, dataset)
            lessons = sorted(
                (lesson.at, identity, reviewer, lesson.words)
                for identity, by_reviewer in self._taught.get(dataset, {}).items()
                for reviewer, lesson in by_reviewer.items()
                if lesson.epoch == epoch
            )
            ranker = Ranker.refit([words for *_, words in lessons]) if setting == "auto" else Ranker()
            before = self._rankers.get(dataset, Ranker())
            self._rankers[dataset] = ranker
            if (ranker.on, ranker.offsets) != (before.on, before.offsets):
                _rank_all(db, dataset, ranker)
                self._to_place.add(dataset)
                self._queue.show_offsets(dataset, dict(ranker.offsets) if ranker.on else None)
        self._to_fit.clear()


def _is_claim(record: Record) -> bool:
    """By its type; a producer that sets no headers is known by its key."""
    kind = header(record.headers, "ce_type")
    if kind is not None:
        return kind == CLAIM
    place = read_key(record.key or b"")
    return place is not None and place[3]


def _rank_all(db: sqlite3.Connection, dataset: str, ranker: Ranker) -> None:
    rows = db.execute(
        "SELECT no, rank, priority, types FROM items WHERE dataset = ? AND reason = 'flagged'", (dataset,)
    ).fetchall()
    ranked = [(ranker.rank(priority, list(json.loads(types).items())), no, rank) for no, rank, priority, types in rows]
    db.executemany("UPDATE items SET rank = ? WHERE no = ?", [(new, no) for new, no, old in ranked if new != old])
