"""How the thresholds of each dataset have moved, as far as this process has seen it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MIN_THRESHOLD_CHANGE = 1e-3  # a threshold that moves by less is not worth a point
MAX_POINTS = 200


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """Thresholds of a dataset's classes as they were at a time."""

    at: datetime
    thresholds: Mapping[str, float | None]


class ThresholdHistory:
    """The last points of each dataset."""

    def __init__(self) -> None:
        self._points: dict[str, deque[ThresholdPoint]] = {}

    def record(self, dataset: str, thresholds: Mapping[str, float | None], timestamp_ms: int) -> None:
        """One more point, where the thresholds have moved."""
        points = self._points.setdefault(dataset, deque(maxlen=MAX_POINTS))
        if not points or _has_changed(points[-1].thresholds, thresholds):
            points.append(ThresholdPoint(datetime.fromtimestamp(timestamp_ms / 1000, UTC), thresholds))

    def list_points(self, dataset: str) -> tuple[ThresholdPoint, ...]:
        """Oldest first."""
        return tuple(self._points.get(dataset, ()))


def _has_changed(before: Mapping[str, float | None], now: Mapping[str, float | None]) -> bool:
    if before.keys() != now.keys():
        return True
    for name, value in now.items():
        old = before[name]
        if (old is None) != (value is None):
            return True
        if old is not None and value is not None and abs(old - value) > MIN_THRESHOLD_CHANGE:
            return True
    return False
