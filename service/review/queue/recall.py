"""How many wrong sentences the flags find, estimated from the control sample.

Of the unflagged sentences a known share was drawn, so each control that was decided stands for 1/π others
(Horvitz-Thompson), scaled up for the controls nobody has looked at yet: their order in the queue is drawn too.

    missed = number of unflagged sentences · share of wrong ones among the decided controls, each weighted 1/π
    found  = wrong ones among the flagged
    recall = found / (found + missed)

The interval is Wilson's at 95 % for the share of wrong controls, with Kish's effective number of them where the
probabilities differ. Flagged sentences that wait are thought to be wrong as often as the decided ones in the estimate, as
often as Wilson's upper end of that at the upper end, and to be right at the lower end: the worst are decided first.
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
    """`recall` is none while no control or no flagged sentence has been decided, or nothing wrong was found anywhere."""

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
    """A control sentence: how likely it was to be drawn, and whether it was found wrong (none: not decided)."""

    probability: float
    wrong: bool | None


def compute_recall(controls: Sequence[ControlOutcome], *, flagged: int, decided: int, wrong: int) -> RecallEstimate:
    seen = [control for control in controls if control.wrong is not None]
    counts = RecallEstimate(
        controls=len(controls),
        controls_decided=len(seen),
        controls_wrong=sum(control.wrong is True for control in seen),
        flagged=flagged,
        flagged_decided=decided,
        flagged_wrong=wrong,
    )
    if not seen or (flagged and not decided):  # nobody knows yet how many of the flagged are wrong
        return counts
    unflagged = math.fsum(1 / control.probability for control in controls)
    weights = [1 / control.probability for control in seen]
    total = math.fsum(weights)
    share = math.fsum(w for w, control in zip(weights, seen, strict=True) if control.wrong) / total
    effective = total * total / math.fsum(w * w for w in weights)
    low_share, high_share = compute_wilson_interval(share, effective)
    precision = wrong / decided if decided else 0.0
    waiting = flagged - decided
    found, most = (
        wrong + waiting * precision,
        wrong + waiting * (compute_wilson_interval(precision, decided)[1] if decided else 0.0),
    )
    if not found and not share:
        return counts
    return counts.model_copy(
        update={
            "recall": _compute_ratio(found, unflagged * share),
            "low": _compute_ratio(wrong, unflagged * high_share),
            "high": _compute_ratio(most, unflagged * low_share),
        }
    )


def _compute_ratio(found: float, missed: float) -> float:
    return found / (found + missed) if found else 0.0


def compute_wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Wilson's score interval at 95 % of a share among n."""
    middle = (share + Z_95 * Z_95 / (2 * n)) / (1 + Z_95 * Z_95 / n)
    half = Z_95 * math.sqrt(share * (1 - share) / n + Z_95 * Z_95 / (4 * n * n)) / (1 + Z_95 * Z_95 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def estimate_recall(db: sqlite3.Connection, dataset: str) -> RecallEstimate:
    """From the items that are in the queue, and from those decided whose sentence was annotated again since."""
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
    moved = (
        "FROM outcomes AS o LEFT JOIN items AS i ON i.dataset = o.dataset AND i.id = o.id AND i.revision = o.revision"
        " WHERE o.dataset = ? AND i.no IS NULL"
    )
    controls += [
        ControlOutcome(probability or share, verdict == "error")
        for probability, verdict in db.execute(
            f"SELECT o.inclusion, o.verdict {moved} AND o.reason = 'control' ORDER BY o.id, o.revision",
            (dataset,),
        )
    ]
    waiting = int(
        db.execute(
            "SELECT count(*) FROM items AS i LEFT JOIN outcomes AS o"
            " ON o.dataset = i.dataset AND o.id = i.id AND o.revision = i.revision"
            " WHERE i.dataset = ? AND i.reason = 'flagged' AND i.state <> 'closed' AND o.verdict IS NULL",
            (dataset,),
        ).fetchone()[0]
    )
    decided, wrong = db.execute(
        "SELECT count(*), coalesce(sum(verdict = 'error'), 0) FROM outcomes WHERE dataset = ? AND reason = 'flagged'",
        (dataset,),
    ).fetchone()
    return compute_recall(controls, flagged=waiting + decided, decided=decided, wrong=wrong)
