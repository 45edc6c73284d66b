"""Bounded label values: data from clients must not be able to fill the memory of the metrics."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

OTHER = "other"
OTHER_DATASETS = "(other)"  # not a valid dataset name
UNKNOWN_ANNOTATOR = "unknown"
MAX_ANNOTATOR_LABELS = 20

T = TypeVar("T", bound="Hashable")


class LabelLimit(Generic[T]):
    """The first `limit` values that were tested with `in`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._admitted: set[T] = set()
        self._lock = threading.Lock()

    def __contains__(self, value: T) -> bool:
        if value in self._admitted:
            return True
        with self._lock:
            if len(self._admitted) < self._limit:
                self._admitted.add(value)
        return value in self._admitted

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def remaining(self) -> int:
        return self._limit - len(self._admitted)


class AnnotatorLabels:
    """Names of annotators appear in metrics only if the settings allow it.

    `allowed`: names separated by commas; `*` allows the first 20.
    """

    def __init__(self, allowed: str = "") -> None:
        names = frozenset(name.strip() for name in allowed.split(","))
        self._allowed = names - {"", "*"}
        self._first_seen: LabelLimit[str] = LabelLimit(MAX_ANNOTATOR_LABELS if "*" in names else 0)

    @property
    def names_any(self) -> bool:
        return bool(self._allowed) or self._first_seen.limit > 0

    def to_label(self, name: str | None) -> str:
        if not name:
            return UNKNOWN_ANNOTATOR
        return name if name in self._allowed or name in self._first_seen else OTHER
