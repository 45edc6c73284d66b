"""The recall of the flags, estimated from the control sample.

Each unflagged sentence was drawn into the control sample with a known probability π, so a decided control sentence stands
for 1/π unflagged ones (Horvitz-Thompson). The estimate is scaled up for control sentences that are still open: their
order in the queue is random as well.

    missed = number of unflagged sentences · share of errors among decided control sentences, each weighted 1/π
    found  = errors among the flagged sentences
    recall = found / (found + missed)

The interval is Wilson's at 95 % for the share of errors among control sentences, with Kish's effective sample size where
the probabilities differ. Open flagged sentences count with the error rate of the decided ones in the estimate, with
Wilson's upper bound of that rate at the upper end, and as no errors at the lower end: the worst are decided first.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.contracts import Message
from service.review.projection.summaries import decode_number
from service.review.queue.figures.summary_counts import is_error, read_counts, sum_by_value

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

Z_95 = 1.959963984540054


class RecallEstimate(Message):
    """`recall` is None until a control and a flagged sentence are decided and an error was found in one of them."""

    recall: float | None = None
    low: float | None = None
    high: float | None = None
    controls: int = 0
    controls_decided: int = 0
    controls_wrong: int = 0
    flagged: int = 0
    flagged_decided: int = 0
    flagged_wrong: int = 0


@dataclass(frozen=True, slots=True)
class ControlOutcome:
    """Control sentences: the probability that each was drawn, and whether it is an error (None: not decided)."""

    probability: float
    wrong: bool | None
    n: int = 1

    @property
    def weight(self) -> float:
        """How many unflagged sentences they stand for."""
        return self.n * (1 / self.probability)

    @property
    def squared_weight(self) -> float:
        """The sum of the squares of their weights."""
        return self.n * (1 / self.probability) ** 2


def compute_recall(controls: Sequence[ControlOutcome], *, flagged: int, decided: int, wrong: int) -> RecallEstimate:
    decided_controls = [control for control in controls if control.wrong is not None and control.n]
    counts = RecallEstimate(
        controls=sum(control.n for control in controls),
        controls_decided=sum(control.n for control in decided_controls),
        controls_wrong=sum(control.n for control in decided_controls if control.wrong),
        flagged=flagged,
        flagged_decided=decided,
        flagged_wrong=wrong,
    )
    if not decided_controls or (flagged and not decided):  # the error rate of the flagged sentences is unknown
        return counts
    unflagged = math.fsum(control.weight for control in controls)
    total = math.fsum(control.weight for control in decided_controls)
    error_share = math.fsum(control.weight for control in decided_controls if control.wrong) / total
    effective_size = total * total / math.fsum(control.squared_weight for control in decided_controls)
    low_share, high_share = compute_wilson_interval(error_share, effective_size)
    precision = wrong / decided if decided else 0.0
    waiting = flagged - decided
    high_precision = compute_wilson_interval(precision, decided)[1] if decided else 0.0
    flagged_errors, max_flagged_errors = wrong + waiting * precision, wrong + waiting * high_precision
    if not flagged_errors and not error_share:
        return counts
    return counts.model_copy(
        update={
            "recall": _compute_ratio(flagged_errors, unflagged * error_share),
            "low": _compute_ratio(wrong, unflagged * high_share),
            "high": _compute_ratio(max_flagged_errors, unflagged * low_share),
        }
    )


def _compute_ratio(flagged_errors: float, missed_errors: float) -> float:
    return flagged_errors / (flagged_errors + missed_errors) if flagged_errors else 0.0


def compute_wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Wilson's score interval at 95 % for a share of n."""
    middle = (share + Z_95 * Z_95 / (2 * n)) / (1 + Z_95 * Z_95 / n)
    half = Z_95 * math.sqrt(share * (1 - share) / n + Z_95 * Z_95 / (4 * n * n)) / (1 + Z_95 * Z_95 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def estimate_recall(db: sqlite3.Connection, dataset: str) -> RecallEstimate:
    """From the items in the queue, and from decided items whose sentence was annotated again since."""
    row = db.execute("SELECT share FROM settings WHERE dataset = ?", (dataset,)).fetchone()
    share = float(row[0]) if row is not None and row[0] else 1.0
    waiting: Counter[str] = Counter()
    for count in read_counts(db, "inclusion", dataset):
        if count.state != "closed":
            waiting[count.value] += count.n
    decided_controls: Counter[tuple[str, bool]] = Counter()
    for dimension in ("decided_control", "closed_control", "superseded_control"):
        for count in read_counts(db, dimension, dataset):
            decided_controls[count.value, is_error(count)] += count.n
            if dimension == "decided_control":
                waiting[count.value] -= count.n
    controls = [ControlOutcome(decode_number(value) or share, None, n) for value, n in waiting.items()]
    controls += [
        ControlOutcome(decode_number(value) or share, wrong, n) for (value, wrong), n in decided_controls.items()
    ]
    items = sum_by_value(
        db, "item", dataset, select=lambda count: count.reason == "flagged" and count.state != "closed"
    ).get("", 0)
    matched = sum_by_value(db, "decided_flagged", dataset).get("", 0)
    outcomes = [count for count in read_counts(db, "outcome", dataset) if count.reason == "flagged"]
    decided = sum(count.n for count in outcomes)
    wrong = sum(count.n for count in outcomes if is_error(count))
    return compute_recall(controls, flagged=items - matched + decided, decided=decided, wrong=wrong)
