"""Decisions and claims in the tables of the review queue.

Anyone may write to the decisions topic, so an item may have any number of decisions. All of them are stored, because a
withdrawn one makes room for another. What is read of them is bounded, and found by an index.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from service.contracts import Decision
from service.review.decisions import to_timestamp
from service.review.projection.summaries import Group
from service.review.settlement import MAX_REVIEWERS_PER_ITEM

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from service.contracts import Claim
    from service.log.protocol import Record
    from service.review.messages import DecisionKey, ErasedDecision
    from service.review.projection.summaries import Summaries
    from service.review.review_state import SentenceKey

MAX_DECIDED_REVISIONS: Final = 20
MAX_COUNTED_REVIEWERS: Final = 1_000


def put_decision(db: sqlite3.Connection, decision: Decision, value: bytes, summaries: Summaries) -> None:
    verdict = "withdrawn" if decision.withdrawn else decision.verdict
    key = (decision.dataset, decision.id, decision.reviewer, decision.adjudication)
    _count_decision(db, key, verdict, summaries)
    db.execute(
        "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            decision.revision,
            verdict,
            to_timestamp(decision.decided_at),
            value,
            decision.blind_answer is not None and not decision.adjudication,
        ),
    )


def drop_decision(db: sqlite3.Connection, erased: ErasedDecision, summaries: Summaries) -> None:
    _count_decision(db, (erased.dataset, erased.id, erased.reviewer, erased.adjudication), None, summaries)
    query = "DELETE FROM decisions WHERE dataset = ? AND id = ? AND reviewer = ? AND adjudication = ?"
    db.execute(query, tuple(erased))


def _count_decision(
    db: sqlite3.Connection, key: tuple[str, str, str, bool], verdict: str | None, summaries: Summaries
) -> None:
    """Counts the decision in place of the one that it replaces. Withdrawn ones are not counted. `verdict` None: it is gone."""
    query = "SELECT verdict FROM decisions WHERE dataset = ? AND id = ? AND reviewer = ? AND adjudication = ?"
    before = db.execute(query, key).fetchone()
    dataset, _, reviewer, _ = key
    for counted, n in ((None if before is None else before[0], -1), (verdict, 1)):
        if counted is not None and counted != "withdrawn":
            summaries.add(Group(dataset, "", counted), [("reviewer", reviewer)], n)


def read_decisions_in_force(db: sqlite3.Connection, key: SentenceKey, revision: int) -> list[Decision]:
    """The decisions about a revision that are not withdrawn, by reviewer: those that `settle` chooses from, no more."""
    query = (
        "SELECT reviewer, adjudication, value FROM decisions WHERE dataset = ? AND id = ? AND revision = ?"
        " AND adjudication = ? AND verdict <> 'withdrawn' ORDER BY "
    )
    rows = [
        row
        for adjudication, order in ((False, "decided_at, reviewer"), (True, "decided_at DESC, reviewer DESC"))
        for row in db.execute(f"{query}{order} LIMIT ?", (*key, revision, adjudication, MAX_REVIEWERS_PER_ITEM))
    ]
    return [Decision.model_validate_json(value) for *_, value in sorted(rows, key=lambda row: row[:2])]


def read_decision_in_force(db: sqlite3.Connection, key: SentenceKey, revision: int, reviewer: str) -> Decision | None:
    """The reviewer's own decision about a revision, without an adjudication."""
    row = db.execute(
        "SELECT value FROM decisions WHERE dataset = ? AND id = ? AND reviewer = ? AND adjudication = 0 AND revision = ?"
        " AND verdict <> 'withdrawn'",
        (*key, reviewer, revision),
    ).fetchone()
    return None if row is None else Decision.model_validate_json(row[0])


def has_decision(db: sqlite3.Connection, key: DecisionKey) -> bool:
    """Whether the reviewer has decided about any revision; also if the decision is withdrawn."""
    query = "SELECT 1 FROM decisions WHERE dataset = ? AND id = ? AND reviewer = ? AND adjudication = ?"
    return db.execute(query, (key.dataset, key.id, key.reviewer, key.is_adjudication)).fetchone() is not None


