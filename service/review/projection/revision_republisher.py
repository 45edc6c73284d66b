"""The one side effect of the projection: it appends to the review topic that it reads.

An older revision may be written after a newer one. Compaction would then keep the older record and drop the newer, and a
queue that is built later would show the older. So a projector that has read such a pair appends the newer record again.

Every API replica runs a projector, so several may append the same record. That is harmless: the records are equal. It
also ends: a projector appends only what it holds, the revision it holds never falls, and an equal revision is not older.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.codec import decode_headers
from service.log.protocol import Output

if TYPE_CHECKING:
    import sqlite3

    from service.log.protocol import Log, Record
    from service.review.projection.queue_file import QueueFile
    from service.review.review_state import SentenceKey

APPEND_TIMEOUT_S = 5.0
RETRY_INTERVAL_S = 60.0

logger = logging.getLogger(__name__)


class RevisionRepublisher:
    """Appends the newest revision of an item again where the topic ends with an older one. For the projector's thread."""

    def __init__(self, log: Log, topic: str, file: QueueFile) -> None:
        self._log = log
        self._topic = topic
        self._file = file
        self._stale_keys: set[SentenceKey] = set()
        self._failed_at: float | None = None

    def note_stale_record(self, db: sqlite3.Connection, key: SentenceKey, record: Record) -> None:
        """Notes a record that is older than the item, if compaction would keep it in place of the item's own."""
        row = db.execute(
            "SELECT b.key, b.partition, b.offset FROM items AS i JOIN bodies AS b ON b.item = i.no"
            " WHERE i.dataset = ? AND i.id = ?",
            key,
        ).fetchone()
        if row is None or record.key is None:
            return
        held_key, partition, offset = row
        if held_key == record.key and partition == record.partition and offset < record.offset:
            self._stale_keys.add(key)

    def discard(self, key: SentenceKey) -> None:
        """The topic now ends with a newer revision of the item, or with a tombstone."""
        self._stale_keys.discard(key)

    def clear(self) -> None:
        self._stale_keys.clear()

    def republish(self) -> int:
        """Appends the noted items to the topic and returns their number.

        To be called when every record is read: only then is the last record of each key known. An append that fails is
        tried again later; the queue itself is right without it.
        """
        waits = self._failed_at is not None and time.monotonic() - self._failed_at < RETRY_INTERVAL_S
        if not self._stale_keys or waits:
            return 0
        with self._file.write_transaction() as db:  # the writer's connection works even if the file was deleted
            outputs = [output for key in sorted(self._stale_keys) for output in self._read_outputs(db, key)]
        try:
            self._log.append(outputs, timeout=APPEND_TIMEOUT_S)
        except StreamError as error:
            logger.warning(
                "%s ends with an older revision of %d sentences, and the newer ones can't be appended again: %s",
                self._topic,
                len(outputs),
                error,
            )
            self._failed_at = time.monotonic()
            return 0
        self._failed_at = None
        self._stale_keys.clear()
        return len(outputs)

    def _read_outputs(self, db: sqlite3.Connection, key: SentenceKey) -> list[Output]:
        """The item's record, with the bytes and headers it had."""
        rows = db.execute(
            "SELECT b.key, b.value, b.headers FROM items AS i JOIN bodies AS b ON b.item = i.no"
            " WHERE i.dataset = ? AND i.id = ?",
            key,
        )
        return [Output(self._topic, record_key, value, decode_headers(headers)) for record_key, value, headers in rows]
