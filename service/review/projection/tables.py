"""The tables of the review queue: their schema, and how settings and assessments are written to them.

After every function here and in `decision_tables`, the tables depend only on the newest message of each key, whatever order the topics and their
partitions are read in. So all replicas, and a queue that is built again, agree.
"""

from __future__ import annotations

import json
from datetime import date, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from service.contracts import DatasetSettings, PlatformTask
from service.review.decisions import to_timestamp
from service.review.projection.facets import encode_task_facet
from service.review.ranker import WordKind
from service.review.settlement import Settlement

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from service.review.ranker import Ranker, TypePair
    from service.review.review_state import SentenceKey

SCHEMA = """
CREATE TABLE items (
    no INTEGER PRIMARY KEY, dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, reason TEXT NOT NULL,
    state TEXT NOT NULL, rank REAL NOT NULL, tie REAL NOT NULL, priority REAL, score REAL, draw REAL NOT NULL,
    shown_priority REAL, shown_score REAL, inclusion REAL,
    annotator TEXT, day TEXT, scored_at REAL, lowest_scores TEXT NOT NULL, batch TEXT, task TEXT,
    signature INTEGER NOT NULL, complete INTEGER NOT NULL DEFAULT 0, UNIQUE (dataset, id)
);
CREATE TABLE summaries (
    dimension TEXT NOT NULL, dataset TEXT NOT NULL, value TEXT NOT NULL, reason TEXT NOT NULL, state TEXT NOT NULL,
    n INTEGER NOT NULL, PRIMARY KEY (dimension, dataset, value, reason, state)
) WITHOUT ROWID;
CREATE TABLE bodies (
    item INTEGER PRIMARY KEY, value BLOB NOT NULL, key BLOB, headers TEXT NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL, facets TEXT NOT NULL
);
CREATE TABLE facet_names (no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE facets (facet INTEGER NOT NULL, item INTEGER NOT NULL, PRIMARY KEY (facet, item)) WITHOUT ROWID;
CREATE VIRTUAL TABLE texts USING fts5(
    words, columnsize = 0, prefix = '1 2 3', tokenize = "unicode61 remove_diacritics 2 categories 'L* M* N* S* Co'"
);
CREATE TABLE decisions (
    dataset TEXT NOT NULL, id TEXT NOT NULL, reviewer TEXT NOT NULL, adjudication INTEGER NOT NULL,
    revision INTEGER NOT NULL, verdict TEXT NOT NULL, decided_at REAL NOT NULL, value BLOB NOT NULL,
    disclosed INTEGER NOT NULL,
    PRIMARY KEY (dataset, id, reviewer, adjudication)
);
CREATE INDEX decisions_by_verdict ON decisions (verdict, reviewer, dataset, id, revision);
CREATE INDEX decisions_by_time ON decisions (decided_at);
CREATE INDEX decisions_disclosed ON decisions (dataset, id, revision, decided_at, reviewer) WHERE disclosed = 1;
CREATE INDEX decisions_in_force ON decisions (dataset, id, revision, adjudication, decided_at, reviewer)
    WHERE verdict <> 'withdrawn';
CREATE TABLE claims (
    dataset TEXT NOT NULL, id TEXT NOT NULL, reviewer TEXT NOT NULL, until REAL NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL, PRIMARY KEY (dataset, id, reviewer)
) WITHOUT ROWID;
CREATE INDEX claims_in_order ON claims (dataset, id, partition, offset, until);
CREATE TABLE outcomes (
    dataset TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL,
    inclusion REAL, annotator TEXT, day TEXT, batch TEXT,
    item_reason TEXT, item_state TEXT, item_inclusion REAL, PRIMARY KEY (dataset, id, revision)
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
CREATE TABLE hidden_decisions (
    dataset TEXT NOT NULL, id TEXT NOT NULL, verdict TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (dataset, id, verdict)
) WITHOUT ROWID;
CREATE TABLE settings (
    dataset TEXT PRIMARY KEY, version INTEGER NOT NULL, ranker TEXT NOT NULL, epoch INTEGER NOT NULL, share REAL NOT NULL,
    overlap INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE rankers (dataset TEXT PRIMARY KEY, offsets TEXT NOT NULL, pair_offsets TEXT NOT NULL) WITHOUT ROWID;
"""
# Created when all topics are read for the first time: the next flagged sentence of each control sentence is read from it. Draws
# are random, so that each new item changes another page: with 300,000 items, a row took 15 µs more to insert with it.
RING_INDEX = {"items_on_the_ring": "items (dataset, reason, draw)"}
# Created when the queue is complete for the first time: ranks change once the ranker has read all decisions. With 20,000
# items, a row took 88 µs to insert with the indexes and 33 µs without; to create them took 5 µs per item.
ORDER_INDEXES = {
    "items_of_batch": "items (dataset, batch) WHERE batch IS NOT NULL",
    "items_in_order": "items (state, rank, tie, dataset, id, signature)",
    "items_of_dataset": "items (dataset, state, rank, tie, id, signature)",
    "items_decided": "items (dataset, draw, rank) WHERE state = 'decided'",
    "items_by_time": "items (dataset, day, scored_at)",
}
TABLES = (
    "items",
    "summaries",
    "bodies",
    "facet_names",
    "facets",
    "texts",
    "decisions",
    "claims",
    "outcomes",
    "answers",
    "pairs",
    "hidden_decisions",
    "settings",
    "rankers",
)
DEFAULT_OVERLAP = DatasetSettings().overlap
OPEN_SETTLEMENT = Settlement("open")
SECONDS_PER_DAY = 86_400
RANKED_ITEMS = 10_000  # at once: a million items at once would take hundreds of megabytes
FIRST_DAY = date(1970, 1, 1)