def list_reviewers(db: sqlite3.Connection, key: SentenceKey, revision: int) -> list[str]:
    """The reviewers with a decision about a revision in force: those whose decisions count."""
    query = (
        "SELECT reviewer FROM decisions WHERE dataset = ? AND id = ? AND revision = ? AND adjudication = 0"
        " AND verdict <> 'withdrawn' ORDER BY decided_at, reviewer LIMIT ?"
    )
    return [reviewer for (reviewer,) in db.execute(query, (*key, revision, MAX_REVIEWERS_PER_ITEM))]


def count_reviewers(db: sqlite3.Connection, key: SentenceKey, revision: int) -> int:
    """How many reviewers have a decision about a revision in force, at most MAX_COUNTED_REVIEWERS."""
    query = (
        "SELECT count(*) FROM (SELECT 1 FROM decisions WHERE dataset = ? AND id = ? AND revision = ? AND adjudication = 0"
        " AND verdict <> 'withdrawn' LIMIT ?)"
    )
    return int(db.execute(query, (*key, revision, MAX_COUNTED_REVIEWERS)).fetchone()[0])


def list_decided_revisions(db: sqlite3.Connection, key: SentenceKey) -> list[int]:
    """The revisions with a decision that is not withdrawn, or whose answer still counts: the newest, if there are many."""
    revisions: list[int] = []
    below: int | None = None
    while len(revisions) < MAX_DECIDED_REVISIONS:
        limit, values = ("", key) if below is None else (" AND revision < ?", (*key, below))
        # One query for each of the two indexes: with OR, SQLite would read all decisions about the item.
        found = [
            db.execute(f"{query}{limit}", values).fetchone()[0]
            for query in (
                "SELECT max(revision) FROM decisions WHERE dataset = ? AND id = ? AND verdict <> 'withdrawn'",
                "SELECT max(revision) FROM decisions WHERE dataset = ? AND id = ? AND disclosed = 1",
            )
        ]
        newest = max((each for each in found if each is not None), default=None)
        if newest is None:
            break
        revisions.append(newest)
        below = newest
    return revisions


def list_decided_keys(db: sqlite3.Connection, dataset: str) -> list[SentenceKey]:
    """The sentences of a dataset with a decision."""
    return [
        (dataset, sentence_id)
        for (sentence_id,) in db.execute("SELECT DISTINCT id FROM decisions WHERE dataset = ?", (dataset,))
    ]


def find_decided_keys(db: sqlite3.Connection, keys: Iterable[SentenceKey]) -> set[SentenceKey]:
    """Those of the keys with a decision, also a withdrawn one, and those that SQLite's JSON can't hold."""
    ids: dict[str, list[str]] = {}
    unknown: set[SentenceKey] = set()
    for dataset, sentence_id in keys:
        if "\0" in sentence_id:
            unknown.add((dataset, sentence_id))
        else:
            ids.setdefault(dataset, []).append(sentence_id)
    query = "SELECT DISTINCT id FROM decisions WHERE dataset = ? AND id IN (SELECT value FROM json_each(?))"
    return unknown | {
        (dataset, sentence_id)
        for dataset, listed in ids.items()
        for (sentence_id,) in db.execute(query, (dataset, json.dumps(listed)))
    }


def put_claim(db: sqlite3.Connection, claim: Claim, record: Record) -> None:
    """A claim that is prolonged before it ends keeps its position ahead of the claims that came in between."""
    key = (claim.dataset, claim.id, claim.reviewer)
    query = "SELECT partition, offset FROM claims WHERE dataset = ? AND id = ? AND reviewer = ? AND until > ?"
    position = db.execute(query, (*key, record.timestamp_ms / 1000)).fetchone() or record.position
    db.execute("DELETE FROM claims WHERE dataset = ? AND id = ? AND reviewer = ?", key)
    if claim.until is not None:
        db.execute("INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?)", (*key, to_timestamp(claim.until), *position))


def read_claim_end(db: sqlite3.Connection, key: SentenceKey, reviewer: str) -> float | None:
    """When the reviewer's last claim on the item ends or has ended; None without one, and after a release."""
    query = "SELECT until FROM claims WHERE dataset = ? AND id = ? AND reviewer = ?"
    row = db.execute(query, (*key, reviewer)).fetchone()
    return None if row is None else float(row[0])
