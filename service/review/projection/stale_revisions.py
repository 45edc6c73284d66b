"""Older revisions that were written after a newer one, and would be all that compaction leaves of the two.

Who meets one writes the newer record once more, so that the topic ends with it; that several replicas do so does no
harm. It can't go on for ever: only what is held is written, what is held never gets older, and the same revision is
not older.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.codec import headers_from_json
from service.log.protocol import Output

if TYPE_CHECKING:
    import sqlite3

    from service.log.protocol import Log, Record
    from service.review.queue.queue import ReviewQueue

    Key = tuple[str, str]

APPEND_TIMEOUT_S = 5.0
REPUBLISH_RETRY_INTERVAL_S = 60.0

logger = logging.getLogger(__name__)


class StaleRevisions:
    """The items whose topic ends with an older revision than we hold. The projector's thread uses it."""

    def __init__(self, stream: Log, topic: str, queue: ReviewQueue) -> None:
        self._stream = stream
        self._topic = topic
        self._queue = queue
        self._keys: set[Key] = set()
        self._failed_at: float | None = None

    def note(self, db: sqlite3.Connection, key: Key, record: Record) -> None:
        """A record that is older than the item: it matters where compaction would keep it in place of the item's own."""
        row = db.execute(
            "SELECT b.key, b.partition, b.offset FROM items AS i JOIN bodies AS b ON b.item = i.no"
            " WHERE i.dataset = ? AND i.id = ?",
            key,
        ).fetchone()
        if row is None or record.key is None:
            return
        held, partition, offset = row
        if held == record.key and partition == record.partition and offset < record.offset:
            self._keys.add(key)

    def discard(self, key: Key) -> None:
        """The topic has a newer one of it, or none."""
        self._keys.discard(key)

    def clear(self) -> None:
        self._keys.clear()

    def republish(self) -> int:
        """To be called when nothing is left to read: only then was the last record of a key read last."""
        waits = self._failed_at is not None and time.monotonic() - self._failed_at < REPUBLISH_RETRY_INTERVAL_S
        if not self._keys or waits:
            return 0
        with self._queue.write_transaction() as db:  # which has its connection, even to a file that was deleted
            outputs = [output for key in sorted(self._keys) for output in self._read_current(db, key)]
        try:
            self._stream.append(outputs, timeout=APPEND_TIMEOUT_S)
        except StreamError as error:  # the queue is right without it, and goes on
            logger.warning(
                "%s ends with an older revision of %d sentences, and the newer can't be written again: %s",
                self._topic,
                len(outputs),
                error,
            )
            self._failed_at = time.monotonic()
            return 0
        self._failed_at = None
        self._keys.clear()
        return len(outputs)

    def _read_current(self, db: sqlite3.Connection, key: Key) -> list[Output]:
        """The item's record as it was."""
        rows = db.execute(
            "SELECT b.key, b.value, b.headers FROM items AS i JOIN bodies AS b ON b.item = i.no"
            " WHERE i.dataset = ? AND i.id = ?",
            key,
        )
        return [
            Output(self._topic, message_key, value, headers_from_json(headers)) for message_key, value, headers in rows
        ]
