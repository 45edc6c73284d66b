"""The answers that count for the agreement of reviewers: those that they gave while the decisions of others were hidden.

A reviewer may change or withdraw a decision once the item has them all and shows them. The decisions topic is compacted, so the
first answer would be gone. Therefore the new decision records it, as `blind_answer`, and the reviewer's later ones repeat it. A
first decision about an item that has shown its decisions records that there was no such answer. So the answers follow from the
last decision of each reviewer alone, in whatever order the topics are read.

With an overlap of 1 a second decision counts although the reviewer saw the first. Later changes of both don't count either.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from service.contracts import BlindAnswer, Decision
from service.review.decisions import get_time_order
from service.review.settlement import MAX_REVIEWERS_PER_ITEM

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from service.contracts import Shown
    from service.review.review_state import SentenceKey


class ItemStatus(NamedTuple):
    """A revision of an item when a reviewer decides about it."""

    key: SentenceKey
    revision: int
    overlap: int
    shows_others: bool  # whether the reviewer can see a decision of another


# -- what a decision records -------------------------------------------------------------------------------------------


def find_blind_answer(db: sqlite3.Connection, item: ItemStatus, reviewer: str) -> BlindAnswer | None:
    """What the next decision of the reviewer must record; None while the decisions of others have been hidden from them."""
    row = db.execute(
        "SELECT value FROM decisions WHERE dataset = ? AND id = ? AND reviewer = ? AND adjudication = 0 AND revision = ?",
        (*item.key, reviewer, item.revision),
    ).fetchone()
    own = None if row is None else Decision.model_validate_json(row[0])
    if own is not None and own.blind_answer is not None:
        return own.blind_answer
    if not item.shows_others and not _read_disclosed(db, item.key, item.revision, limit=1):
        return None
    if own is None:
        return BlindAnswer() if item.overlap > 1 else None
    return BlindAnswer() if own.withdrawn else BlindAnswer(verdict=own.verdict, labels=own.labels)


# -- what the queue stores ---------------------------------------------------------------------------------------------


def put_answers(
    db: sqlite3.Connection,
    key: SentenceKey,
    revision: int,
    in_force: Sequence[Decision],
    *,
    complete: bool,
    find_shown: Callable[[Decision], Shown | None],
) -> None:
    """Stores the labels that each of several independent reviewers finds right; NULL where a decision does not say.

    They stay when the item opens again because a decision was withdrawn: what did not suit must not disappear.
    """
    disclosed = _read_disclosed(db, key, revision, limit=MAX_REVIEWERS_PER_ITEM)
    if not complete and not disclosed:
        return  # until then the decisions are hidden
    answers = [
        (decision, answer)
        for decision in _join_by_reviewer([each for each in in_force if not each.adjudication], disclosed)
        if (answer := _get_answer(decision)).verdict is not None
    ][:MAX_REVIEWERS_PER_ITEM]
    if len(answers) < 2:
        return
    for decision, answer in answers:
        labels = _find_labels(answer, find_shown(decision))
        value = None if labels is None else json.dumps(labels, ensure_ascii=False)
        db.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", (*key, revision, decision.reviewer, value))


def _join_by_reviewer(*groups: Iterable[Decision]) -> list[Decision]:
    """By time: the first to decide count, as in `settlement`."""
    by_reviewer = {decision.reviewer: decision for group in groups for decision in group}
    return sorted(by_reviewer.values(), key=get_time_order)


def _get_answer(decision: Decision) -> BlindAnswer:
    return decision.blind_answer or BlindAnswer(verdict=decision.verdict, labels=decision.labels)


def _find_labels(answer: BlindAnswer, shown: Shown | None) -> tuple[str, ...] | None:
    given = None if shown is None else shown.labels
    labels = answer.labels if answer.verdict == "error" else given if answer.verdict == "ok" else None
    return None if labels is not None and given is not None and len(labels) != len(given) else labels


def _read_disclosed(db: sqlite3.Connection, key: SentenceKey, revision: int, *, limit: int) -> list[Decision]:
    """The decisions, also withdrawn ones, that were made or changed when those of others were shown."""
    query = (
        "SELECT value FROM decisions WHERE dataset = ? AND id = ? AND revision = ? AND disclosed = 1"
        " ORDER BY decided_at, reviewer LIMIT ?"
    )
    return [Decision.model_validate_json(value) for (value,) in db.execute(query, (*key, revision, limit))]
