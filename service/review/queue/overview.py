"""Counts of the queue and its decisions, for the console's charts and the metrics."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from service.contracts import Assessment, Message
from service.review.items import ITEM_STATES, TASK_DELETION_STATE
from service.review.likelihood import LikelihoodBands, read_bands
from service.review.projection.tables import read_ranker_offsets, read_ranker_pair_offsets
from service.review.queue.breakdowns import (
    FROM_FACETS,
    FROM_ITEMS,
    INCLUDES_CONTROLS_NOTE,
    WHERE_REVIEWED,
    Annotator,
    JudgingModel,
    Reviewer,
    count_by_annotator,
    count_by_model,
    count_by_reviewer,
)
from service.review.queue.priority_bins import PriorityBin, bin_priorities
from service.review.queue.recall import RecallEstimate, estimate_recall

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

SCORE_BINS = 20
# Scores between 0 and 1 are dense near both ends: bins of equal width would put nearly all of them into one or two.
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
MAX_THRESHOLD_DAYS = 60


class Day(Message):
    """A day (UTC): items that arrived, and items that were decided. Precision: the share of decided flagged items that are errors."""

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
    """Items in which a label of the given type is doubted and the suggested type is proposed.

    `items` includes open control sentences. `decided` and `right` count flagged items only.
    """

    given: str
    suggested: str
    items: int = 0
    decided: int = 0
    right: int = 0


class PairOffset(Message):
    """What the ranker has learned of words with a given and a suggested type."""

    given: str
    suggested: str
    offset: float


class Overview(Message):
    dataset: str | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    days: tuple[Day, ...] = ()
    scores: tuple[Bin, ...] = Field(
        default=(), description=f"Histogram of {INCLUDES_CONTROLS_NOTE}; bins are narrower near 0 and 1"
    )
    confusions: tuple[Confusion, ...] = Field(default=(), description="Most frequent first")
    annotators: tuple[Annotator, ...] = Field(
        default=(), description=f"Counts of {INCLUDES_CONTROLS_NOTE}; most items first"
    )
    reviewers: tuple[Reviewer, ...] = Field(
        default=(), description="Decisions that are not withdrawn, by reviewer; most decisions first"
    )
    models: tuple[JudgingModel, ...] = Field(
        default=(), description=f"Models that judged {INCLUDES_CONTROLS_NOTE}; most items first"
    )
    verdicts: dict[str, int] = Field(
        default_factory=dict, description="Decisions that are not withdrawn, by verdict; without those about open items"
    )
    priorities: tuple[PriorityBin, ...] = Field(
        default=(), description="Histogram of all sentences and of those in review, by priority; bins of one logit"
    )
    likelihood_bands: LikelihoodBands | None = Field(
        default=None, description="Ranks of `likelihood`; only for a single dataset"
    )
    precision: float | None = Field(default=None, description="Share of decided flagged items that are errors")
    recall: RecallEstimate | None = Field(default=None, description="Only for a single dataset")
    ranker: dict[str, float] | None = Field(
        default=None, description="Offset of each type; None where the ranker is off"
    )
    ranker_pairs: tuple[PairOffset, ...] = Field(
        default=(), description="Offset of each pair of types, added to that of the given type; largest first"
    )


class ThresholdPoint(Message):
    """The thresholds of a dataset's classes at a time."""

    at: datetime
    thresholds: dict[str, float | None]


class PairPrecision(Message):
    """How often flags of one label pair were right."""

    dataset: str
    given: str
    suggested: str
    method: str
    decided: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.decided


def count_items_by_dataset(db: sqlite3.Connection) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    query = "SELECT dataset, state, sum(n) FROM item_counts WHERE state <> ? AND n > 0 GROUP BY dataset, state"
    for dataset, state, n in db.execute(query, (TASK_DELETION_STATE,)):
        counts.setdefault(dataset, dict.fromkeys(ITEM_STATES, 0))[state] = n
    return counts


def count_items(db: sqlite3.Connection, datasets: Collection[str] | None) -> dict[str, int]:
    counts: dict[str, int] = dict.fromkeys(ITEM_STATES, 0)
    for name, by_state in count_items_by_dataset(db).items():
        if datasets is None or name in datasets:
            for state, n in by_state.items():
                counts[state] += n
    return counts


