"""How many reviewers have decided about an item, with those whose decisions the queue does not show yet.

The queue shows a decision a moment after it is in the log. Until then this process counts what it has accepted itself. It
does not know what other processes accept at the same time: together they may exceed the limit, each by as many as it allows.
`settlement` says which decisions count then.

A decision that was accepted may not be there: the log failed to take it, or it was withdrawn through another process. So
before a reviewer is refused because of it, the queue reads all that the log holds. If it is too late, the decision counts.
So does one that the log has not confirmed, as long as it may still take it.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from service.api.http.threads import run_in_thread
from service.api.queue_end import QueueEnd
from service.review.settlement import FULL_ITEM, MAX_REVIEWERS_PER_ITEM, has_decided

if TYPE_CHECKING:
    from collections.abc import Mapping, Set
    from types import TracebackType
    from typing import Self

    from service.api.backend import Backend
    from service.contracts import Decision
    from service.review.items import ReviewItem

MAX_ACCEPTED_DECISIONS = 10_000
MAX_APPEND_S: Final = 60.0  # of both logs, with the default settings
NEVER: Final = -math.inf


class ItemRevision(NamedTuple):
    dataset: str
    id: str
    revision: int


@dataclass(slots=True, eq=False)
class Acceptance:
    """A reviewer's place among those who decide about an item. Several requests may hold it.

    `settled_at`: by the monotonic clock, when the log has taken the last decision of the requests that have ended, or never
    will. It may be in the future. `NEVER`: none of them has sent a decision.
    """

    holders: int = 0
    settled_at: float = NEVER

    @property
    def ended_at(self) -> float:
        """Infinity while a request holds the place."""
        return math.inf if self.holders else self.settled_at


class AcceptedReviewers:
    """The reviewers whose decisions this process has accepted, by item: the last ones. For the event loop only."""

    def __init__(self, max_append_s: float = MAX_APPEND_S) -> None:
        """`max_append_s`: how long the log may still take messages whose append the request has not seen succeed."""
        self.max_append_s = max_append_s
        self._items: OrderedDict[ItemRevision, dict[str, Acceptance]] = OrderedDict()
        self._size = 0

    def get(self, item: ItemRevision) -> Mapping[str, Acceptance]:
        return self._items.get(item, {})

    def add(self, item: ItemRevision, reviewer: str) -> Acceptance:
        """Adds one who is not there yet."""
        acceptance = self._items.setdefault(item, {})[reviewer] = Acceptance()
        self._items.move_to_end(item)
        self._size += 1
        while self._size > MAX_ACCEPTED_DECISIONS:
            _, oldest = self._items.popitem(last=False)
            self._size -= len(oldest)
        return acceptance

    def hold(self, item: ItemRevision, reviewer: str) -> Acceptance:
        acceptance = self.get(item).get(reviewer) or self.add(item, reviewer)
        acceptance.holders += 1
        return acceptance

    def release(self, item: ItemRevision, reviewer: str, acceptance: Acceptance, settled_at: float) -> None:
        """The place stays after the last request has ended if one of them has sent a decision."""
        acceptance.holders -= 1
        acceptance.settled_at = max(acceptance.settled_at, settled_at)
        if acceptance.ended_at == NEVER and self.get(item).get(reviewer) is acceptance:
            self._remove(item, reviewer)

    def withdraw(self, item: ItemRevision, reviewer: str, sent_at: float) -> None:
        """Removes the place of one whose withdrawal the log has taken, unless a decision may come after it in the log.

        The order of requests that were sent at the same time is only known once the queue has read them.
        """
        acceptance = self.get(item).get(reviewer)
        if acceptance is not None and acceptance.ended_at < sent_at:
            self._remove(item, reviewer)

    def _remove(self, item: ItemRevision, reviewer: str) -> None:
        reviewers = self._items[item]
        del reviewers[reviewer]
        self._size -= 1
        if not reviewers:
            del self._items[item]


class ReviewerLimit:
    """Checks the decisions of one request. Its reviewers count at once, also for other requests, unless it fails.

    It waits for the queue once.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._accepted = backend.accepted_reviewers
        self._held: dict[tuple[ItemRevision, str], Acceptance] = {}
        self._withdrawn: set[tuple[ItemRevision, str]] = set()
        self._end: QueueEnd | None = None  # none: the queue was not asked to read the log yet
        self._sent_at = NEVER

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        withdrawn = self._withdrawn if kind is None else set()
        settled_at = NEVER if self._sent_at == NEVER else time.monotonic()
        if kind is not None:
            # A thread goes on with the append of a request that timed out, and a broker may have what it did not confirm.
            settled_at += self._accepted.max_append_s
        for (item, reviewer), acceptance in self._held.items():
            # Of one that the request has withdrawn again, nothing is left.
            is_withdrawn = (item, reviewer) in withdrawn
            self._accepted.release(item, reviewer, acceptance, NEVER if is_withdrawn else settled_at)
        for item, reviewer in withdrawn:
            self._accepted.withdraw(item, reviewer, self._sent_at)

    def note_sent(self) -> None:
        """Call it before the decisions are sent: one whose outcome is unknown may be in the log."""
        self._sent_at = time.monotonic()

    async def check(self, item: ReviewItem, decision: Decision) -> str | None:
        """Why the reviewer can't decide; None if they can. `item` must be as this reviewer sees it."""
        if decision.adjudication:
            return None
        about, reviewer = ItemRevision(decision.dataset, decision.id, decision.revision), decision.reviewer
        if decision.withdrawn:
            self._withdrawn.add((about, reviewer))
            return None
        self._withdrawn.discard((about, reviewer))
        if has_decided(item, reviewer):
            return None
        if not self._has_place(about, reviewer) and not await self._has_room(about, reviewer, item.decision_count):
            return FULL_ITEM
        if (about, reviewer) not in self._held:
            self._held[about, reviewer] = self._accepted.hold(about, reviewer)
        return None

    def _has_place(self, item: ItemRevision, reviewer: str) -> bool:
        """Whether a request holds it now. The decision of one that has ended may not be there, and others may be."""
        acceptance = self._accepted.get(item).get(reviewer)
        return acceptance is not None and acceptance.holders > 0

    async def _has_room(self, item: ItemRevision, reviewer: str, shown_count: int) -> bool:
        """Whether the item has room for the reviewer, who may be one of those accepted."""
        # What is accepted is read after the queue: in between, a decision may only be counted twice, never left out.
        if shown_count + len(self._accepted.get(item)) < MAX_REVIEWERS_PER_ITEM:
            return True
        shown = await self._read_shown(item)
        accepted = self._accepted.get(item)
        if _leaves_room(shown | accepted.keys(), reviewer):
            return True
        now = time.monotonic()
        if all(name in shown or each.ended_at > now for name, each in accepted.items()):
            return False  # the present end of the log would tell nothing about them
        if self._end is None:
            self._end = await QueueEnd.wait_for(self._backend.projector)
        if not self._end.has_been_reached():
            return False
        shown = await self._read_shown(item)
        if not self._end.has_been_reached():  # the queue was built again: it may have been empty
            return False
        later = {name for name, each in self._accepted.get(item).items() if each.ended_at > self._end.requested_at}
        return reviewer in shown or _leaves_room(shown | later, reviewer)

    async def _read_shown(self, item: ItemRevision) -> set[str]:
        key = (item.dataset, item.id)
        return set(await run_in_thread(self._backend.queue.list_reviewers, key, item.revision))


def _leaves_room(names: Set[str], reviewer: str) -> bool:
    return len(names - {reviewer}) < MAX_REVIEWERS_PER_ITEM