def to_utc_day(moment: datetime | None) -> str | None:
    return None if moment is None else _format_day(int(to_timestamp(moment) // SECONDS_PER_DAY))


@lru_cache(maxsize=4096)
def _format_day(days: int) -> str:
    """The day that is so many days after the first of 1970."""
    return (FIRST_DAY + timedelta(days=days)).isoformat()


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
    # By number, as the rows are stored: in the order of the index each item would be on another page.
    query = "SELECT no FROM items WHERE dataset = ? AND reason = 'flagged'"
    numbers = sorted(no for (no,) in db.execute(query, (dataset,)))
    for start in range(0, len(numbers), RANKED_ITEMS):
        _rank_items(db, ranker, numbers[start : start + RANKED_ITEMS])


def _rank_items(db: sqlite3.Connection, ranker: Ranker, numbers: Sequence[int]) -> None:
    rows = db.execute(
        "SELECT i.no, i.rank, i.priority, i.lowest_scores FROM json_each(?) AS chosen CROSS JOIN items AS i"
        " ON i.no = chosen.value",
        (json.dumps(numbers),),
    )
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


def read_task_deletion(db: sqlite3.Connection, dataset: str, deletion_id: str | None) -> int | None:
    """The revision at which the platform deleted an item's task, by the id of its deletion; None where it did not."""
    if deletion_id is None:
        return None
    query = "SELECT revision FROM items WHERE dataset = ? AND id = ? AND reason = 'deleted'"
    deletion = db.execute(query, (dataset, deletion_id)).fetchone()
    return None if deletion is None else int(deletion[0])


def find_items_of_task(db: sqlite3.Connection, dataset: str, sentence_id: str) -> list[SentenceKey]:
    """The items whose state may change with the message that has this id, if it is the deletion of a task."""
    task = PlatformTask.from_deletion_id(sentence_id)
    if task is None:
        return []
    query = (
        "SELECT i.id FROM facet_names AS n JOIN facets AS f ON f.facet = n.no JOIN items AS i ON i.no = f.item"
        " WHERE n.name = ? AND i.dataset = ?"
    )
    return [(dataset, found_id) for (found_id,) in db.execute(query, (encode_task_facet(task), dataset))]


def _decode_lowest_scores(text: str) -> list[tuple[WordKind, float]]:
    return [(WordKind(given, suggested), score) for given, suggested, score in json.loads(text)]
