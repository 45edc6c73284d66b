"""How the thresholds of each dataset have moved, as far as this process has seen it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MOVED = 1e-3  # a threshold that moves by less is not worth a point
HISTORY = 200


@dataclass(frozen=True, slots=True)
class Moment:
    """Thresholds of a dataset's classes as they were at a time."""

    at: datetime
    thresholds: Mapping[str, float | None]


class History:
    """The last points of each dataset."""

    def __init__(self) -> None:
        self._points: dict[str, deque[Moment]] = {}

    def note(self, dataset: str, thresholds: Mapping[str, float | None], at_ms: int) -> None:
        """One more point, where the thresholds have moved."""
        points = self._points.setdefault(dataset, deque(maxlen=HISTORY))
        if not points or _moved(points[-1].thresholds, thresholds):
            points.append(Moment(datetime.fromtimestamp(at_ms / 1000, UTC), thresholds))

    def of(self, dataset: str) -> tuple[Moment, ...]:
        """Oldest first."""
        return tuple(self._points.get(dataset, ()))


def _moved(before: Mapping[str, float | None], now: Mapping[str, float | None]) -> bool:
    if before.keys() != now.keys():
        return True
    for name, value in now.items():
        old = before[name]
        if (old is None) != (value is None):
            return True
        if old is not None and value is not None and abs(old - value) > MOVED:
            return True
    return False
