"""Numbers that are computed once per version of the queue, not at every request or scrape."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from service.review.projection.queue_file import QueueFile

T = TypeVar("T")


class VersionedCache:
    """Safe to use from several threads. Callers must not change what they get: copies took a fifth of a scrape."""

    def __init__(self, file: QueueFile, get_version: Callable[[], int]) -> None:
        """`get_version`: a number that grows after each change of what is cached."""
        self._file = file
        self._get_version = get_version
        self._values: dict[tuple[str | None, ...], object] = {}
        self._version = 0
        self._lock = threading.Lock()

    def clear(self) -> None:
        with self._lock:
            self._values = {}

    def compute(self, key: tuple[str | None, ...], compute: Callable[[sqlite3.Connection], T]) -> T:
        version = self._get_version()  # read before the data: a value may be newer than its version, never older
        with self._lock:
            if self._version != version:
                self._values, self._version = {}, version
            value = self._values.get(key)
        if value is None:
            with self._file.read_transaction() as db:
                value = compute(db)
            with self._lock:
                if self._version == version:
                    self._values[key] = value
        return cast("T", value)
