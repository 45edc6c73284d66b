"""What the queue and the decisions add up to: counts for the console's charts and for the metrics."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from service.contracts import Assessment, Message
from service.review.items import TOMBSTONE_STATE
from service.review.queue.recall import RecallEstimate, estimate_recall

if TYPE_CHECKING:
    import sqlite3

SCORE_BINS = 20
# Scores between 0 and 1 crowd at both ends, so that equal steps would put all of them into one or two.
SCORE_BIN_EDGES = (
    0,
    1e-4,
    3e-4,
    1e-3,
    3e-3,
    0.01,
    0.03,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.97,
    0.99,
    0.997,
    0.999,
    1,
)
MAX_ANNOTATORS = 200
MAX_THRESHOLD_DAYS = 60
INCLUDES_CONTROLS_NOTE = "flagged items, and of control sentences while they wait"


class Day(Message):
    """A day (UTC): what came into review, and what was decided. Precision: wrong ones among the flagged decided."""

    day: str
    flagged: int = 0
    controls: int = 0
    decided: int = 0
    errors: int = 0
    precision: float | None = None


class Bin(Message):
    low: float
    high: float
    items: int


class Confusion(Message):
    """Doubts that a label of one type should be another's, over items of the queue.

    Control sentences count while they wait; `decided` and `right` are of flagged ones that are decided.
    """

    given: str
    suggested: str
    items: int = 0
    decided: int = 0
    right: int = 0


class Annotator(Message):
    annotator: str | None
    items: int = 0
    decided: int = 0
    errors: int = 0


class Overview(Message):
    dataset: str | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    days: tuple[Day, ...] = ()
    scores: tuple[Bin, ...] = Field(
        default=(), description=f"Of {INCLUDES_CONTROLS_NOTE}; steps are finer near 0 and 1"
    )
    confusions: tuple[Confusion, ...] = Field(default=(), description="The most frequent first")
    annotators: tuple[Annotator, ...] = Field(
        default=(), description=f"Of {INCLUDES_CONTROLS_NOTE}; those with most first"
    )
    verdicts: dict[str, int] = Field(default_factory=dict, description="Decisions that stand, by verdict")
    precision: float | None = Field(default=None, description="Wrong ones among the flagged that were decided")
    recall: RecallEstimate | None = Field(default=None, description="Of one dataset")
    ranker: dict[str, float] | None = Field(default=None, description="Offsets by type where the ranker is on")


class ThresholdPoint(Message):
    """The thresholds of a dataset's classes at a time."""

    at: datetime
    thresholds: dict[str, float | None]


class PairPrecision(Message):
    """How often doubts of one kind were right."""

    dataset: str
    given: str
    suggested: str
    method: str
    decided: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.decided


# In the queries, `? IS NULL` stands for all datasets. Controls that wait are counted with the flagged, by the numbers
# they are shown with: where a label pair, an annotator or a range of scores had fewer than the queue shows, the rest
# would be known for controls. What went with its task counts no more than what was deleted by itself, which is no
# longer there.
FROM_ITEMS = "FROM items WHERE (? IS NULL OR dataset = ?)"
FROM_FACETS = "FROM facets CROSS JOIN items ON items.no = facets.item"
WHERE_REVIEWED = "(state = 'open' OR (state = 'decided' AND reason = 'flagged'))"


def count_items_by_dataset(db: sqlite3.Connection) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    query = "SELECT dataset, state, count(*) FROM items WHERE state <> ? GROUP BY dataset, state"
    for dataset, state, n in db.execute(query, (TOMBSTONE_STATE,)):
        found.setdefault(dataset, {"open": 0, "decided": 0, "closed": 0})[state] = n
    return found


def count_items(db: sqlite3.Connection, dataset: str | None) -> dict[str, int]:
    found = {"open": 0, "decided": 0, "closed": 0}
    for name, by_state in count_items_by_dataset(db).items():
        if dataset in (None, name):
            for state, n in by_state.items():
                found[state] += n
    return found


