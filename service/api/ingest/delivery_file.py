"""The deliveries of webhooks in a SQLite file, so that a repeated one is recognised after a restart and by other processes.

The file is a memory and no record of anything: if it is lost or fails, each process still remembers its own deliveries. It
holds digests only.

While it fails, for example because another process does not release its lock, requests do not wait for it one after the
other: it is left alone for some seconds, and what was not written then is written later.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_EVENT_KEYS = 20_000
MAX_AGE_S: Final = 24 * 3600.0  # an event that was signed more than some minutes ago is not ingested anyway
BUSY_TIMEOUT_S: Final = 0.2  # a write takes milliseconds, and the threads that wait are those of all requests
RETRY_INTERVAL_S = 5.0
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS deliveries (no INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS deliveries_by_time ON deliveries (at);
"""


class DeliveryFile:
    """Any thread and any process may use it. It raises nothing: a file that fails remembers nothing, and the log says so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._has_failed = False  # since the last write
        self._failed_at: dict[Literal["read", "write"], float] = {}  # a locked file can be read
        self._unwritten: deque[tuple[bytes, float]] = deque(maxlen=MAX_EVENT_KEYS)

    def contains_any(self, keys: Iterable[str]) -> bool:
        query = "SELECT 1 FROM deliveries WHERE key = ? AND at >= ?"
        since = time.time() - MAX_AGE_S

        def find(db: sqlite3.Connection) -> bool:
            return any(db.execute(query, (_digest(key), since)).fetchone() is not None for key in keys)

        with self._mutex:
            return self._try("read", find)

    def add(self, keys: Iterable[str]) -> None:
        now = time.time()
        with self._mutex:
            self._unwritten.extend((_digest(key), now) for key in keys)
            self._write(now)

    def _write(self, now: float) -> None:
        """Writes what is not written yet. The caller holds the lock."""

        def insert(db: sqlite3.Connection) -> bool:
            with db:
                db.executemany("INSERT OR REPLACE INTO deliveries (key, at) VALUES (?, ?)", self._unwritten)
                db.execute("DELETE FROM deliveries WHERE at < ?", (now - MAX_AGE_S,))
                db.execute("DELETE FROM deliveries WHERE no <= (SELECT max(no) FROM deliveries) - ?", (MAX_EVENT_KEYS,))
            return True

        if self._try("write", insert):
            self._unwritten.clear()
            self._has_failed = False

    def close(self) -> None:
        with self._mutex:
            if self._unwritten:
                self._failed_at.clear()  # the last chance: it does not wait until a failure is some seconds ago
                self._write(time.time())
            self._disconnect()

    def _try(self, purpose: Literal["read", "write"], use: Callable[[sqlite3.Connection], bool]) -> bool:
        """False if the file fails, or has failed a moment ago."""
        failed_at = self._failed_at.get(purpose)
        if failed_at is not None and time.monotonic() - failed_at < RETRY_INTERVAL_S:
            return False
        try:
            result = use(self._connect())
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            self._failed_at[purpose] = time.monotonic()
            if not self._has_failed:
                logger.warning(
                    "%s can't be used: a webhook's delivery is recognised again by this process only, until it ends (%s)",
                    self._path,
                    error,
                )
            self._has_failed = True
            return False
        self._failed_at.pop(purpose, None)
        return result

    def _connect(self) -> sqlite3.Connection:
        if self._db is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(0o600)
            db = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")  # a power failure may cost the last deliveries
                db.executescript(SCHEMA)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
