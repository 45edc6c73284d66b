"""Whether a delivery is good enough: the share of its sentences that are wrong, with an interval, and a verdict.

A delivery has strata. All flagged sentences are in review. Of the unflagged ones a control sample is, drawn with a known
probability; those with the same probability are one stratum, and its decided sentences are a random sample of it.

- Flagged sentences that are not decided count as right at the lower end and as wrong at the upper end: the worst are
  decided first, so the decided ones say nothing certain about the others.
- The bounds of a sampled stratum are exact for finite populations (`finite_population`). With several such strata each has
  its share of the error probability (Bonferroni).
- Sentences that no sample could have contained count as right at the lower end and as wrong at the upper end.

So the interval contains the share with a probability of at least 95 %.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from service.scoring.finite_population import compute_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIDENCE = 0.95

DeliveryVerdict = Literal["accept", "reject", "review"]


@dataclass(frozen=True, slots=True)
class SampledStratum:
    """Unflagged sentences that were drawn into the control sample with one probability."""

    size: int
    ok: int = 0
    wrong: int = 0
    unsure: int = 0  # decided without a result: reviewers are unsure, or disagree
    open: int = 0  # drawn and not decided

    @property
    def decided(self) -> int:
        return self.ok + self.wrong + self.unsure


@dataclass(frozen=True, slots=True)
class Delivery:
    """The sentences of a batch by what is known of them."""

    flagged: int = 0
    flagged_ok: int = 0
    flagged_wrong: int = 0
    flagged_open: int = 0  # can still be decided
    sampled: tuple[SampledStratum, ...] = ()
    unsampled: int = 0  # unflagged sentences that arrived while there was no control sample

    @property
    def sentences(self) -> int:
        return self.flagged + sum(stratum.size for stratum in self.sampled) + self.unsampled

    @property
    def open(self) -> int:
        return self.flagged_open + sum(stratum.open for stratum in self.sampled)


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """The share of wrong sentences. `estimate` is None while nothing says how many of a stratum are wrong."""

    low: float
    high: float
    estimate: float | None

    def decide(self, max_error_rate: float) -> DeliveryVerdict:
        if self.high <= max_error_rate:
            return "accept"
        return "reject" if self.low > max_error_rate else "review"


def estimate_error_rate(delivery: Delivery, confidence: float = CONFIDENCE) -> ErrorRate:
    if not delivery.sentences:
        return ErrorRate(0.0, 1.0, None)
    unfinished = [stratum for stratum in delivery.sampled if stratum.decided < stratum.size]
    tail = (1 - confidence) / 2 / max(1, len(unfinished))
    low, high = delivery.flagged_wrong, delivery.flagged - delivery.flagged_ok + delivery.unsampled
    for stratum in delivery.sampled:
        fewest = compute_bounds(stratum.size, stratum.decided, stratum.wrong, tail)[0]
        most = compute_bounds(stratum.size, stratum.decided, stratum.wrong + stratum.unsure, tail)[1]
        low, high = low + fewest, high + most
    estimate = _estimate_errors(delivery)
    return ErrorRate(
        low / delivery.sentences,
        high / delivery.sentences,
        None if estimate is None else min(max(estimate, low), high) / delivery.sentences,
    )


def _estimate_errors(delivery: Delivery) -> float | None:
    """Sentences that are not decided count with the rate of the decided ones of their kind."""
    flagged_rate = _divide(delivery.flagged_wrong, delivery.flagged_wrong + delivery.flagged_ok)
    pooled_rate = _compute_pooled_rate(delivery)
    if (delivery.flagged and flagged_rate is None) or (delivery.flagged < delivery.sentences and pooled_rate is None):
        return None
    undecided = delivery.flagged - delivery.flagged_ok - delivery.flagged_wrong
    errors = delivery.flagged_wrong + undecided * (flagged_rate or 0.0) + delivery.unsampled * (pooled_rate or 0.0)
    for stratum in delivery.sampled:
        rate = _divide(stratum.wrong, stratum.wrong + stratum.ok)
        errors += stratum.size * ((pooled_rate or 0.0) if rate is None else rate)
    return errors


def _compute_pooled_rate(delivery: Delivery) -> float | None:
    """The share of errors among all decided control sentences."""
    wrong, ok = (sum(numbers) for numbers in ((s.wrong for s in delivery.sampled), (s.ok for s in delivery.sampled)))
    return _divide(wrong, wrong + ok)


def _divide(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# -- how many more to review -------------------------------------------------------------------------------------------


def count_items_to_review(delivery: Delivery, max_error_rate: float) -> int | None:
    """About how many more open items, in the order of the queue, lead to a verdict; None: not even all of them.

    Control sentences are spread evenly over the queue, so the next items have flagged and control sentences in the
    proportion of the open ones. Errors go on at the rate of those decided so far.
    """

    def leads_to_verdict(count: int) -> bool:
        expected = _expect_decisions(delivery, count / delivery.open)
        return estimate_error_rate(expected).decide(max_error_rate) != "review"

    return _find_first(delivery.open, leads_to_verdict)


def find_sufficient_share(delivery: Delivery, max_error_rate: float) -> float | None:
    """The control share that would have led to a verdict once everything is decided; None: not even a share of 1."""
    decided = _expect_decisions(replace(delivery, flagged_open=delivery.flagged), 1.0)
    unflagged = delivery.sentences - delivery.flagged
    rate = _compute_pooled_rate(delivery) or 0.0

    def leads_to_verdict(count: int) -> bool:
        errors = round(count * rate)
        stratum = SampledStratum(unflagged, ok=count - errors, wrong=errors)
        expected = replace(decided, sampled=(stratum,), unsampled=0)
        return estimate_error_rate(expected).decide(max_error_rate) != "review"

    count = _find_first(unflagged, leads_to_verdict)
    return None if count is None else min(1.0, math.ceil(1000 * count / unflagged) / 1000)


def _expect_decisions(delivery: Delivery, share: float) -> Delivery:
    """The delivery once this share of its open items is decided, with the errors that their kind had so far."""
    flagged_rate = _divide(delivery.flagged_wrong, delivery.flagged_wrong + delivery.flagged_ok)
    undecided = delivery.flagged - delivery.flagged_ok - delivery.flagged_wrong
    more = min(undecided, round(share * delivery.flagged_open))
    more_wrong = round(more * (0.5 if flagged_rate is None else flagged_rate))
    sampled = []
    for stratum in delivery.sampled:
        drawn = round(share * stratum.open)
        wrong = round(drawn * (_divide(stratum.wrong, stratum.wrong + stratum.ok) or 0.0))
        sampled.append(replace(stratum, ok=stratum.ok + drawn - wrong, wrong=stratum.wrong + wrong))
    return replace(
        delivery,
        flagged_ok=delivery.flagged_ok + more - more_wrong,
        flagged_wrong=delivery.flagged_wrong + more_wrong,
        sampled=tuple(sampled),
    )


def _find_first(last: int, leads_to_verdict: Callable[[int], bool]) -> int | None:
    """The smallest number from 1 to `last` that leads to a verdict; None: not even `last` does.

    It is searched for by halves, because a list of batches asks for each of them. More decisions make the interval
    narrower, but for the rounding of errors.
    """
    if not last or not leads_to_verdict(last):
        return None
    return 1 + bisect_left(range(1, last), x=True, key=leads_to_verdict)
