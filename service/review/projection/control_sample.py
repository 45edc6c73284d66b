"""Where control sentences stand in the queue, and what is told of them until they are decided.

A control sentence is put beside a flagged one, and until it is decided it is shown with that one's rank, priority and
score, all moved by the same little: its own, far from what is flagged, would give it away, and so would a place that
its numbers do not explain. Which flagged sentence that is says a ring on which all have a place by the hash of their
names: the next one on it. So places are spread evenly over the queue, are the same on every replica, and few change
when a sentence comes or goes.

The probabilities of its words would give it away as well. In a dataset with a control sample they are held back of
every item until it is decided.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

MAX_LOGIT_SHIFT: Final = 0.25  # in logits: beyond the next in a queue of some size, and still about as bad
MAX_COUNT_DENOMINATOR: Final = 1_000  # words of a sentence whose score may be a count or a share of them

SELECT_CONTROLS = (
    "SELECT no, dataset, id, draw, priority, score, rank, shown_priority, shown_score FROM items"
    " WHERE dataset = ? AND reason = 'control'"
)
SELECT_NEXT_FLAGGED = "SELECT rank, priority, score FROM items WHERE dataset = ? AND reason = 'flagged' AND draw >= ? ORDER BY draw LIMIT 1"


def compute_ring_position(dataset: str, id: str) -> float:  # noqa: A002 - as the messages call it
    """A sentence's place on the ring: in [0, 1), by its name.

    Other bytes of the same hash decide whether a sentence is a control at all, so those say nothing here.
    """
    return int.from_bytes(_hash(dataset, id)[8:16]) / 2**64


def shift_down(value: float | None, by: float) -> float | None:
    """A little worse: whatever cut it lay under, it lies under still."""
    if value is None:
        return None
    if 0 < value < 1:
        odds = value / (1 - value) * math.exp(-by)
        return odds / (1 + odds)
    return value - abs(value) * by


def shift_score_down(value: float | None, by: float) -> float | None:
    """What may be a count or a share of words stays as it is: others have the same, and none has one in between."""
    counted = value is not None and float(Fraction(value).limit_denominator(MAX_COUNT_DENOMINATOR)) == value
    return value if counted else shift_down(value, by)


def position_all_controls(db: sqlite3.Connection, dataset: str) -> None:
    """Decided ones too: deciding moves none."""
    _position_controls(db, db.execute(SELECT_CONTROLS, (dataset,)).fetchall())


def position_control(db: sqlite3.Connection, dataset: str, id: str) -> None:  # noqa: A002 - as above
    """At once when it comes, so that it is never seen with its own numbers."""
    _position_controls(db, db.execute(f"{SELECT_CONTROLS} AND id = ?", (dataset, id)).fetchall())


def has_controls(db: sqlite3.Connection, dataset: str) -> bool:
    query = "SELECT 1 FROM items WHERE dataset = ? AND reason = 'control' LIMIT 1"
    return db.execute(query, (dataset,)).fetchone() is not None


def is_blind(db: sqlite3.Connection, dataset: str, share: float) -> bool:
    """Whether the dataset has a control sample, or had one of which some sentences wait."""
    query = "SELECT 1 FROM items WHERE dataset = ? AND reason = 'control' AND state = 'open' LIMIT 1"
    return share > 0 or db.execute(query, (dataset,)).fetchone() is not None


def _position_controls(db: sqlite3.Connection, controls: Iterable[Sequence[Any]]) -> None:
    changes = []
    for no, dataset, identity, draw, *own, rank, shown_priority, shown_score in controls:
        found = (
            db.execute(SELECT_NEXT_FLAGGED, (dataset, draw)).fetchone()
            or db.execute(SELECT_NEXT_FLAGGED, (dataset, 0.0)).fetchone()
        )
        if found is None:  # nothing to hide among
            priority, score = own
            now = (1.0 if priority is None else priority, priority, score)
        else:
            by = MAX_LOGIT_SHIFT * int.from_bytes(_hash(dataset, identity)[16:24]) / 2**64
            now = (shift_down(found[0], by), shift_down(found[1], by), shift_score_down(found[2], by))
        if now != (rank, shown_priority, shown_score):
            changes.append((*now, 1.0 if now[1] is None else now[1], no))
    db.executemany("UPDATE items SET rank = ?, shown_priority = ?, shown_score = ?, tie = ? WHERE no = ?", changes)


def _hash(dataset: str, id: str) -> bytes:  # noqa: A002 - as above
    return hashlib.sha256(f"{dataset}/{id}".encode()).digest()
