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
from service.log.codec import get_header
from service.review.decisions import CLAIM_EVENT_TYPE, parse_decision_key
from service.review.projection import control_sample as controls
from service.review.projection import outcomes as settle
from service.review.projection import tables as store
from service.review.projection.stale_revisions import StaleRevisions
from service.review.ranker import Ranker

if TYPE_CHECKING:
    import sqlite3
    import threading
    from collections.abc import Callable, Iterable

    from service.log.protocol import Follower, Log, Record
    from service.log.topics import Topics
    from service.review.projection.outcomes import RankerExample
    from service.review.queue.queue import ReviewQueue

POLL_INTERVAL_S = 0.1
ERROR_RETRY_INTERVAL_S = 1.0
POSITION_CONTROLS_INTERVAL_S = 5.0

logger = logging.getLogger(__name__)


class ReviewProjector:
    """One thread runs it; the properties may be read from any."""

    def __init__(self, stream: Log, topics: Topics, queue: ReviewQueue) -> None:
        self._stream = stream
        self._queue = queue
        self._handlers: tuple[tuple[str, Callable[[sqlite3.Connection, Record], None]], ...] = (
            (topics.datasets, self._apply_settings),
            (topics.review, self._apply_assessment),
            (topics.decisions, self._apply_decision),
        )
        self._followers: list[Follower] | None = None
        self._examples: dict[str, dict[str, dict[str, RankerExample]]] = {}  # by dataset, sentence, reviewer
        self._rankers: dict[str, Ranker] = {}
        self._changed_keys: set[tuple[str, str]] = set()
        self._datasets_to_fit: set[str] = set()
        self._datasets_to_position: set[str] = set()
        self._stale_revisions = StaleRevisions(stream, topics.review, queue)
        self._positioned_at = 0.0
        self._caught_up = False
        self.error: str | None = None
        self.unreadable_records = 0

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
                    if self.error is None:
                        logger.warning("the review queue waits for the log: %s", error)
                    self.error = str(error)
                    stop.wait(ERROR_RETRY_INTERVAL_S)
                    continue
                self.error = None
                if not found:
                    stop.wait(POLL_INTERVAL_S)
        finally:
            self.close()

    def step(self) -> int:
        """Takes in what has come; returns how many messages that was."""
        followers = self._ensure_followers()
        total = 0
        for follower, (_, take) in zip(followers, self._handlers, strict=True):
            records = follower.poll()
            if records:
                self._apply_records(records, take)
                total += len(records)
        behind = not all(follower.caught_up for follower in followers)
        if not behind:
            self._update_order(force=not total or not self._caught_up)
        self._caught_up = self._caught_up or not behind
        if not total and not behind:
            total = self._stale_revisions.republish()
        return total

    def close(self) -> None:
        for follower in self._followers or ():
            follower.close()
        self._followers = None

    def _ensure_followers(self) -> list[Follower]:
        if self._followers is not None and self._queue.is_deleted:
            logger.warning("the review queue's file is gone: it is built again")
            self.close()
        if self._followers is None:
            self._caught_up = False
            made: list[Follower] = []
            try:
                for topic, _ in self._handlers:
                    made.append(self._stream.follow(topic))
            except BaseException:
                for follower in made:
                    follower.close()
                raise
            self._queue.clear()
            for kept in (
                self._examples,
                self._rankers,
                self._changed_keys,
                self._datasets_to_fit,
                self._datasets_to_position,
            ):
                kept.clear()
            self._stale_revisions.clear()
            self._followers = made
        return self._followers

    def _apply_records(self, records: Iterable[Record], apply: Callable[[sqlite3.Connection, Record], None]) -> None:
        """All or nothing: a follower does not give records twice, so an error here ends the projector."""
        with self._queue.write_transaction() as db:
            for record in records:
                try:
                    apply(db, record)
                except (ValidationError, OverflowError):  # a number may be too large for the file
                    self.unreadable_records += 1
                    logger.warning("%s %d@%d is not a message we know", record.topic, record.partition, record.offset)
            for key in sorted(self._changed_keys):
                self._update_examples(key, settle.update_outcomes(db, key))
            self._changed_keys.clear()

    # -- one message -----------------------------------------------------------------------------------------------

    def _apply_settings(self, db: sqlite3.Connection, record: Record) -> None:
        if record.value is None:
            name = (record.key or b"").decode(errors="replace")
            db.execute("DELETE FROM settings WHERE dataset = ?", (name,))
            self._datasets_to_fit.add(name)
            return
        settings = DatasetSettings.model_validate_json(record.value)
        if store.put_settings(db, settings):
            self._datasets_to_fit.add(settings.name)

    def _apply_assessment(self, db: sqlite3.Connection, record: Record) -> None:
        if record.value is None:
            dataset, _, identity = (record.key or b"").decode(errors="replace").partition("/")
            self._mark_changed(db, dataset, identity)
            store.drop_item(db, dataset, identity)
            self._stale_revisions.discard((dataset, identity))
            return
        said = Assessment.model_validate_json(record.value)
        if said.id is None or said.reason == "scored":
            return
        key = (said.dataset, said.id)
        if store.put_item(db, said, record, self._rankers.get(said.dataset, Ranker())):
            self._stale_revisions.discard(key)
            controls.position_control(db, *key)
            self._mark_changed(db, *key)
        else:
            self._stale_revisions.note(db, key, record)

    def _mark_changed(self, db: sqlite3.Connection, dataset: str, identity: str) -> None:
        self._changed_keys.add((dataset, identity))
        self._changed_keys.update(store.find_items_of_task(db, dataset, identity))
        if dataset not in self._datasets_to_position and controls.has_controls(db, dataset):
            self._datasets_to_position.add(dataset)

    def _apply_decision(self, db: sqlite3.Connection, record: Record) -> None:
        if record.value is None:
            self._apply_decision_tombstone(db, record)
            return
        if _is_claim(record):
            settle.put_claim(db, Claim.model_validate_json(record.value), record)
            return
        decision = Decision.model_validate_json(record.value)
        settle.put_decision(db, decision, record.value)
        self._changed_keys.add((decision.dataset, decision.id))

    def _apply_decision_tombstone(self, db: sqlite3.Connection, record: Record) -> None:
        place = parse_decision_key(record.key or b"")
        if place is None:
            return
        dataset, identity, reviewer, claim = place
        if claim:
            settle.put_claim(db, Claim(dataset=dataset, id=identity, reviewer=reviewer), record)
            return
        key = (dataset, identity, reviewer)
        db.execute("DELETE FROM decisions WHERE dataset = ? AND id = ? AND reviewer = ?", key)
        self._changed_keys.add((dataset, identity))

    def _update_examples(self, key: tuple[str, str], examples: dict[str, RankerExample]) -> None:
        dataset, identity = key
        taught = self._examples.setdefault(dataset, {})
        if taught.get(identity, {}) == examples:
            return
        self._datasets_to_fit.add(dataset)
        if examples:
            taught[identity] = examples
        else:
            del taught[identity]

    # -- all of them together --------------------------------------------------------------------------------------

    def _update_order(self, *, force: bool) -> None:
        """All controls may have to move: that must not be done for every few that come."""
        due = force or time.monotonic() - self._positioned_at >= POSITION_CONTROLS_INTERVAL_S
        if not self._datasets_to_fit and not (self._datasets_to_position and due):
            return
        with self._queue.write_transaction() as db:
            self._refit_rankers(db)
            if due:
                for dataset in sorted(self._datasets_to_position):
                    controls.position_all_controls(db, dataset)
                self._datasets_to_position.clear()
                self._positioned_at = time.monotonic()

    def _refit_rankers(self, db: sqlite3.Connection) -> None:
        for dataset in sorted(self._datasets_to_fit):
            setting, epoch, _ = store.read_ranker_settings(db, dataset)
            lessons = sorted(
                (lesson.decided_at, identity, reviewer, lesson.words)
                for identity, by_reviewer in self._examples.get(dataset, {}).items()
                for reviewer, lesson in by_reviewer.items()
                if lesson.epoch == epoch
            )
            ranker = Ranker.refit([words for *_, words in lessons]) if setting == "auto" else Ranker()
            before = self._rankers.get(dataset, Ranker())
            self._rankers[dataset] = ranker
            if (ranker.enabled, ranker.offsets) != (before.enabled, before.offsets):
                _update_ranks(db, dataset, ranker)
                self._datasets_to_position.add(dataset)
                self._queue.set_ranker_offsets(dataset, dict(ranker.offsets) if ranker.enabled else None)
        self._datasets_to_fit.clear()


def _is_claim(record: Record) -> bool:
    """By its type; a producer that sets no headers is known by its key."""
    kind = get_header(record.headers, "ce_type")
    if kind is not None:
        return kind == CLAIM_EVENT_TYPE
    place = parse_decision_key(record.key or b"")
    return place is not None and place[3]


def _update_ranks(db: sqlite3.Connection, dataset: str, ranker: Ranker) -> None:
    rows = db.execute(
        "SELECT no, rank, priority, types FROM items WHERE dataset = ? AND reason = 'flagged'", (dataset,)
    ).fetchall()
    ranked = [(ranker.rank(priority, list(json.loads(types).items())), no, rank) for no, rank, priority, types in rows]
    db.executemany("UPDATE items SET rank = ? WHERE no = ?", [(new, no) for new, no, old in ranked if new != old])
