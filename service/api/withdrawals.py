"""Whether a decision that a reviewer withdraws was ever made.

The queue shows a decision a moment after it is in the log, and never one of this process that is still on its way. So a
withdrawal is refused only if this process has sent no such decision and the queue has none after it has read all that the
log held when the withdrawal came. A queue that does not get there in time, or that is built again, refuses nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from service.api.http.threads import run_in_thread
from service.api.queue_end import QueueEnd
from service.review.messages import DecisionKey

if TYPE_CHECKING:
    from service.api.backend import Backend
    from service.contracts import Decision

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
        self._end: QueueEnd | None = None  # none: the queue was not asked to read the log yet

    async def check(self, decision: Decision) -> str | None:
        """Why there is nothing to withdraw; None if there is, or may be, and for decisions that are no withdrawal."""
        key = _get_key(decision)
        if (
            not decision.withdrawn
            or key in self._made
            or key in self._backend.recent_decisions
            or await self._is_in_queue(key)
        ):
            return None
        if self._end is None:
            self._end = await QueueEnd.wait_for(self._backend.projector)
        if not self._end.has_been_reached() or await self._is_in_queue(key):
            return None
        if not self._end.has_been_reached():  # the queue was built again: it may have been empty
            return None
        what = "adjudication of" if decision.adjudication else "decision about"
        return (
            f"{decision.reviewer!r} has made no {what} {decision.dataset}/{decision.id}, so there is nothing to withdraw: "
            "correct `id` or `reviewer`, or leave `withdrawn` out to decide"
        )

    def note_accepted(self, decision: Decision) -> None:
        """Call it for a decision that the request sends: it can be withdrawn from then on."""
        if not decision.withdrawn:
            self._made.add(_get_key(decision))

    def note_sent(self) -> None:
        """Call it before the decisions are sent: one whose outcome is unknown may be in the log."""
        for key in self._made:
            self._backend.recent_decisions.add(key)

    async def _is_in_queue(self, key: DecisionKey) -> bool:
        return await run_in_thread(self._backend.queue.has_decision, key)


def _get_key(decision: Decision) -> DecisionKey:
    return DecisionKey(decision.dataset, decision.id, decision.reviewer, is_adjudication=decision.adjudication)
