"""Counts of the queue and its decisions, for the console's charts and the metrics."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import Counter
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from service.contracts import Assessment, Message
from service.review.items import ITEM_STATES, TASK_DELETION_STATE
from service.review.likelihood import LikelihoodBands, read_bands
from service.review.projection.summaries import ALL_DATASETS, SCORE_BIN_EDGES, SCORE_STEP
from service.review.projection.tables import read_ranker_offsets, read_ranker_pair_offsets
from service.review.queue.figures.breakdowns import (
    Annotator,
    JudgingModel,
    Reviewer,
    count_by_annotator,
    count_by_model,
    count_by_reviewer,
)
from service.review.queue.figures.priority_bins import PriorityBin, bin_priorities
from service.review.queue.figures.recall import RecallEstimate, estimate_recall
from service.review.queue.figures.summary_counts import (
    INCLUDES_CONTROLS_NOTE,
    is_error,
    is_reviewed,
    read_counts,
    sum_by_value,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping

SCORE_BINS = 20
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
    query = (
        "SELECT dataset, state, sum(n) FROM summaries WHERE dimension = 'item' AND dataset <> ? AND state <> ? AND n > 0"
        " GROUP BY dataset, state"
    )
    for dataset, state, n in db.execute(query, (ALL_DATASETS, TASK_DELETION_STATE)):
        counts.setdefault(dataset, dict.fromkeys(ITEM_STATES, 0))[state] = n
    return counts


def count_items(db: sqlite3.Connection, datasets: Collection[str] | None) -> dict[str, int]:
    counts: dict[str, int] = dict.fromkeys(ITEM_STATES, 0)
    for name in (None,) if datasets is None else datasets:
        for count in read_counts(db, "item", name):
            if count.state != TASK_DELETION_STATE:
                counts[count.state] += count.n
    return counts


def count_verdicts_by_dataset(db: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Decisions that are not withdrawn, without those about items that lack others: they are hidden until the item has them all."""
    counts: dict[str, dict[str, int]] = {}
    rows = db.execute(
        "SELECT dataset, state, sum(CASE dimension WHEN 'hidden' THEN -n ELSE n END) AS visible FROM summaries"
        " WHERE dimension IN ('reviewer', 'hidden') AND dataset <> ? GROUP BY dataset, state HAVING visible > 0",
        (ALL_DATASETS,),
    )
    for dataset, verdict, n in rows:
        counts.setdefault(dataset, {"error": 0, "ok": 0, "unsure": 0})[verdict] = n
    return counts


def _count_verdicts(db: sqlite3.Connection, dataset: str | None) -> dict[str, int]:
    """The same of one dataset, or of all together."""
    verdicts = {"error": 0, "ok": 0, "unsure": 0}
    for dimension, sign in (("reviewer", 1), ("hidden", -1)):
        for count in read_counts(db, dimension, dataset):
            verdicts[count.state] += sign * count.n
    return verdicts


def compute_pair_precision(db: sqlite3.Connection, dataset: str | None = None) -> list[PairPrecision]:
    rows = db.execute(
        "SELECT dataset, value, sum(n), sum(CASE state WHEN 'wrong' THEN n ELSE 0 END) FROM summaries"
        " WHERE dimension = 'pair' AND dataset = coalesce(?, dataset) AND dataset <> ? AND n > 0 GROUP BY dataset, value",
        (dataset, ALL_DATASETS),
    )
    found = sorted((name, *json.loads(pair), decided, right) for name, pair, decided, right in rows)
    return [
        PairPrecision(dataset=name, given=given, suggested=suggested, method=method, decided=decided, right=right)
        for name, given, suggested, method, decided, right in found
    ]


