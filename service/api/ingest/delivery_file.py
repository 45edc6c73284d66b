"""The deliveries of webhooks in a SQLite file, so that a repeated one is recognised after a restart and by other processes.

The file is a memory and no record of anything: if it is lost or fails, each process still remembers its own deliveries. It
holds digests only.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_EVENT_KEYS = 20_000
MAX_AGE_S: Final = 24 * 3600.0  # an event that was signed more than some minutes ago is not ingested anyway
BUSY_TIMEOUT_S: Final = 1.0
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
        self._has_failed = False

    def contains_any(self, keys: Iterable[str]) -> bool:
        query = "SELECT 1 FROM deliveries WHERE key = ? AND at >= ?"
        since = time.time() - MAX_AGE_S

        def find(db: sqlite3.Connection) -> bool:
            return any(db.execute(query, (_digest(key), since)).fetchone() is not None for key in keys)

        with self._mutex:
            return self._try(find)

    def add(self, keys: Iterable[str]) -> None:
        now = time.time()

        def insert(db: sqlite3.Connection) -> bool:
            with db:
                db.executemany(
                    "INSERT OR REPLACE INTO deliveries (key, at) VALUES (?, ?)", [(_digest(key), now) for key in keys]
                )
                db.execute("DELETE FROM deliveries WHERE at < ?", (now - MAX_AGE_S,))
                db.execute("DELETE FROM deliveries WHERE no <= (SELECT max(no) FROM deliveries) - ?", (MAX_EVENT_KEYS,))
            return True

        with self._mutex:
            self._try(insert)

    def close(self) -> None:
        with self._mutex:
            self._disconnect()

    def _try(self, use: Callable[[sqlite3.Connection], bool]) -> bool:
        """False if the file fails. The next call tries it again."""
        try:
            result = use(self._connect())
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            if not self._has_failed:
                logger.warning(
                    "%s can't be used: a webhook's delivery is recognised again by this process only, until it ends (%s)",
                    self._path,
                    error,
                )
            self._has_failed = True
            return False
        self._has_failed = False
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
