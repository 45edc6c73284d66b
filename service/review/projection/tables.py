"""The queue's tables, and how settings and assessments are put into them.

Every function here leaves the file in a state that depends only on the newest message of each key, whatever order
the topics and their partitions were read in: that is what makes replicas and rebuilt files agree.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.labels import get_entity_type
from service.log.codec import headers_to_json
from service.review.items import TOMBSTONE_STATE, compute_weighted_scores, select_flags, select_suspects
from service.review.projection.control_sample import compute_ring_position
from service.review.queue.filters import TASK_FACET_GLOB, build_facets, build_task_facet

if TYPE_CHECKING:
    import sqlite3

    from service.contracts import Assessment, DatasetSettings
    from service.log.protocol import Record
    from service.review.ranker import Ranker

SCHEMA = """
CREATE TABLE items (
    no INTEGER PRIMARY KEY, dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, reason TEXT NOT NULL,
    state TEXT NOT NULL, rank REAL NOT NULL, tie REAL NOT NULL, priority REAL, score REAL, draw REAL NOT NULL,
    shown_priority REAL, shown_score REAL, inclusion REAL,
    annotator TEXT, day TEXT, types TEXT NOT NULL, UNIQUE (dataset, id)
);
CREATE INDEX items_in_order ON items (state, rank, tie, dataset, id);
CREATE INDEX items_of_dataset ON items (dataset, state, rank, tie, id);
CREATE INDEX items_on_the_ring ON items (dataset, reason, draw);
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


TABLES = ("items", "bodies", "facets", "decisions", "claims", "outcomes", "pairs", "settings")
CLOSING_REASONS = ("update", "deleted")
MIN_TIMESTAMP = datetime(1, 1, 1, tzinfo=UTC).timestamp()
MAX_TIMESTAMP = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def to_utc_day(moment: datetime | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(to_timestamp(moment), UTC).date().isoformat()


def to_timestamp(moment: datetime | None) -> float:
    """Since 1970; kept to what can be told as a time again, whatever its zone."""
    if moment is None:
        return 0.0
    seconds = (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()
    return min(max(seconds, MIN_TIMESTAMP), MAX_TIMESTAMP)


def _finite_or_none(number: float | None) -> float | None:
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


def read_ranker_settings(db: sqlite3.Connection, dataset: str) -> tuple[str, int, float]:
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
    lows = compute_lowest_by_type(assessment) if assessment.reason == "flagged" else {}
    priority, score = _finite_or_none(assessment.priority), _finite_or_none(assessment.score)
    meta = assessment.meta or {}
    platform, task = meta.get("format"), meta.get("task", meta.get("record"))  # as Argilla calls its tasks
    ends_task = assessment.deleted and key[1] == f"{platform}:task:{task}"
    number = db.execute(
        "INSERT INTO items (dataset, id, revision, reason, state, rank, tie, priority, score, draw, shown_priority,"
        " shown_score, inclusion, annotator, day, types) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            assessment.revision,
            assessment.reason,
            TOMBSTONE_STATE if ends_task else "closed" if assessment.reason in CLOSING_REASONS else "open",
            ranker.rank(priority, list(lows.items())),
            1.0 if priority is None else priority,
            priority,
            score,
            compute_ring_position(*key),
            priority,
            score,
            assessment.inclusion_probability,
            assessment.annotator,
            to_utc_day(assessment.scored_at),
            json.dumps(lows),
        ),
    ).lastrowid
    db.execute(
        "INSERT INTO bodies VALUES (?, ?, ?, ?, ?, ?)",
        (number, record.value, record.key, headers_to_json(record.headers), record.partition, record.offset),
    )
    found = build_facets(select_flags(assessment), select_suspects(assessment), assessment.annotator)
    if isinstance(platform, str) and isinstance(task, str):
        found.add(build_task_facet(platform, task))
    db.executemany("INSERT INTO facets VALUES (?, ?)", [(facet, number) for facet in sorted(found)])
    return True


def is_task_deleted(db: sqlite3.Connection, dataset: str, number: int, revision: int) -> bool:
    """Whether the platform has deleted the item's task since, which it says of the task alone."""
    query = (
        "SELECT 1 FROM facets AS f JOIN items AS t ON t.dataset = ?"
        " AND t.id = json_extract(f.facet, '$[1]') || ':task:' || json_extract(f.facet, '$[2]')"
        " WHERE f.item = ? AND f.facet GLOB ? AND t.reason = 'deleted' AND t.revision >= ? LIMIT 1"
    )
    return db.execute(query, (dataset, number, TASK_FACET_GLOB, revision)).fetchone() is not None


def find_items_of_task(db: sqlite3.Connection, dataset: str, id: str) -> list[tuple[str, str]]:  # noqa: A002 - as the messages call it
    """The items that may be open or closed by what is known of the task with this id."""
    platform, colon, task = id.partition(":task:")
    if not colon:
        return []
    query = (
        "SELECT i.dataset, i.id FROM facets AS f JOIN items AS i ON i.no = f.item WHERE f.facet = ? AND i.dataset = ?"
    )
    return [(of, found) for of, found in db.execute(query, (build_task_facet(platform, task), dataset))]


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


def compute_lowest_by_type(assessment: Assessment) -> dict[str, float]:
    """All that the ranker needs of a sentence: of each type only its lowest word can set the rank."""
    lows: dict[str, float] = {}
    for label, found in zip(assessment.labels, compute_weighted_scores(assessment), strict=False):
        score = _finite_or_none(found)
        if score is not None:
            kind = get_entity_type(label)
            lows[kind] = min(score, lows.get(kind, score))
    return dict(sorted(lows.items()))
