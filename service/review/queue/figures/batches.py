"""The batches of a dataset: what reviewers found in each, its estimated error rate, and whether it is good enough.

Numbers of sentences come from the state of the stream, which counts each delivered sentence once. What reviewers decided comes
from the queue. A sentence counts as it was delivered: a later annotation of it is not part of the batch. A control sentence that is
annotated again or deleted before it is decided leaves the queue. It stays in the sample, decided without a result: annotators
correct wrong sentences rather than right ones, so a sample without it would look too good.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import Field

from service.contracts import DatasetName, Message
from service.scoring.acceptance import (
    Delivery,
    DeliveryVerdict,
    SampledStratum,
    count_items_to_review,
    estimate_error_rate,
    find_sufficient_share,
)
from service.statistics.batches import OTHER_SHARES

if TYPE_CHECKING:
    import sqlite3

    from service.statistics.batches import BatchCounts

NO_SHARE: Final = json.dumps(0.0)


class Outcomes(NamedTuple):
    """Sentences of a batch in review. `unsure`: decided without a result."""

    ok: int = 0
    wrong: int = 0
    unsure: int = 0
    open: int = 0
    closed: int = 0

    @property
    def total(self) -> int:
        return sum(self)


NO_OUTCOMES: Final = Outcomes()


@dataclass(frozen=True, slots=True)
class BatchOutcomes:
    """What reviewers found among the flagged sentences of a batch, and among its control sentences by control share."""

    flagged: Outcomes = NO_OUTCOMES
    controls: tuple[tuple[str, Outcomes], ...] = ()


class BatchReport(Message):
    """A batch with its estimated error rate. The interval contains the true rate with a probability of at least 95 %."""

    dataset: DatasetName
    batch: str
    sentences: int = Field(description="Sentences that were delivered and judged; one that is sent twice counts twice")
    last_arrival_at: datetime | None = None
    flagged: int = Field(description="Flagged sentences: all of them are in review")
    flagged_decided: int
    flagged_wrong: int
    controls: int = Field(description="Sentences that are not flagged and were drawn for review")
    controls_decided: int
    controls_wrong: int
    controls_lost: int = Field(
        default=0,
        description="Of `controls`, those that left the queue before a decision: annotated again, deleted, or sent twice. They "
        "count as right at the lower end and as wrong at the upper end",
    )
    unsampled: int = Field(description="Unflagged sentences that arrived while the dataset had no control sample")
    open: int = Field(description="Items of the batch that are not decided yet")
    error_rate: float | None = Field(default=None, description="Estimated share of wrong sentences")
    low: float = Field(description="Lower end of the 95 % interval")
    high: float = Field(description="Upper end of the 95 % interval")
    max_error_rate: float | None = Field(default=None, description="The highest share of wrong sentences to accept")
    verdict: DeliveryVerdict | None = Field(
        default=None,
        description="`accept`: the whole interval is within `max_error_rate`; `reject`: it is above; `review`: neither. "
        "null without `max_error_rate`, or if the numbers are not complete",
    )
    items_to_review: int | None = Field(
        default=None, description="About how many more items lead to a verdict; null if not even all open ones do"
    )
    advice: str | None = Field(default=None, description="What to do next")


# -- from the queue ----------------------------------------------------------------------------------------------------


def read_batch_outcomes(db: sqlite3.Connection, dataset: str, batch: str) -> BatchOutcomes:
    """From the items in the queue, and from decided items whose sentence was annotated again since."""
    rows = db.execute(
        "SELECT i.reason, i.inclusion, i.state, o.verdict, count(*) FROM items AS i LEFT JOIN outcomes AS o"
        " ON o.dataset = i.dataset AND o.id = i.id AND o.revision = i.revision"
        " WHERE i.dataset = ?1 AND i.batch = ?2 AND i.reason IN ('flagged', 'control') GROUP BY 1, 2, 3, 4"
        " UNION ALL "
        "SELECT o.reason, o.inclusion, 'decided', o.verdict, count(*) FROM outcomes AS o LEFT JOIN items AS i"
        " ON i.dataset = o.dataset AND i.id = o.id AND i.revision = o.revision"
        " WHERE o.dataset = ?1 AND o.batch = ?2 AND o.reason IN ('flagged', 'control') AND i.no IS NULL"
        " GROUP BY 1, 2, 3, 4",
        (dataset, batch),
    )
    counts: dict[str, Counter[str]] = {"flagged": Counter()}
    for reason, inclusion, state, verdict, number in rows:
        kind = "flagged" if reason == "flagged" else json.dumps(float(inclusion or 0.0))
        is_decided = state in ("decided", "adjudication")  # in adjudication: without a result so far
        found = {"error": "wrong", "ok": "ok"}.get(verdict, "unsure") if is_decided else state
        counts.setdefault(kind, Counter())[found] += number
    flagged = Outcomes(**counts.pop("flagged"))
    return BatchOutcomes(flagged, tuple(sorted((share, Outcomes(**found)) for share, found in counts.items())))


# -- the report --------------------------------------------------------------------------------------------------------


def build_delivery(counts: BatchCounts, outcomes: BatchOutcomes) -> Delivery | None:
    """The strata of a batch; None if the queue holds more of it than was counted."""
    controls = dict(outcomes.controls)
    is_counted = all(found.total <= counts.unflagged.get(share, 0) for share, found in controls.items())
    if outcomes.flagged.total > counts.flagged or not is_counted:
        return None
    sampled = []
    for share, size in sorted(counts.unflagged.items()):
        if share not in (NO_SHARE, OTHER_SHARES):
            found = controls.get(share, NO_OUTCOMES)
            unsure = found.unsure + _count_lost(counts, share, found)
            sampled.append(SampledStratum(size, ok=found.ok, wrong=found.wrong, unsure=unsure, open=found.open))
    return Delivery(
        flagged=counts.flagged,
        flagged_ok=outcomes.flagged.ok,
        flagged_wrong=outcomes.flagged.wrong,
        flagged_open=outcomes.flagged.open,
        sampled=tuple(sampled),
        unsampled=counts.unflagged.get(NO_SHARE, 0) + counts.unflagged.get(OTHER_SHARES, 0),
    )


def _count_lost(counts: BatchCounts, share: str, found: Outcomes) -> int:
    """Control sentences that nobody can decide any more. Workers of an earlier release did not count what was drawn."""
    return max(found.closed, counts.drawn.get(share, 0) - (found.total - found.closed))


def build_batch_report(
    dataset: str, batch: str, counts: BatchCounts, outcomes: BatchOutcomes, *, max_error_rate: float | None = None
) -> BatchReport:
    delivery = build_delivery(counts, outcomes)
    rate = estimate_error_rate(delivery or Delivery())
    controls = [found for _, found in outcomes.controls]
    lost = sum(_count_lost(counts, share, found) for share, found in _pair_with_drawn(counts, outcomes))
    report = BatchReport(
        dataset=dataset,
        batch=batch,
        sentences=counts.sentences,
        last_arrival_at=datetime.fromtimestamp(counts.last_arrival_ms / 1000, UTC) if counts.last_arrival_ms else None,
        flagged=counts.flagged,
        flagged_decided=outcomes.flagged.ok + outcomes.flagged.wrong,
        flagged_wrong=outcomes.flagged.wrong,
        controls=sum(found.total - found.closed for found in controls) + lost,
        controls_lost=lost,
        controls_decided=sum(found.ok + found.wrong for found in controls),
        controls_wrong=sum(found.wrong for found in controls),
        unsampled=0 if delivery is None else delivery.unsampled,
        open=outcomes.flagged.open + sum(found.open for found in controls),
        error_rate=rate.estimate,
        low=rate.low,
        high=rate.high,
        max_error_rate=max_error_rate,
    )
    if delivery is None:
        problem = (
            "the queue holds more sentences of this batch than were counted: a worker of an earlier release judged some, or "
            "the batch was idle while 500 others arrived. Send the sentences again as another batch"
        )
        return report.model_copy(update={"advice": problem})
    if max_error_rate is None:
        return report
    verdict = rate.decide(max_error_rate)
    items = count_items_to_review(delivery, max_error_rate) if verdict == "review" else None
    unsettled = outcomes.flagged.unsure + sum(found.unsure for found in controls)
    advice = _advise(delivery, max_error_rate, items, unsettled, dataset=dataset) if verdict == "review" else None
    return report.model_copy(update={"verdict": verdict, "items_to_review": items, "advice": advice})


def _pair_with_drawn(counts: BatchCounts, outcomes: BatchOutcomes) -> list[tuple[str, Outcomes]]:
    """The outcomes of each control share, also of one of which nothing is in the queue any more."""
    controls = dict(outcomes.controls)
    return [(share, controls.get(share, NO_OUTCOMES)) for share in sorted({*controls, *counts.drawn} - {OTHER_SHARES})]


def _advise(delivery: Delivery, max_error_rate: float, items: int | None, unsettled: int, *, dataset: str) -> str:
    if items is not None:
        return (
            f"review about {items:,} more of the {delivery.open:,} open items of the batch, in the order of the queue"
        )
    if unsettled:  # which share is enough depends on their results
        items_of_batch = f"{unsettled:,} item{'s' if unsettled > 1 else ''} of the batch"
        also = f"; review the {delivery.open:,} open ones too" if delivery.open else ""
        return f"first decide the {items_of_batch} without a result, where reviewers are unsure or differ{also}"
    review_first = f"review the {delivery.open:,} open items of the batch first; " if delivery.open else ""
    share = find_sufficient_share(delivery, max_error_rate)
    if share is None:
        return (
            f"{review_first}the error rate is too close to {max_error_rate:g} for a sample to tell: to decide, review every "
            "sentence (control_share=1), or choose another limit"
        )
    return (
        f"{review_first}the control sample is too small for a verdict: run `labelwatch datasets set {dataset} "
        f"control_share={share:g}`, which holds for sentences that arrive from then on, and send the sentences again as "
        "another batch"
    )
