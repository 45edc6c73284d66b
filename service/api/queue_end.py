"""Waits until the review queue shows what the log holds: it follows the log by a moment."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import Self

    from service.review.projection.projector import ReviewProjector

QUEUE_TIMEOUT_S = 2.0
POLL_INTERVAL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """What the log held at a time, by the monotonic clock."""

    projector: ReviewProjector
    number: int
    requested_at: float

    @classmethod
    async def wait_for(cls, projector: ReviewProjector) -> Self:
        """The present end of the log, which the queue has reached, unless it took too long."""
        requested_at = time.monotonic()
        end = cls(projector, projector.request_present_end(), requested_at)
        while not end.has_been_reached() and time.monotonic() < requested_at + QUEUE_TIMEOUT_S:
            await asyncio.sleep(POLL_INTERVAL_S)
        return end

    def has_been_reached(self) -> bool:
        """Whether the queue shows it. Not any more once the queue is built again."""
        return self.projector.has_reached(self.number)
