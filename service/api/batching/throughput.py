"""How fast the model is, estimated from its last runs."""

from __future__ import annotations

import math
import threading
from typing import Final

DECAY: Final = 0.9  # weight of the past at each run
MAX_RETRY_AFTER_S: Final = 120


class ThroughputEstimate:
    """Words per second, as a moving average. Any thread may use it."""

    def __init__(self) -> None:
        self._words = self._seconds = 0.0
        self._lock = threading.Lock()

    def add(self, words: int, seconds: float) -> None:
        with self._lock:
            self._words = DECAY * self._words + words
            self._seconds = DECAY * self._seconds + seconds

    @property
    def seconds_per_word(self) -> float | None:
        """None before the first run."""
        return self._seconds / self._words if self._words else None

    def estimate_seconds(self, words: int) -> float:
        """The time that the model needs for so many words; 0 before its first run."""
        return words * self._seconds / self._words if self._words else 0.0

    def estimate_retry_after(self, words: int) -> int:
        """Whole seconds until so many words are done, as a `Retry-After` header says them."""
        expected = self.estimate_seconds(words) if self._words else 1.0
        return min(max(1, math.ceil(expected)), MAX_RETRY_AFTER_S)