def count_verdicts_by_dataset(db: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Decisions that stand: one taken back is none."""
    found: dict[str, dict[str, int]] = {}
    rows = db.execute(
        "SELECT dataset, verdict, count(*) FROM decisions WHERE verdict <> 'withdrawn' GROUP BY dataset, verdict"
    )
    for dataset, verdict, n in rows:
        found.setdefault(dataset, {"error": 0, "ok": 0, "unsure": 0})[verdict] = n
    return found


def compute_pair_precision(db: sqlite3.Connection, dataset: str | None = None) -> list[PairPrecision]:
    rows = db.execute(
        "SELECT dataset, given, suggested, method, count(*), sum(wrong) FROM pairs WHERE ? IS NULL OR dataset = ?"
        " GROUP BY dataset, given, suggested, method ORDER BY dataset, given, suggested, method",
        (dataset, dataset),
    )
    return [
        PairPrecision(dataset=d, given=given, suggested=suggested, method=method, decided=decided, right=right)
        for d, given, suggested, method, decided, right in rows
    ]


def list_threshold_points(db: sqlite3.Connection, dataset: str) -> tuple[ThresholdPoint, ...]:
    """The thresholds that the last sentence in review of each day was judged with, oldest first."""
    rows = db.execute(
        "SELECT value FROM bodies JOIN"
        " (SELECT day, max(no) AS no FROM items WHERE dataset = ? AND day IS NOT NULL AND reason <> 'deleted'"
        " GROUP BY day ORDER BY day DESC LIMIT ?) AS last ON bodies.item = last.no ORDER BY last.day",
        (dataset, MAX_THRESHOLD_DAYS),
    )
    assessments = [Assessment.model_validate_json(value) for (value,) in rows]
    return tuple(
        ThresholdPoint(at=assessment.scored_at, thresholds=assessment.thresholds)
        for assessment in assessments
        if assessment.scored_at is not None
    )


def build_overview(db: sqlite3.Connection, dataset: str | None, offsets: dict[str, float] | None = None) -> Overview:
    verdicts = {"error": 0, "ok": 0, "unsure": 0}
    for name, found in count_verdicts_by_dataset(db).items():
        if dataset in (None, name):
            for verdict, n in found.items():
                verdicts[verdict] += n
    days = _summarize_days(db, dataset)
    decided, errors = db.execute(
        "SELECT count(*), coalesce(sum(verdict = 'error'), 0) FROM outcomes"
        " WHERE (? IS NULL OR dataset = ?) AND reason <> 'control'",
        (dataset, dataset),
    ).fetchone()
    return Overview(
        dataset=dataset,
        counts=count_items(db, dataset),
        days=days,
        scores=_bin_scores(db, dataset),
        confusions=_count_confusions(db, dataset),
        annotators=_count_by_annotator(db, dataset),
        verdicts=verdicts,
        precision=errors / decided if decided else None,
        recall=None if dataset is None else estimate_recall(db, dataset),
        ranker=offsets,
    )


def _summarize_days(db: sqlite3.Connection, dataset: str | None) -> tuple[Day, ...]:
    days: dict[str, dict[str, int]] = {}
    items = db.execute(
        "SELECT day, sum(reason = 'flagged'), sum(reason = 'control') FROM items"
        " WHERE (? IS NULL OR dataset = ?) AND day IS NOT NULL AND state IN ('open', 'decided') GROUP BY day",
        (dataset, dataset),
    )
    for day, flagged, controls in items:
        days[day] = {"flagged": flagged, "controls": controls}
    outcomes = db.execute(
        "SELECT day, count(*), sum(verdict = 'error') FROM outcomes"
        " WHERE (? IS NULL OR dataset = ?) AND day IS NOT NULL AND reason <> 'control' GROUP BY day",
        (dataset, dataset),
    )
    for day, decided, errors in outcomes:
        days.setdefault(day, {}).update(decided=decided, errors=errors)
    return tuple(
        Day(day=day, **found, precision=found["errors"] / found["decided"] if found.get("decided") else None)
        for day, found in sorted(days.items())
    )


def _bin_scores(db: sqlite3.Connection, dataset: str | None) -> tuple[Bin, ...]:
    # Of a flagged one the shown score is its own.
    where = f"{FROM_ITEMS} AND {WHERE_REVIEWED} AND shown_score IS NOT NULL"
    low, high = db.execute(f"SELECT min(shown_score), max(shown_score) {where}", (dataset, dataset)).fetchone()
    if low is None:
        return ()
    edges = SCORE_BIN_EDGES
    if low < 0 or high > 1:
        step = max(high - low, 1.0) / SCORE_BINS
        edges = tuple(low + k * step for k in range(SCORE_BINS + 1))
    cases = " ".join(f"WHEN shown_score < ? THEN {k}" for k in range(len(edges) - 2))
    found = dict(
        db.execute(
            f"SELECT CASE {cases} ELSE {len(edges) - 2} END AS bin, count(*) {where} GROUP BY bin",
            (*edges[1:-1], dataset, dataset),
        )
    )
    return tuple(Bin(low=one, high=other, items=found.get(k, 0)) for k, (one, other) in enumerate(pairwise(edges)))


def _count_confusions(db: sqlite3.Connection, dataset: str | None) -> tuple[Confusion, ...]:
    found: dict[tuple[str, str], dict[str, int]] = {}
    rows = db.execute(
        f"SELECT facet, count(*) {FROM_FACETS} WHERE facet >= '[\"types\"' AND facet < '[\"types$' AND {WHERE_REVIEWED}"
        " AND (? IS NULL OR dataset = ?) GROUP BY facet",
        (dataset, dataset),
    )
    for facet, items in rows:
        _, given, suggested = json.loads(facet)
        found[given, suggested] = {"items": items}
    for pair in compute_pair_precision(db, dataset):
        counted = found.setdefault((pair.given, pair.suggested), {})
        counted["decided"] = counted.get("decided", 0) + pair.decided
        counted["right"] = counted.get("right", 0) + pair.right
    made = [Confusion(given=given, suggested=suggested, **numbers) for (given, suggested), numbers in found.items()]
    return tuple(sorted(made, key=lambda one: (-one.items, one.given, one.suggested)))


def _count_by_annotator(db: sqlite3.Connection, dataset: str | None) -> tuple[Annotator, ...]:
    """Of flagged items, and of controls while they wait."""
    found: dict[str | None, dict[str, int]] = {}
    for name, items in db.execute(
        f"SELECT annotator, count(*) {FROM_ITEMS} AND {WHERE_REVIEWED} GROUP BY annotator",
        (dataset, dataset),
    ):
        found[name] = {"items": items}
    for name, decided, errors in db.execute(
        "SELECT annotator, count(*), sum(verdict = 'error') FROM outcomes"
        " WHERE (? IS NULL OR dataset = ?) AND reason <> 'control' GROUP BY annotator",
        (dataset, dataset),
    ):
        found.setdefault(name, {}).update(decided=decided, errors=errors)
    made = [Annotator(annotator=name, **numbers) for name, numbers in found.items()]
    return tuple(sorted(made, key=lambda one: (-one.items, -one.decided, one.annotator or "")))[:MAX_ANNOTATORS]
