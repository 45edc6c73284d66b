"""When decisions settle an item, and which of them count then.

A dataset's `overlap` says how many independent decisions an item needs. With an overlap of 1 the first decision decides
it. From 2 on, the item stays open until so many reviewers have decided. If they agree, it is decided. If they differ, or
one of them is unsure, it is in adjudication until somebody settles it with a decision that is marked as adjudication.

What is not settled counts for nothing: not for the ranker, precision, recall, exports or pushes. The rules depend on the
decisions and the overlap alone, so all replicas agree, and a changed overlap applies to all items at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from service.errors import ConflictError, InvalidInput
from service.review.decisions import compute_agreement, get_time_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.contracts import Decision
    from service.review.items import ReviewItem

MAX_REVIEWERS_PER_ITEM: Final = 20
"""Of more, the first to decide count. REST refuses more (see `service.api.reviewer_limit`), but several processes may accept
too many at the same time, and any producer may write to the decisions topic.
"""
FULL_ITEM: Final = f"{MAX_REVIEWERS_PER_ITEM} reviewers have decided about it, and no more can: choose another item"


class Settlement(NamedTuple):
    """The state that the decisions in force lead to, and those that count: none while the item is not decided."""

    state: Literal["open", "adjudication", "decided"]
    counted: tuple[Decision, ...] = ()


def settle(in_force: Sequence[Decision], overlap: int) -> Settlement:
    """`in_force`: the decisions about one revision, without withdrawn ones."""
    adjudication = _find_last_adjudication(in_force)
    if adjudication is not None:
        return Settlement("decided", (adjudication,))
    independent = select_independent(in_force)
    if len(independent) < overlap:
        return Settlement("open")
    if overlap > 1 and not _are_unanimous(independent):
        return Settlement("adjudication")
    return Settlement("decided", tuple(independent))


def select_independent(in_force: Iterable[Decision]) -> list[Decision]:
    """The reviewers' own decisions, without adjudications, by reviewer. Of too many, the first to decide."""
    in_order = sorted((each for each in in_force if not each.adjudication), key=get_time_order)
    return sorted(in_order[:MAX_REVIEWERS_PER_ITEM], key=lambda each: each.reviewer)


def _find_last_adjudication(in_force: Iterable[Decision]) -> Decision | None:
    adjudications = sorted((each for each in in_force if each.adjudication), key=get_time_order)
    # An unsure adjudication settles nothing. REST refuses it, but any producer may write to the topic.
    sure = [each for each in adjudications[-MAX_REVIEWERS_PER_ITEM:] if each.verdict != "unsure"]
    return sure[-1] if sure else None


def _are_unanimous(independent: Sequence[Decision]) -> bool:
    """Whether all are sure, with the same verdict, the same correction and the same wrong words, where they give any."""
    if any(decision.verdict == "unsure" for decision in independent):
        return False
    words = {frozenset(each.words) for each in independent if each.words and each.labels is None}
    return compute_agreement(independent) != "differ" and len(words) <= 1


def has_decided(item: ReviewItem, reviewer: str) -> bool:
    """Whether the queue shows a decision of the reviewer. `item` must be as this reviewer sees it."""
    return any(not each.adjudication and each.reviewer == reviewer for each in item.decisions)


def check_reviewer(item: ReviewItem, decision: Decision, *, may_adjudicate_own: bool = False) -> None:
    """Raises an error if the reviewer may not decide about the item now. `item` must be as this reviewer sees it.

    `may_adjudicate_own`: whether the reviewer may settle what they have decided themselves.
    """
    if decision.withdrawn:
        return
    has_own = has_decided(item, decision.reviewer)
    if decision.adjudication:
        _check_adjudication(item, decision, is_own=has_own and not may_adjudicate_own)
    elif not has_own:
        if item.overlap > 1 and item.state in ("adjudication", "decided"):
            raise ConflictError(
                f"the item has its {item.overlap} decisions: send `adjudication` true to settle it", field="reviewer"
            )
        if item.decision_count >= MAX_REVIEWERS_PER_ITEM:
            raise ConflictError(FULL_ITEM, field="reviewer")


def _check_adjudication(item: ReviewItem, decision: Decision, *, is_own: bool) -> None:
    if decision.verdict == "unsure":
        raise InvalidInput("an adjudication settles the item: decide error or ok", field="verdict")
    if item.state == "open":
        raise ConflictError(
            f"the item has {item.decision_count} of {item.overlap} decisions: it can be settled when it has all of them",
            field="adjudication",
        )
    if is_own:
        raise ConflictError(
            f"{decision.reviewer!r} has decided about it: another reviewer must settle it", field="adjudication"
        )
