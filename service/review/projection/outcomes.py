"""What was decided and claimed, put into the queue's file, and what follows from it for an item.

As in `store`, the file ends up the same whatever order the topics were read in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.contracts import Assessment, Decision
from service.labels import get_entity_type
from service.review.items import build_shown, compute_majority_verdict, find_wrong_words
from service.review.projection.tables import CLOSING_REASONS, is_task_deleted, to_timestamp, to_utc_day
from service.review.ranker import extract_reviewed_words

if TYPE_CHECKING:
    import sqlite3

    from service.contracts import Claim, Shown
    from service.log.protocol import Record
    from service.review.ranker import ReviewedWords

    Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RankerExample:
    """What one decision teaches the ranker, when, and in which epoch of it."""

    epoch: int
    decided_at: float
    words: ReviewedWords


def put_decision(db: sqlite3.Connection, decision: Decision, value: bytes) -> None:
    db.execute(
        "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?)",
        (
            decision.dataset,
            decision.id,
            decision.reviewer,
            "withdrawn" if decision.withdrawn else decision.verdict,
            to_utc_day(decision.decided_at),
            value,
        ),
    )


def put_claim(db: sqlite3.Connection, claim: Claim, record: Record) -> None:
    """One that is prolonged before its time is up keeps its place before those that came meanwhile."""
    key = (claim.dataset, claim.id, claim.reviewer)
    query = "SELECT partition, offset FROM claims WHERE dataset = ? AND id = ? AND reviewer = ? AND until > ?"
    place = db.execute(query, (*key, record.timestamp_ms / 1000)).fetchone() or (record.partition, record.offset)
    db.execute("DELETE FROM claims WHERE dataset = ? AND id = ? AND reviewer = ?", key)
    if claim.until is not None:
        db.execute("INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?)", (*key, to_timestamp(claim.until), *place))


def read_decisions(db: sqlite3.Connection, key: Key) -> list[Decision]:
    rows = db.execute("SELECT value FROM decisions WHERE dataset = ? AND id = ? ORDER BY reviewer", key)
    return [Decision.model_validate_json(value) for (value,) in rows]


def update_outcomes(db: sqlite3.Connection, key: Key) -> dict[str, RankerExample]:
    """Brings the item's state and what its decisions say up to date.

    Returns what they teach the ranker, by reviewer.
    """
    decisions = read_decisions(db, key)
    row = db.execute("SELECT no, revision, reason FROM items WHERE dataset = ? AND id = ?", key).fetchone()
    now_shown: tuple[int, Shown] | None = None
    if row is not None:
        number, revision, reason = row
        about = [one for one in decisions if one.revision == revision]
        if reason not in CLOSING_REASONS:
            decided = any(not one.withdrawn for one in about)
            gone = is_task_deleted(db, key[0], number, revision)
            state = "closed" if gone else "decided" if decided else "open"
            db.execute("UPDATE items SET state = ? WHERE no = ?", (state, number))
        if any(one.shown is None for one in about) and reason not in CLOSING_REASONS:
            (value,) = db.execute("SELECT value FROM bodies WHERE item = ?", (number,)).fetchone()
            now_shown = (revision, build_shown(Assessment.model_validate_json(value), ranker_epoch=0))
    taught: dict[str, RankerExample] = {}
    by_revision: dict[int, list[tuple[Decision, Shown]]] = {}
    for one in decisions:
        seen = one.shown
        if seen is None and now_shown is not None and now_shown[0] == one.revision:
            seen = now_shown[1]
        if seen is None:
            continue  # about something that is gone, and it did not keep what it was about
        by_revision.setdefault(one.revision, []).append((one, seen))
        words = extract_reviewed_words(one, seen)
        if words is not None:
            taught[one.reviewer] = RankerExample(seen.ranker_epoch, to_timestamp(one.decided_at), words)
    _put_outcomes(db, key, by_revision)
    return taught


def _put_outcomes(db: sqlite3.Connection, key: Key, by_revision: dict[int, list[tuple[Decision, Shown]]]) -> None:
    db.execute("DELETE FROM outcomes WHERE dataset = ? AND id = ?", key)
    db.execute("DELETE FROM pairs WHERE dataset = ? AND id = ?", key)
    for revision, found in sorted(by_revision.items()):
        verdict = compute_majority_verdict([decision for decision, _ in found])
        if verdict is None:
            continue
        shown = found[0][1]
        day = max(
            (to_utc_day(decision.decided_at) or "" for decision, _ in found if not decision.withdrawn), default=""
        )
        db.execute(
            "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, revision, verdict, shown.reason, shown.inclusion_probability, shown.annotator, day or None),
        )
        if shown.reason == "control":
            continue  # the service did not doubt it
        for given, suggested, wrong in _compute_pair_outcomes(found, verdict):
            db.execute(
                "INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*key, revision, given, suggested, shown.method, wrong),
            )


def _compute_pair_outcomes(found: list[tuple[Decision, Shown]], verdict: str) -> list[tuple[str, str, bool]]:
    """Which doubts were right. Of an error that names no word, the likeliest doubt is; of the others nothing is known."""
    shown = found[0][1]
    if verdict == "ok":
        return [(get_entity_type(doubt.given), get_entity_type(doubt.suggested), False) for doubt in shown.doubtful]
    named: set[int] = set()
    for decision, seen in found:
        if not decision.withdrawn and decision.verdict == "error":
            named |= find_wrong_words(decision, seen) or frozenset()
    doubts = shown.doubtful
    if not named:
        doubts = tuple(sorted(doubts, key=lambda doubt: doubt.p_given)[:1])
        named = {doubt.index for doubt in doubts}
    return [(get_entity_type(doubt.given), get_entity_type(doubt.suggested), doubt.index in named) for doubt in doubts]
