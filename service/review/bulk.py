"""Decisions about many items at once: the decision that an action makes of each item, and why an item is left out.

Each item gets a decision of its own, the same as a reviewer would make of it alone. The rules here are about what a
reviewer who has not looked at every single item can mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from service.contracts import Decision, Message, Verdict
from service.errors import ConflictError, InvalidInput
from service.labels import get_entity_type
from service.review.decisions import check_decision, ensure_timezone
from service.review.settlement import check_reviewer
from service.review.suggested_labels import accept_suggestions, describe_type, select_single_flags

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from service.contracts import SuspectKind
    from service.labels import LabelMap
    from service.review.items import ReviewFlag, ReviewItem

BulkAction = Literal["accept", "ok", "unsure"]
LeftOutReason = Literal[
    "missing",
    "changed",
    "closed",
    "decided",
    "claimed",
    "control_sample",
    "other_doubts",
    "no_suggestion",
    "invalid",
]
VERDICTS: Final[dict[BulkAction, Verdict]] = {"accept": "error", "ok": "ok", "unsure": "unsure"}


class LeftOut(Message):
    """An item that gets no decision."""

    dataset: str
    id: str
    reason: LeftOutReason
    detail: str


class Doubt(Message):
    """The words in doubt, their given type and the suggested one; `O` is no entity."""

    start: int
    end: int
    words: tuple[str, ...]
    given: str
    suggested: str


class PlannedDecision(Message):
    decision: Decision
    doubts: tuple[Doubt, ...] = Field(description="What the decision is about")


class BulkPreview(Message):
    """What an action would decide. Nothing is written."""

    action: BulkAction
    total: int = Field(description="Number of items that the selection or filter names, on all pages")
    planned: tuple[PlannedDecision, ...] = Field(
        description="Send these decisions to `POST /v1/decisions`, with `partial`, to apply them"
    )
    left_out: tuple[LeftOut, ...] = ()
    next: str | None = Field(default=None, description="Value of `after` for the next page; null on the last page")


@dataclass(frozen=True, slots=True)
class BulkScope:
    """What a bulk decision is about. `named`: the reviewer selected the items one by one, so they have seen them.

    With labels or a kind, it is about these doubts: an item that has others as well is left out.
    """

    named: bool
    given: str | None = None
    suggested: str | None = None
    kind: SuspectKind | None = None


def plan_decision(
    item: ReviewItem,
    action: BulkAction,
    scope: BulkScope,
    *,
    reviewer: str,
    label_map: LabelMap,
    now: datetime | None = None,
) -> PlannedDecision | LeftOut:
    if item.blind and not scope.named:
        return leave_out(
            item,
            "control_sample",
            "the dataset has a control sample, whose estimate needs each item looked at: select the items themselves",
        )
    if action != "unsure" and (other := _find_other_doubt(item, scope)) is not None:
        return leave_out(item, "other_doubts", f"it has another doubt as well: {other}")
    labels = None
    if action == "accept":
        try:
            labels = accept_suggestions(item, label_map.dataset_scheme)
        except InvalidInput as error:
            return leave_out(item, "invalid", f"its labels can't be corrected together: {error}")
        if labels == item.labels:
            return leave_out(item, "no_suggestion", "nothing is suggested that differs from its labels")
    decision = Decision(
        dataset=item.dataset,
        id=item.id,
        revision=item.revision,
        reviewer=reviewer,
        verdict=VERDICTS[action],
        labels=labels,
    )
    left_out = find_obstacle(item, decision, label_map=label_map, now=now)
    return left_out or PlannedDecision(decision=decision, doubts=tuple(_list_doubts(item)))


def find_obstacle(
    item: ReviewItem, decision: Decision, *, label_map: LabelMap | None, now: datetime | None = None
) -> LeftOut | None:
    """Why a decision that is one of many is not written; None where it is. `item` must be as the reviewer sees it.

    A decision that is in force already is no obstacle to itself, so that a request may be sent twice.
    """
    if decision.revision != item.revision:
        return leave_out(item, "changed", "it was annotated again: look at it again")
    own = next(
        (
            other
            for other in item.decisions
            if (other.reviewer, other.adjudication) == (decision.reviewer, decision.adjudication)
        ),
        None,
    )
    is_in_force = own is not None and _decides_same(own, decision)
    if decision.withdrawn:
        if own is None or is_in_force or not _is_later(own, decision):
            return None
        return leave_out(item, "decided", f"{own.reviewer} has decided otherwise since: {own.verdict}")
    conflict = None if is_in_force else _find_conflict(item, decision.reviewer)
    return conflict or _find_problem(item, decision, label_map=label_map, now=now)


def _find_problem(
    item: ReviewItem, decision: Decision, *, label_map: LabelMap | None, now: datetime | None
) -> LeftOut | None:
    """What the checks of a single decision say."""
    try:
        check_decision(item, decision, now=now, label_map=label_map)
        check_reviewer(item, decision)
    except ConflictError as error:
        return leave_out(item, "decided", str(error))
    except InvalidInput as error:
        return leave_out(item, "invalid", str(error))
    return None


def _decides_same(a: Decision, b: Decision) -> bool:
    return (a.verdict, a.labels, a.words) == (b.verdict, b.labels, b.words)


def _is_later(own: Decision, withdrawn: Decision) -> bool:
    """Whether a decision was made after the one that is withdrawn. The queue may not show the withdrawn one yet."""
    if own.decided_at is None or withdrawn.decided_at is None:
        return False
    return ensure_timezone(own.decided_at) > ensure_timezone(withdrawn.decided_at)


def _find_conflict(item: ReviewItem, reviewer: str) -> LeftOut | None:
    """Whether somebody else is at it, or done with it. Items that all are unsure about may be decided."""
    if item.state == "closed":
        return leave_out(item, "closed", "the sentence was annotated again or deleted")
    sure = next((other for other in item.decisions if other.verdict != "unsure"), None)
    if sure is not None:
        return leave_out(item, "decided", f"{sure.reviewer} has decided: {sure.verdict}")
    if item.claimed_by not in (None, reviewer):
        return leave_out(item, "claimed", f"{item.claimed_by} has it open")
    return None


def leave_out(item: ReviewItem, reason: LeftOutReason, detail: str) -> LeftOut:
    return LeftOut(dataset=item.dataset, id=item.id, reason=reason, detail=detail)


def describe_missing_item(dataset: str, sentence_id: str) -> LeftOut:
    return LeftOut(dataset=dataset, id=sentence_id, reason="missing", detail="it is not in the review queue")


def _list_doubts(item: ReviewItem) -> Iterable[Doubt]:
    for suspect in item.suspects:
        span = suspect.suggested_span or suspect.given_span
        if span is not None:
            yield Doubt(
                start=span.start,
                end=span.end,
                words=item.tokens[span.start : span.end],
                given=describe_type(suspect.given_span),
                suggested=describe_type(suspect.suggested_span),
            )
    for flag in select_single_flags(item):
        yield Doubt(
            start=flag.index,
            end=flag.index + 1,
            words=(flag.token,),
            given=flag.given,
            suggested=flag.suggested,
        )


def _find_other_doubt(item: ReviewItem, scope: BulkScope) -> str | None:
    """A doubt of the item that the scope does not name, in words."""
    for flag in item.doubtful:
        if not _has_types(flag, scope):
            return f"{flag.given} to {flag.suggested}"
    for suspect in item.suspects:
        if scope.kind is not None and suspect.kind != scope.kind:
            return suspect.kind
    return None


def _has_types(flag: ReviewFlag, scope: BulkScope) -> bool:
    """By type: the words of an entity have different prefixes."""
    pairs = ((scope.given, flag.given), (scope.suggested, flag.suggested))
    return all(wanted is None or get_entity_type(wanted) == get_entity_type(label) for wanted, label in pairs)