def count_verdicts_by_dataset(db: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Decisions that are not withdrawn, without those about items that lack others: they are hidden until the item has them all."""
    counts: dict[str, dict[str, int]] = {}
    rows = db.execute(
        "SELECT dataset, verdict, count(*) FROM decisions AS d WHERE verdict <> 'withdrawn' AND NOT EXISTS (SELECT 1"
        " FROM items AS i WHERE i.dataset = d.dataset AND i.id = d.id AND i.revision = d.revision AND NOT i.complete)"
        " GROUP BY dataset, verdict"
    )
    for dataset, verdict, n in rows:
        counts.setdefault(dataset, {"error": 0, "ok": 0, "unsure": 0})[verdict] = n
    return counts


def compute_pair_precision(db: sqlite3.Connection, dataset: str | None = None) -> list[PairPrecision]:
    rows = db.execute(
        "SELECT dataset, given, suggested, method, count(*), sum(wrong) FROM pairs WHERE ? IS NULL OR dataset = ?"
        " GROUP BY dataset, given, suggested, method ORDER BY dataset, given, suggested, method",
        (dataset, dataset),
    )
    return [
        PairPrecision(dataset=name, given=given, suggested=suggested, method=method, decided=decided, right=right)
        for name, given, suggested, method, decided, right in rows
    ]


def list_threshold_points(db: sqlite3.Connection, dataset: str) -> tuple[ThresholdPoint, ...]:
    """The thresholds that the last sentence in review of each day was judged with, oldest first."""
    rows = db.execute(
        # With max(), SQLite takes `no` from the row that has the maximum.
        "SELECT value FROM bodies JOIN"
        " (SELECT day, no, max(scored_at) FROM items WHERE dataset = ? AND day IS NOT NULL AND reason <> 'deleted'"
        " GROUP BY day ORDER BY day DESC LIMIT ?) AS last ON bodies.item = last.no ORDER BY last.day",
        (dataset, MAX_THRESHOLD_DAYS),
    )
    assessments = [Assessment.model_validate_json(value) for (value,) in rows]
    return tuple(
        ThresholdPoint(at=assessment.scored_at, thresholds=assessment.thresholds)
        for assessment in assessments
        if assessment.scored_at is not None
    )


def build_overview(db: sqlite3.Connection, dataset: str | None) -> Overview:
    verdicts = {"error": 0, "ok": 0, "unsure": 0}
    for name, by_verdict in count_verdicts_by_dataset(db).items():
        if dataset in (None, name):
            for verdict, n in by_verdict.items():
                verdicts[verdict] += n
    days = _summarize_days(db, dataset)
    decided, errors = db.execute(
        "SELECT count(*), coalesce(sum(verdict = 'error'), 0) FROM outcomes"
        " WHERE (? IS NULL OR dataset = ?) AND reason <> 'control'",
        (dataset, dataset),
    ).fetchone()
    return Overview(
        dataset=dataset,
        counts=count_items(db, None if dataset is None else (dataset,)),
        days=days,
        scores=_bin_scores(db, dataset),
        priorities=bin_priorities(db, dataset),
        likelihood_bands=None if dataset is None else read_bands(db, dataset),
        confusions=_count_confusions(db, dataset),
        annotators=count_by_annotator(db, dataset),
        reviewers=count_by_reviewer(db, dataset),
        models=count_by_model(db, dataset),
        verdicts=verdicts,
        precision=errors / decided if decided else None,
        recall=None if dataset is None else estimate_recall(db, dataset),
        ranker=None if dataset is None else read_ranker_offsets(db, dataset),
        ranker_pairs=() if dataset is None else _list_pair_offsets(db, dataset),
    )


def _list_pair_offsets(db: sqlite3.Connection, dataset: str) -> tuple[PairOffset, ...]:
    offsets = read_ranker_pair_offsets(db, dataset)
    return tuple(
        PairOffset(given=given, suggested=suggested, offset=offset)
        for (given, suggested), offset in sorted(offsets.items(), key=lambda entry: (-entry[1], entry[0]))
    )


def _summarize_days(db: sqlite3.Connection, dataset: str | None) -> tuple[Day, ...]:
    days: dict[str, dict[str, int]] = {}
    items = db.execute(
        "SELECT day, sum(reason = 'flagged'), sum(reason = 'control') FROM items"
        " WHERE (? IS NULL OR dataset = ?) AND day IS NOT NULL AND state IN ('open', 'adjudication', 'decided') GROUP BY day",
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
        Day(day=day, **counts, precision=counts["errors"] / counts["decided"] if counts.get("decided") else None)
        for day, counts in sorted(days.items())
    )


def _bin_scores(db: sqlite3.Connection, dataset: str | None) -> tuple[Bin, ...]:
    # The shown score of a flagged item is its own.
    where = f"{FROM_ITEMS} AND {WHERE_REVIEWED} AND shown_score IS NOT NULL"
    low, high = db.execute(f"SELECT min(shown_score), max(shown_score) {where}", (dataset, dataset)).fetchone()
    if low is None:
        return ()
    edges = SCORE_BIN_EDGES
    if low < 0 or high > 1:
        step = max(high - low, 1.0) / SCORE_BINS
        edges = tuple(low + k * step for k in range(SCORE_BINS + 1))
    cases = " ".join(f"WHEN shown_score < ? THEN {k}" for k in range(len(edges) - 2))
    counts = dict(
        db.execute(
            f"SELECT CASE {cases} ELSE {len(edges) - 2} END AS bin, count(*) {where} GROUP BY bin",
            (*edges[1:-1], dataset, dataset),
        )
    )
    return tuple(Bin(low=low, high=high, items=counts.get(k, 0)) for k, (low, high) in enumerate(pairwise(edges)))


def _count_confusions(db: sqlite3.Connection, dataset: str | None) -> tuple[Confusion, ...]:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    rows = db.execute(
        f"SELECT f.name, count(*) {FROM_FACETS} WHERE f.name >= '[\"types\"' AND f.name < '[\"types$'"
        f" AND {WHERE_REVIEWED} AND (? IS NULL OR dataset = ?) GROUP BY f.name",
        (dataset, dataset),
    )
    for facet, items in rows:
        _, given, suggested = json.loads(facet)
        counts[given, suggested] = {"items": items}
    for pair in compute_pair_precision(db, dataset):
        pair_counts = counts.setdefault((pair.given, pair.suggested), {})
        pair_counts["decided"] = pair_counts.get("decided", 0) + pair.decided
        pair_counts["right"] = pair_counts.get("right", 0) + pair.right
    confusions = [Confusion(given=given, suggested=suggested, **n) for (given, suggested), n in counts.items()]
    return tuple(sorted(confusions, key=lambda confusion: (-confusion.items, confusion.given, confusion.suggested)))
