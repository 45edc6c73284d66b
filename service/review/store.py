"""The queue's file: its tables, and how an assessment, a decision and a claim are put into them.

Every function here leaves the file in a state that depends only on the newest message of each key, whatever order
the topics and their partitions were read in: that is what makes replicas and rebuilt files agree.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.contracts import Assessment, Decision
from service.labels import entity_type
from service.review.filters import facets_of, task_facet
from service.review.items import doubtful_of, shown_of, suspects_of, verdict_of, weighted_scores, wrong_words
from service.review.ranker import reviewed

if TYPE_CHECKING:
    import sqlite3

    from service.contracts import Claim, DatasetSettings, Shown
    from service.review.ranker import Ranker, Reviewed
    from service.stream.base import Record

    Key = tuple[str, str]

SCHEMA = """
CREATE TABLE items (
    no INTEGER PRIMARY KEY, dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, reason TEXT NOT NULL,
    state TEXT NOT NULL, rank REAL NOT NULL, tie REAL NOT NULL, priority REAL, score REAL, draw REAL, inclusion REAL,
    annotator TEXT, day TEXT, types TEXT NOT NULL, UNIQUE (dataset, id)
);
CREATE INDEX items_in_order ON items (state, rank, tie, dataset, id);
CREATE INDEX items_of_dataset ON items (dataset, state, rank, tie, id);
CREATE INDEX items_by_reason ON items (dataset, reason, rank);
CREATE TABLE bodies (
    item INTEGER PRIMARY KEY, value BLOB NOT NULL, key BLOB, headers TEXT NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL
);
CREATE TABLE facets (facet TEXT NOT NULL, item INTEGER NOT NULL, PRIMARY KEY (facet, item)) WITHOUT ROWID;
CREATE INDEX facets_of_item ON facets (item);
CREATE TABLE decisions (
    dataset TEXT NOT NULL, id TEXT NOT NULL, reviewer TEXT NOT NULL, verdict TEXT NOT NULL, day TEXT,
    value BLOB NOT NULL, PRIMARY KEY (dataset, id, reviewer)
);
CREATE TABLE claims (
    dataset TEXT NOT NULL, id TEXT NOT NULL, reviewer TEXT NOT NULL, until REAL NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL, PRIMARY KEY (dataset, id, reviewer)
) WITHOUT ROWID;
CREATE INDEX claims_in_order ON claims (dataset, id, partition, offset, until);
CREATE TABLE outcomes (
    dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL,
    inclusion REAL, annotator TEXT, day TEXT, PRIMARY KEY (dataset, id, revision)
) WITHOUT ROWID;
CREATE TABLE pairs (
    dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, given TEXT NOT NULL, suggested TEXT NOT NULL,
    method TEXT NOT NULL, wrong INTEGER NOT NULL
);
CREATE INDEX pairs_of_item ON pairs (dataset, id);
CREATE TABLE settings (
    dataset TEXT PRIMARY KEY, version INTEGER NOT NULL, ranker TEXT NOT NULL, epoch INTEGER NOT NULL, share REAL NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one decision teaches the ranker, when, and in which epoch of it."""

    epoch: int
    at: float
    words: Reviewed


TABLES = ("items", "bodies", "facets", "decisions", "claims", "outcomes", "pairs", "settings")
CLOSING = ("update", "deleted")
FIRST_SECOND = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LAST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def day_of(moment: datetime | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(_seconds(moment), UTC).date().isoformat()


def _seconds(moment: datetime | None) -> float:
    """Since 1970; kept to what can be told as a time again, whatever its zone."""
    if moment is None:
        return 0.0
    seconds = (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()
    return min(max(seconds, FIRST_SECOND), LAST_SECOND)


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else number


# -- settings ----------------------------------------------------------------------------------------------------------


def put_settings(db: sqlite3.Connection, settings: DatasetSettings) -> bool:
    """Whether they are in force now: the newest version is."""
    known = db.execute("SELECT version FROM settings WHERE dataset = ?", (settings.name,)).fetchone()
    if known is not None and settings.version < known[0]:
        return False
    db.execute(
        "INSERT OR REPLACE INTO settings VALUES (?, ?, ?, ?, ?)",
        (settings.name, settings.version, settings.ranker, settings.ranker_epoch, settings.control_share),
    )
    return True


def ranker_settings(db: sqlite3.Connection, dataset: str) -> tuple[str, int, float]:
    """(ranker, epoch, control share)"""
    row = db.execute("SELECT ranker, epoch, share FROM settings WHERE dataset = ?", (dataset,)).fetchone()
    return ("auto", 0, 0.0) if row is None else (str(row[0]), int(row[1]), float(row[2]))


# -- items -------------------------------------------------------------------------------------------------------------


def put_item(db: sqlite3.Connection, assessment: Assessment, record: Record, ranker: Ranker) -> bool:
    """Whether it is the item now: an older revision that comes late is not."""
    key = (assessment.dataset, str(assessment.id))
    known = db.execute("SELECT revision FROM items WHERE dataset = ? AND id = ?", key).fetchone()
    if known is not None and assessment.revision < known[0]:
        return False
    drop_item(db, *key)
    lows = lowest_by_type(assessment) if assessment.reason == "flagged" else {}
    priority = _finite(assessment.priority)
    number = db.execute(
        "INSERT INTO items (dataset, id, revision, reason, state, rank, tie, priority, score, draw, inclusion,"
        " annotator, day, types) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            assessment.revision,
            assessment.reason,
            "closed" if assessment.reason in CLOSING else "open",
            ranker.rank(priority, list(lows.items())),
            1.0 if priority is None else priority,
            priority,
            _finite(assessment.score),
            drawn(*key) if assessment.reason == "control" else None,
            assessment.inclusion_probability,
            assessment.annotator,
            day_of(assessment.scored_at),
            json.dumps(lows),
        ),
    ).lastrowid
    headers = json.dumps([(name, text.decode("latin-1")) for name, text in record.headers])
    db.execute(
        "INSERT INTO bodies VALUES (?, ?, ?, ?, ?, ?)",
        (number, record.value, record.key, headers, record.partition, record.offset),
    )
    found = facets_of(doubtful_of(assessment), suspects_of(assessment), assessment.annotator)
    platform, task = ((assessment.meta or {}).get(name) for name in ("format", "task"))
    if isinstance(platform, str) and isinstance(task, str):
        found.add(task_facet(platform, task))
    db.executemany("INSERT INTO facets VALUES (?, ?)", [(facet, number) for facet in sorted(found)])
    return True


def has_controls(db: sqlite3.Connection, dataset: str) -> bool:
    query = "SELECT 1 FROM items WHERE dataset = ? AND reason = 'control' LIMIT 1"
    return db.execute(query, (dataset,)).fetchone() is not None


def drop_item(db: sqlite3.Connection, dataset: str, id: str) -> None:  # noqa: A002 - as the messages call it
    row = db.execute("SELECT no FROM items WHERE dataset = ? AND id = ?", (dataset, id)).fetchone()
    if row is None:
        return
    for statement in (
        "DELETE FROM items WHERE no = ?",
        "DELETE FROM bodies WHERE item = ?",
        "DELETE FROM facets WHERE item = ?",
    ):
        db.execute(statement, row)


def lowest_by_type(assessment: Assessment) -> dict[str, float]:
    """All that the ranker needs of a sentence: of each type only its lowest word can set the rank."""
    lows: dict[str, float] = {}
    for label, found in zip(assessment.labels, weighted_scores(assessment), strict=False):
        score = _finite(found)
        if score is not None:
            kind = entity_type(label)
            lows[kind] = min(score, lows.get(kind, score))
    return dict(sorted(lows.items()))


def drawn(dataset: str, id: str) -> float:  # noqa: A002 - as the messages call it
    """Where between the best and the worst a control sentence is put: in [0, 1), by its name.

    Other bytes of the same hash decide whether a sentence is a control at all, so those say nothing here.
    """
    return int.from_bytes(hashlib.sha256(f"{dataset}/{id}".encode()).digest()[8:16]) / 2**64


# -- decisions and claims ----------------------------------------------------------------------------------------------


def put_decision(db: sqlite3.Connection, decision: Decision, value: bytes) -> None:
    db.execute(
        "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?)",
        (
            decision.dataset,
            decision.id,
            decision.reviewer,
            "withdrawn" if decision.withdrawn else decision.verdict,
            day_of(decision.decided_at),
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
        db.execute("INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?)", (*key, _seconds(claim.until), *place))


def decisions_about(db: sqlite3.Connection, key: Key) -> list[Decision]:
    rows = db.execute("SELECT value FROM decisions WHERE dataset = ? AND id = ? ORDER BY reviewer", key)
    return [Decision.model_validate_json(value) for (value,) in rows]


def settle(db: sqlite3.Connection, key: Key) -> dict[str, Lesson]:
    """Brings the item's state and what its decisions say up to date.

    Returns what they teach the ranker, by reviewer.
    """
    decisions = decisions_about(db, key)
    row = db.execute("SELECT no, revision, reason, state FROM items WHERE dataset = ? AND id = ?", key).fetchone()
    now_shown: tuple[int, Shown] | None = None
    if row is not None:
        number, revision, reason, state = row
        about = [one for one in decisions if one.revision == revision]
        if state != "closed":
            decided = any(not one.withdrawn for one in about)
            db.execute("UPDATE items SET state = ? WHERE no = ?", ("decided" if decided else "open", number))
        if any(one.shown is None for one in about) and reason not in CLOSING:
            (value,) = db.execute("SELECT value FROM bodies WHERE item = ?", (number,)).fetchone()
            now_shown = (revision, shown_of(Assessment.model_validate_json(value), ranker_epoch=0))
    taught: dict[str, Lesson] = {}
    by_revision: dict[int, list[tuple[Decision, Shown]]] = {}
    for one in decisions:
        seen = one.shown
        if seen is None and now_shown is not None and now_shown[0] == one.revision:
            seen = now_shown[1]
        if seen is None:
            continue  # about something that is gone, and it did not keep what it was about
        by_revision.setdefault(one.revision, []).append((one, seen))
        words = reviewed(one, seen)
        if words is not None:
            taught[one.reviewer] = Lesson(seen.ranker_epoch, _seconds(one.decided_at), words)
    _put_outcomes(db, key, by_revision)
    return taught


def _put_outcomes(db: sqlite3.Connection, key: Key, by_revision: dict[int, list[tuple[Decision, Shown]]]) -> None:
    db.execute("DELETE FROM outcomes WHERE dataset = ? AND id = ?", key)
    db.execute("DELETE FROM pairs WHERE dataset = ? AND id = ?", key)
    for revision, found in sorted(by_revision.items()):
        verdict = verdict_of([decision for decision, _ in found])
        if verdict is None:
            continue
        shown = found[0][1]
        day = max((day_of(decision.decided_at) or "" for decision, _ in found if not decision.withdrawn), default="")
        db.execute(
            "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, revision, verdict, shown.reason, shown.inclusion_probability, shown.annotator, day or None),
        )
        if shown.reason == "control":
            continue  # the service did not doubt it
        for given, suggested, wrong in _pair_outcomes(found, verdict):
            db.execute(
                "INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*key, revision, given, suggested, shown.method, wrong),
            )


def _pair_outcomes(found: list[tuple[Decision, Shown]], verdict: str) -> list[tuple[str, str, bool]]:
    """Which doubts were right. Of an error that names no word, the likeliest doubt is; of the others nothing is known."""
    shown = found[0][1]
    if verdict == "ok":
        return [(entity_type(doubt.given), entity_type(doubt.suggested), False) for doubt in shown.doubtful]
    named: set[int] = set()
    for decision, seen in found:
        if not decision.withdrawn and decision.verdict == "error":
            named |= wrong_words(decision, seen) or frozenset()
    doubts = shown.doubtful
    if not named:
        doubts = tuple(sorted(doubts, key=lambda doubt: doubt.p_given)[:1])
        named = {doubt.index for doubt in doubts}
    return [(entity_type(doubt.given), entity_type(doubt.suggested), doubt.index in named) for doubt in doubts]
