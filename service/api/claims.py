"""Claims on items: a reviewer has an item open, and others get other items.

The first claim in the log counts. A replica learns which it was when its queue has read the claim, so a request appends its
claim and waits for the queue. If another reviewer was first, it withdraws the claim.

    next ─ free items ─▶ claim the first ─ lost ─▶ claim another one ─ … ─▶ the item

The items that a process is about to claim are skipped by its other requests, so that reviewers who ask at the same time do
not compete for one item. Across processes they do, and a request that loses chooses at random from ever more items.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from service.api.http.threads import run_in_thread
from service.contracts import Claim
from service.errors import ConflictError, StreamError
from service.review.messages import build_claim_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.api.access.reviewers import Reviewer
    from service.api.backend import Backend
    from service.review.items import ReviewItem
    from service.review.queue.filters import QueueFilter
    from service.review.review_state import SentenceKey

CLAIM_TIMEOUT_S = 2.0
CLAIM_POLL_INTERVAL_S = 0.02
MAX_CANDIDATES: Final = 64
MAX_ATTEMPTS: Final = 8
TIME_TOLERANCE_S: Final = 1e-3


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """`holder` has the item open until `until`. Not `confirmed`: the queue has not read the claim in time, so it may turn
    out that another reviewer was first.
    """

    holder: str
    until: datetime | None
    confirmed: bool = True


class PendingClaims:
    """The items that requests of this process are about to claim. For the event loop only."""

    def __init__(self) -> None:
        self._keys: set[SentenceKey] = set()

    def __contains__(self, key: SentenceKey) -> bool:
        return key in self._keys

    @contextmanager
    def add(self, key: SentenceKey) -> Iterator[None]:
        self._keys.add(key)
        try:
            yield
        finally:
            self._keys.discard(key)


async def claim_item(
    backend: Backend,
    key: SentenceKey,
    reviewer: Reviewer,
    minutes: float,
    *,
    request_id: str,
    left: SentenceKey | None = None,
) -> ClaimOutcome:
    """Claims an item and releases the item `left`. If another reviewer was first, the claim is withdrawn again."""
    until = datetime.now(UTC) + timedelta(minutes=minutes)
    claims = [_build_claim(key, reviewer, until)]
    if left is not None and left != key:
        claims.append(_build_claim(left, reviewer))
    await append_claims(backend, claims, request_id)
    outcome = await _wait_for_claim(backend, key, reviewer.name, until)
    if outcome.holder != reviewer.name:
        with suppress(StreamError):  # a claim that can't be withdrawn ends by itself
            await append_claims(backend, [claims[0].model_copy(update={"until": None})], request_id)
    return outcome


async def claim_next(
    backend: Backend,
    queue_filter: QueueFilter,
    reviewer: Reviewer,
    minutes: float,
    *,
    request_id: str,
    after: SentenceKey | None = None,
) -> tuple[ReviewItem, ClaimOutcome] | None:
    """Claims the first free item of the filter, after the item `after` if there is one; None if nothing is free."""
    lost: set[SentenceKey] = set()
    for attempt in range(MAX_ATTEMPTS):
        found = await run_in_thread(backend.queue.list_free_keys, queue_filter, after=after, limit=MAX_CANDIDATES)
        free = [key for key in found if key not in lost and key not in backend.pending_claims]
        if not free:
            return None
        key = random.choice(free[: 2**attempt])
        with backend.pending_claims.add(key):
            outcome = await claim_item(backend, key, reviewer, minutes, request_id=request_id, left=after)
        if outcome.holder == reviewer.name:
            item = await run_in_thread(backend.queue.get_item, *key, viewer=reviewer.name)
            if item is not None and _is_still_free(item, queue_filter.state, reviewer.name):
                return item, outcome
            await append_claims(backend, [_build_claim(key, reviewer)], request_id)
        lost.add(key)
    raise ConflictError(f"other reviewers claimed {MAX_ATTEMPTS} items in a row first: ask again", field="reviewer")


def _is_still_free(item: ReviewItem, state: str, reviewer: str) -> bool:
    """Whether the queue, which has read the claim by now, has not read of a decision since that takes the item away."""
    has_decided = any(not each.adjudication and each.reviewer == reviewer for each in item.decisions)
    return item.state == state and not has_decided


def _build_claim(key: SentenceKey, reviewer: Reviewer, until: datetime | None = None) -> Claim:
    return Claim(dataset=key[0], id=key[1], reviewer=reviewer.name, until=until, recorded_by=reviewer.recorded_by)


async def append_claims(backend: Backend, claims: Sequence[Claim], request_id: str) -> None:
    await backend.appender.append([build_claim_message(backend.topics, claim, request_id) for claim in claims])


async def _wait_for_claim(backend: Backend, key: SentenceKey, reviewer: str, until: datetime) -> ClaimOutcome:
    """Who holds the item once the queue has read the claim. It reads claims in the order of the log."""
    read_version: int | None = None
    deadline = time.monotonic() + CLAIM_TIMEOUT_S
    while time.monotonic() < deadline:
        version = backend.queue.version
        if version != read_version:
            read_version = version
            own_until, holder = await run_in_thread(backend.queue.find_holder, key, reviewer)
            if own_until is not None and own_until >= until.timestamp() - TIME_TOLERANCE_S:
                # Without a holder, the claim has ended already: it was short.
                return ClaimOutcome(holder.reviewer or reviewer, holder.until or until)
        await asyncio.sleep(CLAIM_POLL_INTERVAL_S)
    return ClaimOutcome(reviewer, until, confirmed=False)