def list_threshold_points(db: sqlite3.Connection, dataset: str) -> tuple[ThresholdPoint, ...]:
    """The thresholds that the last sentence in review of each day was judged with, oldest first."""
    days = sum_by_value(db, "day", dataset, select=lambda count: count.reason != "deleted")
    query = (
        "SELECT value FROM bodies WHERE item = (SELECT no FROM items WHERE dataset = ? AND day = ? AND reason <> 'deleted'"
        " ORDER BY scored_at DESC LIMIT 1)"
    )
    assessments = [
        Assessment.model_validate_json(db.execute(query, (dataset, day)).fetchone()[0])
        for day in sorted(days)[-MAX_THRESHOLD_DAYS:]
    ]
    return tuple(
        ThresholdPoint(at=assessment.scored_at, thresholds=assessment.thresholds)
        for assessment in assessments
        if assessment.scored_at is not None
    )


def build_overview(db: sqlite3.Connection, dataset: str | None, *, bands: LikelihoodBands | None = None) -> Overview:
    """`bands`: those of the dataset, if they are known already."""
    outcomes = [count for count in read_counts(db, "outcome", dataset) if count.reason != "control"]
    decided = sum(count.n for count in outcomes)
    errors = sum(count.n for count in outcomes if is_error(count))
    facets = sum_by_value(db, "facet", dataset, select=is_reviewed)
    return Overview(
        dataset=dataset,
        counts=count_items(db, None if dataset is None else (dataset,)),
        days=_summarize_days(db, dataset),
        scores=_bin_scores(db, dataset),
        priorities=bin_priorities(db, dataset),
        likelihood_bands=None if dataset is None else bands or read_bands(db, dataset),
        confusions=_count_confusions(db, dataset, facets),
        annotators=count_by_annotator(db, dataset),
        reviewers=count_by_reviewer(db, dataset),
        models=count_by_model(facets),
        verdicts=_count_verdicts(db, dataset),
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
    columns = {"flagged": "flagged", "control": "controls"}
    for count in read_counts(db, "day", dataset):
        if count.state in ("open", "adjudication", "decided"):
            day = days.setdefault(count.value, {"flagged": 0, "controls": 0})
            if count.reason in columns:
                day[columns[count.reason]] += count.n
    for count in read_counts(db, "outcome_day", dataset):
        if count.reason != "control":
            day = days.setdefault(count.value, {})
            day["decided"] = day.get("decided", 0) + count.n
            day["errors"] = day.get("errors", 0) + (count.n if is_error(count) else 0)
    return tuple(
        Day(day=day, **counts, precision=counts["errors"] / counts["decided"] if counts.get("decided") else None)
        for day, counts in sorted(days.items())
    )


def _bin_scores(db: sqlite3.Connection, dataset: str | None) -> tuple[Bin, ...]:
    # The shown score of a flagged item is its own.
    found = sum_by_value(db, "score", dataset, select=is_reviewed)
    if not found:
        return ()
    lows = {float(low): n for low, n in found.items()}
    low, high = min(lows), max(lows)
    edges: tuple[float, ...] = SCORE_BIN_EDGES
    if low < 0 or high >= 1:
        low = SCORE_STEP * math.floor(low / SCORE_STEP)
        width = SCORE_STEP * max(math.ceil((high + SCORE_STEP - low) / SCORE_STEP / SCORE_BINS), 1)
        edges = tuple(low + k * width for k in range(SCORE_BINS + 1))
    counts = Counter[int]()
    for value, n in lows.items():
        counts[bisect_right(edges, value) - 1] += n
    return tuple(Bin(low=low, high=high, items=counts[k]) for k, (low, high) in enumerate(pairwise(edges)))


def _count_confusions(db: sqlite3.Connection, dataset: str | None, facets: Mapping[str, int]) -> tuple[Confusion, ...]:
    """`facets`: the items in review by facet."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for facet, items in facets.items():
        if facet.startswith('["types"'):
            _, given, suggested = json.loads(facet)
            counts[given, suggested] = {"items": items}
    for pair in compute_pair_precision(db, dataset):
        pair_counts = counts.setdefault((pair.given, pair.suggested), {})
        pair_counts["decided"] = pair_counts.get("decided", 0) + pair.decided
        pair_counts["right"] = pair_counts.get("right", 0) + pair.right
    confusions = [Confusion(given=given, suggested=suggested, **n) for (given, suggested), n in counts.items()]
    return tuple(sorted(confusions, key=lambda confusion: (-confusion.items, confusion.given, confusion.suggested)))
