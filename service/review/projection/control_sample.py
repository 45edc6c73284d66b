"""The position of control sentences in the queue, and the numbers they show until they are decided.

A control sentence must look like a flagged one, so that reviewers judge it without bias. Its own rank, priority and score
would give it away. Until it is decided, it shows those of a flagged neighbour, all shifted by the same small amount.

All sentences have a position on a ring, drawn from their names. The neighbour of a control sentence is the next flagged
sentence on the ring. So control sentences are spread evenly over the queue, every replica agrees on their positions, and
few of them move when a sentence comes or goes.

The probabilities of single words would also give a control sentence away. A dataset with a control sample hides them in
every item until the item is decided.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from service.review.projection.summaries import Group, list_shown_values
from service.statistics.sampling import DrawPurpose, draw_uniform

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.review.projection.summaries import Summaries

MAX_LOGIT_SHIFT: Final = 0.25  # usually past the next item of the queue, and still about as bad
MAX_COUNT_DENOMINATOR: Final = 1_000  # a score that is a fraction of at most so many words may be a count or a share

SELECT_CONTROLS = (
    "SELECT no, state, dataset, id, draw, priority, score, rank, shown_priority, shown_score FROM items"
    " WHERE dataset = ? AND reason = 'control'"
)
SELECT_NEXT_FLAGGED = "SELECT rank, priority, score FROM items WHERE dataset = ? AND reason = 'flagged' AND draw >= ? ORDER BY draw LIMIT 1"


class FlaggedNumbers(NamedTuple):
    """The numbers of a flagged sentence that a control sentence takes over."""

    rank: float
    priority: float | None
    score: float | None


StandIns: TypeAlias = "Mapping[str, FlaggedNumbers]"


def shift_down(value: float | None, by: float) -> float | None:
    """A slightly worse value: it stays below every threshold that it was below."""
    if value is None:
        return None
    if 0 < value < 1:
        odds = value / (1 - value) * math.exp(-by)
        return odds / (1 + odds)
    return value - abs(value) * by


def shift_score_down(value: float | None, by: float) -> float | None:
    """Like `shift_down`, but a count or a share of words stays: a value between two counts would stand out."""
    is_count = value is not None and float(Fraction(value).limit_denominator(MAX_COUNT_DENOMINATOR)) == value
    return value if is_count else shift_down(value, by)


def position_all_controls(db: sqlite3.Connection, dataset: str, summaries: Summaries) -> None:
    """Includes decided ones: a decision moves no item."""
    controls = db.execute(SELECT_CONTROLS, (dataset,)).fetchall()
    _position_controls(db, controls, summaries, partial(find_next_flagged, db, dataset))


def position_control(
    db: sqlite3.Connection, dataset: str, sentence_id: str, summaries: Summaries, stand_ins: StandIns | None = None
) -> None:
    """Positions one control sentence as soon as it arrives, so that its own numbers are never shown.

    `stand_ins`: a flagged sentence of each dataset, while the queue is being built and has no ring. All control sentences are
    positioned when it is complete.
    """
    rows = db.execute(f"{SELECT_CONTROLS} AND id = ?", (dataset, sentence_id)).fetchall()
    if stand_ins is None:
        _position_controls(db, rows, summaries, partial(find_next_flagged, db, dataset))
    else:
        _position_controls(db, rows, summaries, lambda _: stand_ins.get(dataset))


def find_next_flagged(db: sqlite3.Connection, dataset: str, draw: float) -> FlaggedNumbers | None:
    """The next flagged sentence on the ring."""
    row = (
        db.execute(SELECT_NEXT_FLAGGED, (dataset, draw)).fetchone()
        or db.execute(SELECT_NEXT_FLAGGED, (dataset, 0.0)).fetchone()
    )
    return None if row is None else FlaggedNumbers(*row)


def is_blind(db: sqlite3.Connection, dataset: str, share: float) -> bool:
    """Whether the dataset has a control sample, or undecided items of an earlier one."""
    query = (
        "SELECT 1 FROM summaries WHERE dimension = 'item' AND dataset = ? AND value = '' AND reason = 'control'"
        " AND state IN ('open', 'adjudication') AND n > 0 LIMIT 1"
    )
    return share > 0 or db.execute(query, (dataset,)).fetchone() is not None


def _position_controls(
    db: sqlite3.Connection,
    controls: Iterable[Sequence[Any]],
    summaries: Summaries,
    find_neighbour: Callable[[float], FlaggedNumbers | None],
) -> None:
    changes = []
    for no, state, dataset, sentence_id, draw, priority, score, rank, shown_priority, shown_score in controls:
        neighbour = find_neighbour(draw)
        if neighbour is None:  # nothing is flagged: it has nothing to look like
            shown = (1.0 if priority is None else priority, priority, score)
        else:
            by = MAX_LOGIT_SHIFT * draw_uniform(dataset, sentence_id, DrawPurpose.RANK_SHIFT)
            shown = (
                shift_down(neighbour.rank, by),
                shift_down(neighbour.priority, by),
                shift_score_down(neighbour.score, by),
            )
        if shown != (rank, shown_priority, shown_score):
            changes.append((*shown, 1.0 if shown[1] is None else shown[1], no))
            group = Group(dataset, "control", state)
            summaries.add(group, list_shown_values(score=shown_score, priority=shown_priority), -1)
            summaries.add(group, list_shown_values(score=shown[2], priority=shown[1]))
    db.executemany("UPDATE items SET rank = ?, shown_priority = ?, shown_score = ?, tie = ? WHERE no = ?", changes)
