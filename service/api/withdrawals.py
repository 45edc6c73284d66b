"""Whether a decision that a reviewer withdraws was ever made.

The queue shows a decision a moment after it is in the log, and never one of this process that is still on its way. So a
withdrawal is refused only if this process has sent no such decision and the queue has none after it has read all that the
log held when the withdrawal came. A queue that does not get there in time, or that is built again, refuses nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from service.api.http.threads import run_in_thread
from service.review.messages import DecisionKey

if TYPE_CHECKING:
    from service.api.backend import Backend
    from service.contracts import Decision
    from service.review.projection.projector import ReviewProjector

QUEUE_TIMEOUT_S = 2.0
POLL_INTERVAL_S: Final = 0.02
MAX_RECENT_DECISIONS: Final = 10_000


class RecentDecisions:
    """The decisions that this process has sent to the log, whether or not the log has confirmed them."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._keys: OrderedDict[DecisionKey, None] = OrderedDict()

    def add(self, key: DecisionKey) -> None:
        with self._mutex:
            self._keys[key] = None
            self._keys.move_to_end(key)
            if len(self._keys) > MAX_RECENT_DECISIONS:
                self._keys.popitem(last=False)

    def __contains__(self, key: DecisionKey) -> bool:
        with self._mutex:
            return key in self._keys


class WithdrawalCheck:
    """Checks the withdrawals of one request. It waits for the queue once."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._made: set[DecisionKey] = set()  # by this request
        self._requested_end: int | None = None  # none: the queue was not asked to read the log yet

    async def check(self, decision: Decision) -> str | None:
        """Why there is nothing to withdraw; None if there is, or may be, and for decisions that are no withdrawal."""
        key = _get_key(decision)
        if not decision.withdrawn:
            self._made.add(key)
            return None
        if key in self._made or key in self._backend.recent_decisions or await self._is_in_queue(key):
            return None
        if self._requested_end is None:
            self._requested_end = await _wait_for_queue(self._backend.projector)
        if not self._has_reached_end() or await self._is_in_queue(key):
            return None
        if not self._has_reached_end():  # the queue was built again: it may have been empty
            return None
        what = "adjudication of" if decision.adjudication else "decision about"
        return (
            f"{decision.reviewer!r} has made no {what} {decision.dataset}/{decision.id}, so there is nothing to withdraw: "
            "correct `id` or `reviewer`, or leave `withdrawn` out to decide"
        )

    def note_sent(self) -> None:
        """Call it before the decisions are sent: one whose outcome is unknown may be in the log."""
        for key in self._made:
            self._backend.recent_decisions.add(key)

    def _has_reached_end(self) -> bool:
        return self._requested_end is not None and self._backend.projector.has_reached(self._requested_end)

    async def _is_in_queue(self, key: DecisionKey) -> bool:
        return await run_in_thread(self._backend.queue.has_decision, key)


def _get_key(decision: Decision) -> DecisionKey:
    return DecisionKey(decision.dataset, decision.id, decision.reviewer, is_adjudication=decision.adjudication)


async def _wait_for_queue(projector: ReviewProjector) -> int:
    """The end of the log, which the queue has reached, unless it took too long."""
    requested = projector.request_present_end()
    deadline = time.monotonic() + QUEUE_TIMEOUT_S
    while not projector.has_reached(requested) and time.monotonic() < deadline:
        await asyncio.sleep(POLL_INTERVAL_S)
    return requested
