"""Times of long-running processes."""

from __future__ import annotations

from typing import Final

MAX_STOP_S: Final = 45  # less than the grace period of a pod, 60 s
# The event loop waits that long for a thread that parses a large body; Python's default is 5 ms.
SWITCH_INTERVAL_S: Final = 0.001
