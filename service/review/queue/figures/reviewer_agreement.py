"""The agreement of a dataset's reviewers, per pair and overall, from the items that have all their decisions."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import combinations, groupby
from typing import TYPE_CHECKING, Final

from pydantic import Field

from service.contracts import Message
from service.review.agreement import AgreementFigures, compare_answers, measure_agreement
from service.review.projection.tables import read_overlap

if TYPE_CHECKING:
    import sqlite3

    from service.review.agreement import Comparison

MAX_ANSWERS: Final = 20_000
MAX_PAIRS: Final = 50


class PairAgreement(AgreementFigures):
    first: str
    second: str


class AgreementReport(Message):
    """How far the reviewers of a dataset agree.

    Only items with all their decisions count, and of these the reviewers' own decisions, not adjudications. An answer is the
    given labels for ok, the corrected ones for error. An error without corrected labels and an unsure decision are no answer.
    """

    dataset: str
    overlap: int = Field(description="Independent decisions that an item needs")
    items: int = Field(default=0, description="Items with two or more answers")
    unanswered: int = Field(
        default=0, description="Decisions without an answer about items that others have decided too"
    )
    overall: AgreementFigures = Field(
        default=AgreementFigures(), description="Of all pairs together; `items` counts an item once per pair"
    )
    pairs: tuple[PairAgreement, ...] = Field(default=(), description="Most shared items first")
    more_pairs: int = Field(default=0, description=f"Pairs that are left out: at most {MAX_PAIRS} are listed")
    truncated: bool = Field(
        default=False, description=f"Whether there are more answers than the first {MAX_ANSWERS:,} by id, which count"
    )


def build_agreement_report(db: sqlite3.Connection, dataset: str, *, draws: int | None = None) -> AgreementReport:
    """Without `draws` the intervals of pairs and of all together are computed as usual; 0: without intervals."""
    comparisons, items, unanswered, truncated = _compare_all(db, dataset)
    more = {} if draws is None else {"draws": draws}
    ranked = sorted(comparisons.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return AgreementReport(
        dataset=dataset,
        overlap=read_overlap(db, dataset),
        items=items,
        unanswered=unanswered,
        overall=measure_agreement([shared for _, shared in ranked], **more),
        pairs=tuple(
            PairAgreement(first=first, second=second, **measure_agreement([shared], **more).model_dump())
            for (first, second), shared in ranked[:MAX_PAIRS]
        ),
        more_pairs=max(0, len(ranked) - MAX_PAIRS),
        truncated=truncated,
    )


def _compare_all(
    db: sqlite3.Connection, dataset: str
) -> tuple[dict[tuple[str, str], list[Comparison]], int, int, bool]:
    """The comparisons of each pair of reviewers, the number of items and of decisions without an answer, and whether
    there are more than MAX_ANSWERS.
    """
    rows = db.execute(
        "SELECT id, revision, reviewer, labels FROM answers WHERE dataset = ? ORDER BY id, revision, reviewer LIMIT ?",
        (dataset, MAX_ANSWERS + 1),
    ).fetchall()
    comparisons: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
    items = unanswered = 0
    for _, group in groupby(rows[:MAX_ANSWERS], key=lambda row: row[:2]):
        answers = [(reviewer, None if labels is None else json.loads(labels)) for *_, reviewer, labels in group]
        known = [(reviewer, labels) for reviewer, labels in answers if labels is not None]
        unanswered += len(answers) - len(known)
        items += len(known) > 1
        for (first, first_labels), (second, second_labels) in combinations(known, 2):
            if len(first_labels) == len(second_labels):
                comparisons[first, second].append(compare_answers(first_labels, second_labels))
    return comparisons, items, unanswered, len(rows) > MAX_ANSWERS
