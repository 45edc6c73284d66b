"""Label values that can't grow without end: whoever sends data must not be able to fill the metrics' memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

OTHER = "other"
OTHER_DATASETS = "(other)"  # not a name that a dataset can have
NOBODY = "unknown"
MOST_ANNOTATORS = 20

T = TypeVar("T", bound="Hashable")


class Bounded(Generic[T]):
    """Whether a value is among the first `limit` that were asked for."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[T] = set()
        self._lock = threading.Lock()

    def __contains__(self, value: T) -> bool:
        if value in self._known:
            return True
        with self._lock:
            if len(self._known) < self._limit:
                self._known.add(value)
        return value in self._known

    @property
    def room(self) -> int:
        return self._limit - len(self._known)


class Annotators:
    """Names of people stay out of the metrics unless somebody lets them in.

    `allowed` is a list of names with commas between, or `*` for the first few that come.
    """

    def __init__(self, allowed: str = "") -> None:
        given = frozenset(name.strip() for name in allowed.split(","))
        self._named = given - {"", "*"}
        self._first: Bounded[str] = Bounded(MOST_ANNOTATORS if "*" in given else 0)

    def label(self, name: str | None) -> str:
        if not name:
            return NOBODY
        return name if name in self._named or name in self._first else OTHER
