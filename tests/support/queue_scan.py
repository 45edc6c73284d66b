"""The overview and the counts of the filters, each computed by a scan of the queue's tables: what the summaries must equal."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from service.review.queue.figures.recall import ControlOutcome, RecallEstimate, compute_recall
from service.statistics.histogram import UNIT_EDGES

if TYPE_CHECKING:
    import sqlite3

    from service.review.queue.figures.facet_counts import FacetCounts
    from service.review.queue.figures.overview import Overview
    from service.review.queue.queue import ReviewQueue

FROM_ITEMS = "FROM items WHERE (?1 IS NULL OR dataset = ?1)"
FROM_FACETS = (
    "FROM facet_names AS f CROSS JOIN facets ON facets.facet = f.no CROSS JOIN items ON items.no = facets.item"
    " WHERE (?1 IS NULL OR dataset = ?1)"
)
REVIEWED = "(state IN ('open', 'adjudication') OR (state = 'decided' AND reason = 'flagged'))"
FROM_OUTCOMES = "FROM outcomes WHERE (?1 IS NULL OR dataset = ?1)"


def assert_summaries_are_scans(queue: ReviewQueue) -> None:
    """What the queue shows is what a scan finds, for each dataset and for all together."""
    with queue.file.read_transaction() as db:
        datasets = [name for (name,) in db.execute("SELECT DISTINCT dataset FROM items ORDER BY 1")]
        assert db.execute("SELECT count(*) FROM summaries WHERE n <= 0").fetchone() == (0,)
        for dataset in (None, *datasets):
            overview = queue.build_overview(dataset)
            assert flatten_overview(overview) == scan_overview(db, dataset)
            for state in ("open", "adjudication", "decided", "closed", "all"):
                assert flatten_facets(queue.count_facets(dataset, state)) == scan_facets(db, dataset, state)
            if dataset is not None:
                assert overview.recall is not None
                assert overview.recall.model_dump() == pytest.approx(scan_recall(db, dataset).model_dump())
                counted = {name: tuple(counts) for name, counts in queue.count_annotators(dataset).items()}
                assert counted == scan_annotators(db, dataset)
        verdicts = scan_verdicts(db)
        assert dict(queue.count_verdicts_by_dataset()) == {
            name: {verdict: verdicts.get((name, verdict), 0) for verdict in ("error", "ok", "unsure")}
            for name, _ in verdicts
        }


def flatten_overview(overview: Overview) -> dict[str, Any]:
    return {
        "counts": {state: n for state, n in overview.counts.items() if n},
        "days": {
            each.day: (each.flagged, each.controls, each.decided, each.errors)
            for each in overview.days
            if each.flagged or each.controls or each.decided
        },
        "scores": sum(each.items for each in overview.scores),
        "priorities": tuple(each.items for each in overview.priorities),
        "confusions": {
            (each.given, each.suggested): (each.items, each.decided, each.right) for each in overview.confusions
        },
        "annotators": {each.annotator: (each.items, each.decided, each.errors) for each in overview.annotators},
        "reviewers": {each.reviewer: each.decisions for each in overview.reviewers},
        "models": {each.model: each.items for each in overview.models},
        "verdicts": {verdict: n for verdict, n in overview.verdicts.items() if n},
        "precision": overview.precision,
    }


def scan_overview(db: sqlite3.Connection, dataset: str | None) -> dict[str, Any]:
    def select(query: str) -> list[tuple[Any, ...]]:
        return db.execute(query, (dataset,)).fetchall()

    days: dict[str, list[int]] = {}
    for day, flagged, controls in select(
        f"SELECT day, sum(reason = 'flagged'), sum(reason = 'control') {FROM_ITEMS} AND day IS NOT NULL"
        " AND state IN ('open', 'adjudication', 'decided') GROUP BY day"
    ):
        days[day] = [flagged, controls, 0, 0]
    annotators: dict[str | None, list[int]] = {}
    for name, items in select(f"SELECT annotator, count(*) {FROM_ITEMS} AND {REVIEWED} GROUP BY 1"):
        annotators[name] = [items, 0, 0]
    decided = errors = 0
    for day, name, verdict in select(f"SELECT day, annotator, verdict {FROM_OUTCOMES} AND reason <> 'control'"):
        is_error = verdict == "error"
        decided, errors = decided + 1, errors + is_error
        for counts in (days.setdefault(day, [0, 0, 0, 0]), annotators.setdefault(name, [0, 0, 0])):
            counts[-2] += 1
            counts[-1] += is_error
    priorities = Counter(
        sum(edge <= priority for edge in UNIT_EDGES)
        for (priority,) in select(f"SELECT shown_priority {FROM_ITEMS} AND {REVIEWED} AND shown_priority IS NOT NULL")
    )
    facets = Counter(json.dumps(json.loads(name)) for (name,) in select(f"SELECT f.name {FROM_FACETS} AND {REVIEWED}"))
    confusions = {
        (given, suggested): [n, 0, 0] for (given, suggested), n in _select_facets(facets, "types", parts=2).items()
    }
    for given, suggested, wrong in select(
        "SELECT given, suggested, wrong FROM pairs WHERE (?1 IS NULL OR dataset = ?1)"
    ):
        counts = confusions.setdefault((given, suggested), [0, 0, 0])
        counts[1] += 1
        counts[2] += wrong
    (scores,) = select(f"SELECT count(*) {FROM_ITEMS} AND {REVIEWED} AND shown_score IS NOT NULL")[0]
    verdicts: Counter[str] = Counter()
    for (name, verdict), n in scan_verdicts(db).items():
        if dataset in (None, name):
            verdicts[verdict] += n
    return {
        "counts": dict(select(f"SELECT state, count(*) {FROM_ITEMS} AND state <> 'none' GROUP BY state")),
        "days": {day: tuple(counts) for day, counts in days.items() if any(counts)},
        "scores": scores,
        "priorities": tuple(priorities[k] for k in range(len(UNIT_EDGES) + 1)),
        "confusions": {pair: tuple(counts) for pair, counts in confusions.items()},
        "annotators": {name: tuple(counts) for name, counts in annotators.items()},
        "reviewers": dict(
            select(
                "SELECT reviewer, count(*) FROM decisions WHERE verdict <> 'withdrawn' AND (?1 IS NULL OR dataset = ?1)"
                " GROUP BY 1"
            )
        ),
        "models": {name: n for (name,), n in _select_facets(facets, "model", parts=1).items()},
        "verdicts": dict(verdicts),
        "precision": errors / decided if decided else None,
    }


def _select_facets(facets: Counter[str], name: str, *, parts: int) -> dict[tuple[str, ...], int]:
    decoded = {tuple(json.loads(facet)): n for facet, n in facets.items()}
    return {facet[1:]: n for facet, n in decoded.items() if facet[0] == name and len(facet) == parts + 1}


def scan_verdicts(db: sqlite3.Connection) -> dict[tuple[str, str], int]:
    """Decisions that are not withdrawn, without those about items that lack others, by dataset and verdict."""
    rows = db.execute(
        "SELECT dataset, verdict, count(*) FROM decisions AS d WHERE verdict <> 'withdrawn' AND NOT EXISTS (SELECT 1"
        " FROM items AS i WHERE i.dataset = d.dataset AND i.id = d.id AND i.revision = d.revision AND NOT i.complete)"
        " GROUP BY dataset, verdict"
    )
    return {(dataset, verdict): n for dataset, verdict, n in rows}


def scan_recall(db: sqlite3.Connection, dataset: str) -> RecallEstimate:
    row = db.execute("SELECT share FROM settings WHERE dataset = ?", (dataset,)).fetchone()
    share = float(row[0]) if row is not None and row[0] else 1.0
    matching = "o.dataset = i.dataset AND o.id = i.id AND o.revision = i.revision"
    controls = db.execute(
        f"SELECT i.inclusion, o.verdict FROM items AS i LEFT JOIN outcomes AS o ON {matching}"  # noqa: S608 - a constant
        " WHERE i.dataset = ?1 AND i.reason = 'control' AND (i.state <> 'closed' OR o.verdict IS NOT NULL)"
        " UNION ALL "
        f"SELECT o.inclusion, o.verdict FROM outcomes AS o LEFT JOIN items AS i ON {matching}"
        " WHERE o.dataset = ?1 AND i.no IS NULL AND o.reason = 'control'",
        (dataset,),
    ).fetchall()
    (waiting,) = db.execute(
        f"SELECT count(*) FROM items AS i LEFT JOIN outcomes AS o ON {matching}"  # noqa: S608 - a constant
        " WHERE i.dataset = ? AND i.reason = 'flagged' AND i.state <> 'closed' AND o.verdict IS NULL",
        (dataset,),
    ).fetchone()
    query = "SELECT verdict FROM outcomes WHERE dataset = ? AND reason = 'flagged'"
    verdicts = [verdict for (verdict,) in db.execute(query, (dataset,))]
    outcomes = [
        ControlOutcome(probability or share, None if verdict is None else verdict == "error")
        for probability, verdict in controls
    ]
    return compute_recall(
        outcomes, flagged=waiting + len(verdicts), decided=len(verdicts), wrong=verdicts.count("error")
    )


def scan_annotators(db: sqlite3.Connection, dataset: str) -> dict[str, tuple[int, int, int]]:
    """Of few annotators: all are named."""
    found: dict[str, list[int]] = {}
    items = db.execute(
        f"SELECT annotator, count(*) {FROM_ITEMS} AND {REVIEWED} AND annotator IS NOT NULL GROUP BY 1", (dataset,)
    )
    for name, n in items:
        found[name] = [n, 0, 0]
    for name, verdict in db.execute(
        "SELECT annotator, verdict FROM outcomes WHERE dataset = ? AND annotator IS NOT NULL", (dataset,)
    ):
        counts = found.setdefault(name, [0, 0, 0])
        counts[1] += 1
        counts[2] += verdict == "error"
    return {name: (items, decided, errors) for name, (items, decided, errors) in found.items()}


def flatten_facets(found: FacetCounts) -> dict[str, dict[str, int]]:
    return {
        name: {count.value: count.items for count in getattr(found, name)}
        for name in ("given", "suggested", "kind", "model")
    }


def scan_facets(db: sqlite3.Connection, dataset: str | None, state: str) -> dict[str, dict[str, int]]:
    in_state = "state <> 'none'" if state == "all" else "state = ?2"
    rows = db.execute(
        f"SELECT f.name, count(*) {FROM_FACETS} AND {in_state} GROUP BY f.name",
        (dataset,) if state == "all" else (dataset, state),
    )
    facets = {tuple(json.loads(name)): n for name, n in rows}
    sides: dict[str, set[str]] = {"given": set(), "suggested": set()}
    for name, *parts in facets:
        if name == "types":
            sides["given"].add(parts[0])
            sides["suggested"].add(parts[1])
    return {
        name: {
            facet[1]: n
            for facet, n in facets.items()
            if facet[0] == name and (name not in sides or facet[1] in sides[name])
        }
        for name in ("given", "suggested", "kind", "model")
    }
