"""The tables of the review queue: their schema, and how settings and assessments are written to them.

After every function here and in `decision_tables`, the tables depend only on the newest message of each key, whatever order the topics and their
partitions are read in. So all replicas, and a queue that is built again, agree.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.contracts import DatasetSettings, PlatformTask
from service.log.codec import encode_headers
from service.review.items import TASK_DELETION_STATE, compute_weighted_scores, select_flags, select_suspects
from service.review.projection.facets import TASK_FACET_GLOB, build_facets, decode_task_facet, encode_task_facet
from service.review.ranker import WordKind, find_word_kinds
from service.review.review_state import derive_item_state, is_task_deletion, supersedes
from service.review.settlement import Settlement
from service.statistics.sampling import DrawPurpose, draw_uniform

if TYPE_CHECKING:
    import sqlite3

    from service.contracts import Assessment
    from service.log.protocol import Record
    from service.review.ranker import Ranker, TypePair
    from service.review.review_state import SentenceKey

SCHEMA = """
CREATE TABLE items (
    no INTEGER PRIMARY KEY, dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, reason TEXT NOT NULL,
    state TEXT NOT NULL, rank REAL NOT NULL, tie REAL NOT NULL, priority REAL, score REAL, draw REAL NOT NULL,
    shown_priority REAL, shown_score REAL, inclusion REAL,
    annotator TEXT, day TEXT, scored_at REAL, lowest_scores TEXT NOT NULL, batch TEXT,
    complete INTEGER NOT NULL DEFAULT 0, UNIQUE (dataset, id)
);
CREATE INDEX items_of_batch ON items (dataset, batch) WHERE batch IS NOT NULL;
CREATE INDEX items_in_order ON items (state, rank, tie, dataset, id);
CREATE INDEX items_of_dataset ON items (dataset, state, rank, tie, id);
CREATE INDEX items_on_the_ring ON items (dataset, reason, draw);
CREATE TABLE bodies (
    item INTEGER PRIMARY KEY, value BLOB NOT NULL, key BLOB, headers TEXT NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL
);
CREATE TABLE facets (facet TEXT NOT NULL, item INTEGER NOT NULL, PRIMARY KEY (facet, item)) WITHOUT ROWID;
CREATE INDEX facets_of_item ON facets (item);
CREATE VIRTUAL TABLE texts USING fts5(
    words, columnsize = 0, tokenize = "unicode61 remove_diacritics 2 categories 'L* M* N* S* Co'"
);
CREATE TABLE decisions (
    dataset TEXT NOT NULL, id TEXT NOT NULL, reviewer TEXT NOT NULL, adjudication INTEGER NOT NULL,
    revision INTEGER NOT NULL, verdict TEXT NOT NULL, decided_at REAL NOT NULL, value BLOB NOT NULL,
    disclosed INTEGER NOT NULL,
    PRIMARY KEY (dataset, id, reviewer, adjudication)
);
CREATE INDEX decisions_by_verdict ON decisions (verdict, reviewer, dataset, id, revision);
CREATE INDEX decisions_by_time ON decisions (decided_at);
CREATE INDEX decisions_disclosed ON decisions (dataset, id, revision, reviewer) WHERE disclosed = 1;
CREATE INDEX decisions_in_force ON decisions (dataset, id, revision, adjudication, reviewer) WHERE verdict <> 'withdrawn';
CREATE TABLE claims (
    dataset TEXT NOT NULL, id TEXT NOT NULL, reviewer TEXT NOT NULL, until REAL NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL, PRIMARY KEY (dataset, id, reviewer)
) WITHOUT ROWID;
CREATE INDEX claims_in_order ON claims (dataset, id, partition, offset, until);
CREATE TABLE outcomes (
    dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL,
    inclusion REAL, annotator TEXT, day TEXT, batch TEXT, PRIMARY KEY (dataset, id, revision)
) WITHOUT ROWID;
CREATE INDEX outcomes_of_batch ON outcomes (dataset, batch) WHERE batch IS NOT NULL;
CREATE TABLE answers (
    dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, reviewer TEXT NOT NULL, labels TEXT,
    PRIMARY KEY (dataset, id, revision, reviewer)
) WITHOUT ROWID;
CREATE TABLE pairs (
    dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, given TEXT NOT NULL, suggested TEXT NOT NULL,
    method TEXT NOT NULL, wrong INTEGER NOT NULL
);
CREATE INDEX pairs_of_item ON pairs (dataset, id);
CREATE TABLE settings (
    dataset TEXT PRIMARY KEY, version INTEGER NOT NULL, ranker TEXT NOT NULL, epoch INTEGER NOT NULL, share REAL NOT NULL,
    overlap INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE rankers (dataset TEXT PRIMARY KEY, offsets TEXT NOT NULL, pair_offsets TEXT NOT NULL) WITHOUT ROWID;
"""
TABLES = (
    "items",
    "bodies",
    "facets",
    "texts",
    "decisions",
    "claims",
    "outcomes",
    "answers",
    "pairs",
    "settings",
    "rankers",
)
DEFAULT_OVERLAP = DatasetSettings().overlap
OPEN_SETTLEMENT = Settlement("open")
MIN_TIMESTAMP = datetime(1, 1, 1, tzinfo=UTC).timestamp()
MAX_TIMESTAMP = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def to_utc_day(moment: datetime | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(to_timestamp(moment), UTC).date().isoformat()


def to_timestamp(moment: datetime | None) -> float:
    """Seconds since 1970, clipped to what a datetime can represent in every time zone."""
    if moment is None:
        return 0.0
    seconds = (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()
    return min(max(seconds, MIN_TIMESTAMP), MAX_TIMESTAMP)


def _discard_non_finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else number


# -- settings and rankers ----------------------------------------------------------------------------------------------


def put_settings(db: sqlite3.Connection, settings: DatasetSettings) -> bool:
    """Whether the settings are in force now: the highest version is."""
    row = db.execute("SELECT version FROM settings WHERE dataset = ?", (settings.name,)).fetchone()
    if row is not None and settings.version < row[0]:
        return False
    db.execute(
        "INSERT OR REPLACE INTO settings VALUES (?, ?, ?, ?, ?, ?)",
        (
            settings.name,
            settings.version,
            settings.ranker,
            settings.ranker_epoch,
            settings.control_share,
            settings.overlap,
        ),
    )
    return True


def read_overlap(db: sqlite3.Connection, dataset: str) -> int:
    """How many independent decisions an item of the dataset needs."""
    row = db.execute("SELECT overlap FROM settings WHERE dataset = ?", (dataset,)).fetchone()
    return DEFAULT_OVERLAP if row is None else int(row[0])


def read_ranker_settings(db: sqlite3.Connection, dataset: str) -> tuple[str, int, float]:
    """(ranker, epoch, control share)"""
    row = db.execute("SELECT ranker, epoch, share FROM settings WHERE dataset = ?", (dataset,)).fetchone()
    return ("auto", 0, 0.0) if row is None else (str(row[0]), int(row[1]), float(row[2]))


def put_ranker(db: sqlite3.Connection, dataset: str, ranker: Ranker) -> None:
    """Stores the offsets of a ranker that is on, for the overview, and ranks the dataset's items with it."""
    db.execute("DELETE FROM rankers WHERE dataset = ?", (dataset,))
    if ranker.enabled:
        pairs = [[*pair, offset] for pair, offset in ranker.pair_offsets.items()]
        db.execute(
            "INSERT INTO rankers VALUES (?, ?, ?)", (dataset, json.dumps(dict(ranker.offsets)), json.dumps(pairs))
        )
    rows = db.execute(
        "SELECT no, rank, priority, lowest_scores FROM items WHERE dataset = ? AND reason = 'flagged'", (dataset,)
    ).fetchall()
    ranked = [
        (ranker.rank(priority, _decode_lowest_scores(lowest_scores)), no, rank)
        for no, rank, priority, lowest_scores in rows
    ]
    db.executemany("UPDATE items SET rank = ? WHERE no = ?", [(new, no) for new, no, old in ranked if new != old])


def read_ranker_offsets(db: sqlite3.Connection, dataset: str) -> dict[str, float] | None:
    """The offset of each type; None where the ranker is off."""
    row = db.execute("SELECT offsets FROM rankers WHERE dataset = ?", (dataset,)).fetchone()
    return None if row is None else dict(json.loads(row[0]))


def read_ranker_pair_offsets(db: sqlite3.Connection, dataset: str) -> dict[TypePair, float]:
    """The offset of each pair of given and suggested type; none where the ranker is off."""
    row = db.execute("SELECT pair_offsets FROM rankers WHERE dataset = ?", (dataset,)).fetchone()
    return {} if row is None else {(given, suggested): offset for given, suggested, offset in json.loads(row[0])}


# -- items -------------------------------------------------------------------------------------------------------------


def put_item(db: sqlite3.Connection, assessment: Assessment, record: Record, ranker: Ranker) -> bool:
    """Whether the assessment is the item now: an older revision that arrives late is not."""
    key = (assessment.dataset, str(assessment.id))
    row = db.execute("SELECT revision FROM items WHERE dataset = ? AND id = ?", key).fetchone()
    if not supersedes(assessment.revision, None if row is None else row[0]):
        return False
    drop_item(db, *key)
    lowest_scores = compute_lowest_by_kind(assessment) if assessment.reason == "flagged" else []
    priority, score = _discard_non_finite(assessment.priority), _discard_non_finite(assessment.score)
    number = db.execute(
        "INSERT INTO items (dataset, id, revision, reason, state, rank, tie, priority, score, draw, shown_priority,"
        " shown_score, inclusion, annotator, day, scored_at, lowest_scores, batch)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            assessment.revision,
            assessment.reason,
            TASK_DELETION_STATE
            if is_task_deletion(assessment)
            else derive_item_state(assessment.reason, OPEN_SETTLEMENT, deleted_with_task=False),
            ranker.rank(priority, lowest_scores),
            1.0 if priority is None else priority,
            priority,
            score,
            draw_uniform(*key, DrawPurpose.RING_POSITION),
            priority,
            score,
            assessment.inclusion_probability,
            assessment.annotator,
            to_utc_day(assessment.scored_at),
            to_timestamp(assessment.scored_at),
            json.dumps([[*kind, lowest] for kind, lowest in lowest_scores]),
            None if assessment.update else assessment.batch,
        ),
    ).lastrowid
    db.execute(
        "INSERT INTO bodies VALUES (?, ?, ?, ?, ?, ?)",
        (number, record.value, record.key, encode_headers(record.headers), record.partition, record.offset),
    )
    db.execute("INSERT INTO texts (rowid, words) VALUES (?, ?)", (number, " ".join(assessment.tokens)))
    facets = build_facets(
        select_flags(assessment),
        select_suspects(assessment),
        annotator=assessment.annotator,
        model=assessment.model.name,
        batch=assessment.batch,
    )
    task = PlatformTask.from_sentence(assessment)
    if task is not None:
        facets.add(encode_task_facet(task))
    db.executemany("INSERT INTO facets VALUES (?, ?)", [(facet, number) for facet in sorted(facets)])
    return True


