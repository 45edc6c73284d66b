"""The memory of request bodies, shared by all requests."""

from __future__ import annotations

from typing import Final

from service.api.http.free_memory import FreedMemory

# Of each request, not counted: small requests go on while large ones fill the budget.
UNCOUNTED_BYTES: Final = 1 << 16


class BodyBudget:
    """Bytes that the bodies of all open requests may have in memory. One event loop uses it."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._freed = FreedMemory()

    def can_hold(self, body_bytes: int) -> bool:
        """Whether there is room for a body of this size."""
        return self.used_bytes + _count(body_bytes) <= self.max_bytes

    def grow(self, before: int, after: int) -> bool:
        """Counts a body that has grown; False, and nothing is counted, if there is no room for it."""
        growth = _count(after) - _count(before)
        if self.used_bytes + growth > self.max_bytes:
            return False
        self.used_bytes += growth
        return True

    def release(self, body_bytes: int) -> None:
        """Gives back what a body of this size was counted with."""
        counted = _count(body_bytes)
        self.used_bytes -= counted
        self._freed.add(counted)


def _count(body_bytes: int) -> int:
    return max(0, body_bytes - UNCOUNTED_BYTES)
