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
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.contracts import Message

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
    """A control sentence: the probability that it was drawn, and whether it is an error (None: not decided)."""

    probability: float
    wrong: bool | None


def compute_recall(controls: Sequence[ControlOutcome], *, flagged: int, decided: int, wrong: int) -> RecallEstimate:
    decided_controls = [control for control in controls if control.wrong is not None]
    counts = RecallEstimate(
        controls=len(controls),
        controls_decided=len(decided_controls),
        controls_wrong=sum(control.wrong is True for control in decided_controls),
        flagged=flagged,
        flagged_decided=decided,
        flagged_wrong=wrong,
    )
    if not decided_controls or (flagged and not decided):  # the error rate of the flagged sentences is unknown
        return counts
    unflagged = math.fsum(1 / control.probability for control in controls)
    weights = [1 / control.probability for control in decided_controls]
    total = math.fsum(weights)
    error_share = math.fsum(w for w, control in zip(weights, decided_controls, strict=True) if control.wrong) / total
    effective_size = total * total / math.fsum(w * w for w in weights)
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
    controls = [
        ControlOutcome(probability or share, None if verdict is None else verdict == "error")
        for probability, verdict in db.execute(
            "SELECT i.inclusion, o.verdict FROM items AS i LEFT JOIN outcomes AS o"
            " ON o.dataset = i.dataset AND o.id = i.id AND o.revision = i.revision"
            " WHERE i.dataset = ? AND i.reason = 'control' AND (i.state <> 'closed' OR o.verdict IS NOT NULL)"
            " ORDER BY i.id",
            (dataset,),
        )
    ]
    superseded = (
        "FROM outcomes AS o LEFT JOIN items AS i ON i.dataset = o.dataset AND i.id = o.id AND i.revision = o.revision"
        " WHERE o.dataset = ? AND i.no IS NULL"
    )
    controls += [
        ControlOutcome(probability or share, verdict == "error")
        for probability, verdict in db.execute(
            f"SELECT o.inclusion, o.verdict {superseded} AND o.reason = 'control' ORDER BY o.id, o.revision",
            (dataset,),
        )
    ]
    # Decided items are few, and the others are counted already.
    (waiting,) = db.execute(
        "SELECT (SELECT coalesce(sum(n), 0) FROM item_counts WHERE dataset = ?1 AND reason = 'flagged' AND state <> 'closed')"
        " - (SELECT count(*) FROM outcomes AS o CROSS JOIN items AS i"
        " ON i.dataset = o.dataset AND i.id = o.id AND i.revision = o.revision"
        " WHERE o.dataset = ?1 AND i.reason = 'flagged' AND i.state <> 'closed')",
        (dataset,),
    ).fetchone()
    decided, wrong = db.execute(
        "SELECT count(*), coalesce(sum(verdict = 'error'), 0) FROM outcomes WHERE dataset = ? AND reason = 'flagged'",
        (dataset,),
    ).fetchone()
    return compute_recall(controls, flagged=waiting + decided, decided=decided, wrong=wrong)
