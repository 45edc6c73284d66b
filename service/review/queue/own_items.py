"""The items of one annotator as the annotator may see them.

While an item is open, it looks the same whether it is flagged or a control sentence, as in the queue. What reviewers
answered is shown once the item is decided, without their names. Items of other annotators are never shown.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from service.contracts import Message
from service.review.decisions import compute_majority_verdict, resolve_decisions, select_sure_decisions
from service.review.queue.filters import QueueFilter
from service.review.settlement import settle

if TYPE_CHECKING:
    from service.review.items import ItemState, ReviewItem
    from service.review.queue.queue import ReviewQueue

OwnResult = Literal["doubted", "wrong", "right", "unclear"]


class DoubtedWord(Message):
    """A word whose label is in doubt."""

    index: int
    token: str
    given: str
    suggested: str


class OwnItem(Message):
    """A sentence of the annotator that is or was in review.

    doubted: it is not decided yet. wrong: reviewers found an error. right: they found none. unclear: they are not sure.
    """

    dataset: str
    id: str
    revision: int
    result: OwnResult
    tokens: tuple[str, ...]
    labels: tuple[str, ...] = Field(description="As the annotator gave them")
    doubtful: tuple[DoubtedWord, ...] = ()
    corrected_labels: tuple[str, ...] | None = Field(default=None, description="If reviewers agree on a correction")
    notes: tuple[str, ...] = Field(default=(), description="Notes of the reviewers")
    decided_at: datetime | None = None
    annotated_at: datetime | None = None
    source: str | None = Field(default=None, description="Link to the sentence, if it was sent with one")


class OwnItemPage(Message):
    items: tuple[OwnItem, ...]
    next: str | None = Field(default=None, description="Value of `after` for the next page; null on the last page")


def list_own_items(
    queue: ReviewQueue, dataset: str, annotator: str, *, state: ItemState, limit: int, after: str | None
) -> OwnItemPage:
    """A page of the annotator's items in this state, in the order of the queue."""
    page = queue.get_page(QueueFilter(dataset=dataset, annotator=annotator, state=state), limit=limit, after=after)
    items = tuple(_to_own_item(item) for item in page.items if item.annotator == annotator)
    return OwnItemPage(items=items, next=page.next)


def _to_own_item(item: ReviewItem) -> OwnItem:
    fields: dict[str, Any] = {
        "dataset": item.dataset,
        "id": item.id,
        "revision": item.revision,
        "tokens": item.tokens,
        "labels": item.labels,
        "annotated_at": item.annotated_at,
        "source": item.source,
        "doubtful": tuple(
            DoubtedWord(index=flag.index, token=flag.token, given=flag.given, suggested=flag.suggested)
            for flag in item.doubtful
        ),
    }
    if item.state != "decided":
        return OwnItem(**fields, result="doubted")
    counted = settle(item.decisions, overlap=1).counted
    verdict = compute_majority_verdict(counted)
    times = [decision.decided_at for decision in counted if decision.decided_at is not None]
    return OwnItem(
        **fields,
        result="unclear" if verdict is None else "wrong" if verdict == "error" else "right",
        corrected_labels=resolve_decisions(counted, len(item.tokens)).labels,
        notes=tuple(decision.note for decision in select_sure_decisions(counted) if decision.note),
        decided_at=max(times, default=None),
    )
