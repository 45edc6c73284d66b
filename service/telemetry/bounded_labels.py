"""Label values that can't grow without end: whoever sends data must not be able to fill the metrics' memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

OTHER = "other"
OTHER_DATASETS = "(other)"  # not a name that a dataset can have
UNKNOWN_ANNOTATOR = "unknown"
MAX_ANNOTATOR_LABELS = 20

T = TypeVar("T", bound="Hashable")


class LabelLimit(Generic[T]):
    """Whether a value is among the first `limit` that were asked for."""

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
    def remaining(self) -> int:
        return self._limit - len(self._admitted)


class AnnotatorLabels:
    """Names of people stay out of the metrics unless somebody lets them in.

    `allowed` is a list of names with commas between, or `*` for the first few that come.
    """

    def __init__(self, allowed: str = "") -> None:
        given = frozenset(name.strip() for name in allowed.split(","))
        self._allowed = given - {"", "*"}
        self._first_seen: LabelLimit[str] = LabelLimit(MAX_ANNOTATOR_LABELS if "*" in given else 0)

    def to_label(self, name: str | None) -> str:
        if not name:
            return UNKNOWN_ANNOTATOR
        return name if name in self._allowed or name in self._first_seen else OTHER