def drop_item(db: sqlite3.Connection, dataset: str, sentence_id: str) -> None:
    row = db.execute("SELECT no FROM items WHERE dataset = ? AND id = ?", (dataset, sentence_id)).fetchone()
    if row is None:
        return
    for statement in (
        "DELETE FROM items WHERE no = ?",
        "DELETE FROM bodies WHERE item = ?",
        "DELETE FROM facets WHERE item = ?",
        "DELETE FROM texts WHERE rowid = ?",
    ):
        db.execute(statement, row)


def read_task_deletion(db: sqlite3.Connection, dataset: str, number: int) -> int | None:
    """The revision at which the platform deleted the item's task; None where it did not."""
    row = db.execute("SELECT facet FROM facets WHERE item = ? AND facet GLOB ?", (number, TASK_FACET_GLOB)).fetchone()
    if row is None:
        return None
    query = "SELECT revision FROM items WHERE dataset = ? AND id = ? AND reason = 'deleted'"
    deletion = db.execute(query, (dataset, decode_task_facet(row[0]).deletion_id)).fetchone()
    return None if deletion is None else int(deletion[0])


def find_items_of_task(db: sqlite3.Connection, dataset: str, sentence_id: str) -> list[SentenceKey]:
    """The items whose state may change with the message that has this id, if it is the deletion of a task."""
    task = PlatformTask.from_deletion_id(sentence_id)
    if task is None:
        return []
    query = "SELECT i.id FROM facets AS f JOIN items AS i ON i.no = f.item WHERE f.facet = ? AND i.dataset = ?"
    return [(dataset, found_id) for (found_id,) in db.execute(query, (encode_task_facet(task), dataset))]


def compute_lowest_by_kind(assessment: Assessment) -> list[tuple[WordKind, float]]:
    """The lowest weighted score of each kind of word. The ranker needs no more: the lowest word of each decides the rank."""
    lowest: dict[WordKind, float] = {}
    kinds = find_word_kinds(assessment.labels, select_flags(assessment))
    for kind, weighted_score in zip(kinds, compute_weighted_scores(assessment), strict=False):
        score = _discard_non_finite(weighted_score)
        if score is not None:
            lowest[kind] = min(score, lowest.get(kind, score))
    return sorted(lowest.items(), key=lambda entry: (entry[0].given, entry[0].suggested or ""))


def _decode_lowest_scores(text: str) -> list[tuple[WordKind, float]]:
    return [(WordKind(given, suggested), score) for given, suggested, score in json.loads(text)]
