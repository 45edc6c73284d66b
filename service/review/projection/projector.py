"""Projects the topics of dataset settings, assessments and decisions into the tables of the review queue.

The projector starts with an empty file and reads the topics from their beginning. After each batch it updates the state of
every item that changed. The ranker and the positions of the control sentences depend on all items and decisions together.
They are updated once the topics are read to their end: the ranker at once, the positions when no more records arrive, or
every few seconds while they do. So the order in which a replica reads the partitions has no effect on the result.

The projector has one side effect: see `revision_republisher`.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TYPE_CHECKING

from pydantic import ValidationError

from service.contracts import Claim, Decision, PlatformTask
from service.datasets.settings_records import get_dataset_name, read_settings_record
from service.errors import InvalidInput, StateError, StreamError
from service.review.messages import ErasedAssessment, parse_decision_record, parse_review_record
from service.review.projection.control_sample import position_all_controls, position_control
from service.review.projection.decisions.decision_tables import (
    drop_decision,
    find_decided_keys,
    list_decided_keys,
    put_claim,
    put_decision,
)
from service.review.projection.decisions.outcomes import update_outcomes
from service.review.projection.decisions.ranker_examples import RankerExamples
from service.review.projection.end_requests import EndRequests
from service.review.projection.item_writer import ItemWriter
from service.review.projection.revision_republisher import RevisionRepublisher
from service.review.projection.summaries import Summaries
from service.review.projection.tables import (
    find_items_of_task,
    put_ranker,
    put_settings,
    read_overlap,
    read_ranker_settings,
)
from service.review.ranker import Ranker

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from service.log.protocol import Follower, Log, Record
    from service.log.topics import Topics
    from service.review.projection.decisions.outcomes import RankerExample
    from service.review.projection.queue_file import QueueFile
    from service.review.review_state import SentenceKey

POLL_INTERVAL_S = 0.1
ERROR_RETRY_INTERVAL_S = 1.0
POSITION_CONTROLS_INTERVAL_S = 5.0

logger = logging.getLogger(__name__)


class ReviewProjector:
    """One thread runs it. Any thread may read its properties."""

    def __init__(
        self, log: Log, topics: Topics, file: QueueFile, *, get_disk_error: Callable[[], str] = lambda: ""
    ) -> None:
        """`get_disk_error`: why nothing should be written to the file's disk; empty if it has space."""
        self._get_disk_error = get_disk_error
        self._log = log
        self._file = file
        self._handlers: tuple[tuple[str, Callable[[sqlite3.Connection, Record], None]], ...] = (
            (topics.datasets, self._apply_settings),
            (topics.review, self._apply_assessment),
            (topics.decisions, self._apply_decision),
        )
        self._followers: list[Follower] | None = None
        self._examples: dict[str, RankerExamples] = {}  # by dataset
        self._rankers: dict[str, Ranker] = {}
        self._changed_keys: set[SentenceKey] = set()
        self._datasets_to_fit: set[str] = set()
        self._datasets_to_position: set[str] = set()
        self._datasets_with_controls: set[str] = set()  # now or earlier
        self._summaries = Summaries()
        self._items = ItemWriter(self._summaries)
        self._decisions_changed = False  # in this transaction
        self._republisher = RevisionRepublisher(log, topics.review, file)
        self._positioned_at = 0.0
        self._caught_up = False
        self._end_requests = EndRequests()
        self.error: str | None = None
        self.unreadable_records = 0
        self.first_unreadable: str | None = None  # its position, and why it was skipped

    @property
    def caught_up(self) -> bool:
        """Whether the projector has reached the end that the topics had when it started. Once true, it stays true."""
        return self._caught_up

    def request_present_end(self) -> int:
        """Asks the projector to read all decisions that the log holds now. Any thread may: see `has_reached`."""
        return self._end_requests.add()

    def has_reached(self, requested: int) -> bool:
        """Whether the queue shows every decision that the log held when this end was requested.

        It may never be true: see `end_requests`. If it is true before and after a query, it was true during the query.
        """
        return self._end_requests.has_reached(requested)

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                try:
                    record_count = self.step()
                except (StreamError, StateError) as error:
                    if isinstance(error, StateError):  # the file may be behind the followers: it is built again
                        self.close()
                    if self.error is None:
                        logger.warning("the review queue waits: %s", error)
                    self.error = str(error)
                    stop.wait(ERROR_RETRY_INTERVAL_S)
                    continue
                self.error = None
                if not record_count:
                    stop.wait(POLL_INTERVAL_S)
        finally:
            self.close()

    def step(self) -> int:
        """Applies the records that have arrived and returns their number.

        When there are none, it appends to the review topic the newest revision of each sentence whose last record is an
        older one (see `revision_republisher`), and returns their number.
        """
        if self._caught_up and (reason := self._get_disk_error()):
            raise StreamError(reason)
        followers = self._ensure_followers()
        self._end_requests.renew_end(followers[-1])  # of the decisions
        total = 0
        for follower, (_, apply) in zip(followers, self._handlers, strict=True):
            records = follower.poll()
            if records:
                self._apply_records(records, apply)
                total += len(records)
        at_end = all(follower.caught_up for follower in followers)
        if at_end:
            self._end_requests.note_end_reached()
        behind = not (at_end or self._caught_up)  # an end that was renewed later holds nothing back
        if not behind:
            self._file.ensure_ring_index()
            self._update_order(force=not total or not self._caught_up)
            self._file.ensure_order_indexes()
        self._caught_up = self._caught_up or not behind
        if not total and not behind:
            total = self._republisher.republish()
        return total

    def close(self) -> None:
        for follower in self._followers or ():
            follower.close()
        self._followers = None

    def _ensure_followers(self) -> list[Follower]:
        if self._followers is not None and self._file.is_deleted:
            logger.warning("the file of the review queue was deleted: the queue is built again")
            self.close()
        if self._followers is None:
            self._caught_up = False
            followers: list[Follower] = []
            try:
                for topic, _ in self._handlers:
                    followers.append(self._log.follow(topic))
                # Only now: while the topics can't be followed, the queue shows what it has.
                self._end_requests.give_up_all()
                self._file.clear()
            except BaseException:  # also of the file: it is tried again each second
                for follower in followers:
                    follower.close()
                raise
            for collection in (
                self._examples,
                self._rankers,
                self._changed_keys,
                self._datasets_to_fit,
                self._datasets_to_position,
                self._datasets_with_controls,
                self._items,
                self._summaries,
                self._republisher,
            ):
                collection.clear()
            self._followers = followers
        return self._followers

    def _apply_records(self, records: Iterable[Record], apply: Callable[[sqlite3.Connection, Record], None]) -> None:
        """Applies all records or none. A follower delivers a record once, so an error here stops the projector."""
        self._items.clear()  # of a transaction that was rolled back
        self._summaries.clear()
        with self._file.write_transaction() as db:
            for record in records:
                try:
                    apply(db, record)
                except (ValidationError, InvalidInput, OverflowError):  # SQLite stores integers of up to 64 bits
                    self._skip_record(record, "can't be read as a message of this topic")
                except (sqlite3.Error, OSError, StreamError):
                    raise  # the queue's file or the log is at fault, not the record
                except Exception:  # every API reads the record at each start: it must not end them all
                    logger.exception("an error of labelwatch")
                    self._skip_record(record, "can't be put into the review queue")
            self._items.flush(db)
            # Most records are of new sentences without a decision: one query for all of them instead of one for each.
            self._changed_keys -= self._items.new_keys - find_decided_keys(db, self._items.new_keys)
            for key in sorted(self._changed_keys):
                examples = update_outcomes(db, key, self._summaries)
                self._decisions_changed |= examples is not None
                self._update_examples(key, examples or {})
            self._changed_keys.clear()
            self._summaries.flush(db)
        self._report_changed_decisions()

    def _report_changed_decisions(self) -> None:
        """After the transaction: what is computed from decisions is computed again only when they changed."""
        if self._decisions_changed:
            self._file.decisions_version += 1
            self._decisions_changed = False

    def _skip_record(self, record: Record, problem: str) -> None:
        self.unreadable_records += 1
        position = f"{record.topic} {record.partition}@{record.offset}"
        self.first_unreadable = self.first_unreadable or f"{position} {problem}"
        logger.warning("%s %s: it is skipped", position, problem)

    # -- one message -----------------------------------------------------------------------------------------------

    def _apply_settings(self, db: sqlite3.Connection, record: Record) -> None:
        settings = None if record.value is None else read_settings_record(record)
        dataset = get_dataset_name(record) if settings is None else settings.name
        overlap = read_overlap(db, dataset)
        if settings is None:
            db.execute("DELETE FROM settings WHERE dataset = ?", (dataset,))
        elif not put_settings(db, settings):
            return
        self._datasets_to_fit.add(dataset)
        self._decisions_changed = True  # what they count for may depend on the settings
        if read_overlap(db, dataset) != overlap:
            self._changed_keys.update(list_decided_keys(db, dataset))

    def _apply_assessment(self, db: sqlite3.Connection, record: Record) -> None:
        message = parse_review_record(record)
        if message is None:
            return
        key = (message.dataset, str(message.id))
        if isinstance(message, ErasedAssessment):
            self._mark_changed(db, key)
            self._items.drop(db, *key)
            self._republisher.discard(key)
        elif self._items.put(db, message, record, self._rankers.get(message.dataset, Ranker())):
            self._republisher.discard(key)
            if message.reason == "control":
                self._datasets_with_controls.add(message.dataset)
                stand_ins = None if self._file.has_ring_index else self._items.last_flagged
                position_control(db, *key, self._summaries, stand_ins)
            self._mark_changed(db, key)
        else:
            self._items.flush(db)
            self._republisher.note_stale_record(db, key, record)

    def _mark_changed(self, db: sqlite3.Connection, key: SentenceKey) -> None:
        dataset, _ = key
        self._changed_keys.add(key)
        if PlatformTask.from_deletion_id(key[1]) is not None:
            self._items.flush(db)
            self._changed_keys.update(find_items_of_task(db, *key))
        if dataset in self._datasets_with_controls:
            self._datasets_to_position.add(dataset)

    def _apply_decision(self, db: sqlite3.Connection, record: Record) -> None:
        message = parse_decision_record(record)
        if message is None:
            return
        if isinstance(message, Claim):
            put_claim(db, message, record)
            return
        if isinstance(message, Decision):
            put_decision(db, message, record.value or b"", self._summaries)
        else:
            drop_decision(db, message, self._summaries)
        self._changed_keys.add((message.dataset, message.id))
        self._decisions_changed = True  # also where nothing is left of the last decision about an item

    def _update_examples(self, key: SentenceKey, examples: dict[str, RankerExample]) -> None:
        dataset, sentence_id = key
        if self._examples.setdefault(dataset, RankerExamples()).put(sentence_id, examples):
            self._datasets_to_fit.add(dataset)

    # -- all items together ----------------------------------------------------------------------------------------

    def _update_order(self, *, force: bool) -> None:
        """Refits the rankers and, when due, positions the control sentences: a dataset's controls may all have to move."""
        due = force or time.monotonic() - self._positioned_at >= POSITION_CONTROLS_INTERVAL_S
        if not self._datasets_to_fit and not (self._datasets_to_position and due):
            return
        self._summaries.clear()  # of a transaction that was rolled back
        with self._file.write_transaction() as db:
            self._refit_rankers(db)
            if due:
                for dataset in sorted(self._datasets_to_position):
                    position_all_controls(db, dataset, self._summaries)
                self._datasets_to_position.clear()
                self._positioned_at = time.monotonic()
            self._summaries.flush(db)
        self._report_changed_decisions()

    def _refit_rankers(self, db: sqlite3.Connection) -> None:
        for dataset in sorted(self._datasets_to_fit):
            setting, epoch, _ = read_ranker_settings(db, dataset)
            ranker = self._examples.setdefault(dataset, RankerExamples()).fit(epoch) if setting == "auto" else Ranker()
            before = self._rankers.get(dataset, Ranker())
            self._rankers[dataset] = ranker
            if not ranker.ranks_like(before):
                put_ranker(db, dataset, ranker)
                self._decisions_changed = True
                self._datasets_to_position.add(dataset)
        self._datasets_to_fit.clear()
