"""The consequences of the decisions about an item: its state, its outcome, and examples for the ranker.

Like the tables, they do not depend on the order in which the topics were read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.contracts import Assessment
from service.labels import get_entity_type
from service.review.decisions import compute_majority_verdict, find_wrong_words, to_timestamp
from service.review.items import TASK_DELETION_STATE, build_shown
from service.review.projection.decisions.blind_answers import put_answers
from service.review.projection.decisions.decision_tables import list_decided_revisions, read_decisions_in_force
from service.review.projection.decisions.outcome_tables import (
    CurrentItem,
    OutcomeRow,
    PairRow,
    drop_outcomes,
    put_hidden_decisions,
    put_outcome,
    put_pair,
)
from service.review.projection.summaries import read_item_summary
from service.review.projection.tables import OPEN_SETTLEMENT, read_overlap, read_task_deletion, to_utc_day
from service.review.ranker import extract_reviewed_words
from service.review.review_state import CLOSING_REASONS, derive_item_state, is_deleted_with_task
from service.review.settlement import settle

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from service.contracts import Decision, Shown
    from service.review.projection.summaries import Summaries
    from service.review.ranker import ReviewedWords
    from service.review.review_state import SentenceKey

    ShownDecision = tuple[Decision, Shown]

SELECT_ITEM: Final = "SELECT no, revision, reason, state, task, inclusion FROM items WHERE dataset = ? AND id = ?"
SELECT_UNDECIDED: Final = (
    "SELECT no, revision, reason, state, task, complete, EXISTS (SELECT 1 FROM decisions WHERE dataset = ?1 AND id = ?2)"
    " OR EXISTS (SELECT 1 FROM outcomes WHERE dataset = ?1 AND id = ?2)"
    " OR EXISTS (SELECT 1 FROM answers WHERE dataset = ?1 AND id = ?2)"
    " OR EXISTS (SELECT 1 FROM hidden_decisions WHERE dataset = ?1 AND id = ?2) FROM items WHERE dataset = ?1 AND id = ?2"
)


@dataclass(frozen=True, slots=True)
class RankerExample:
    """What the ranker learns from one decision, with the time of the decision and the ranker's epoch."""

    epoch: int
    decided_at: float
    words: ReviewedWords


def update_outcomes(db: sqlite3.Connection, key: SentenceKey, summaries: Summaries) -> dict[str, RankerExample] | None:
    """Updates the state and the outcomes of an item. Returns the examples for the ranker, by reviewer.

    None: nobody has decided about it.

    Only decisions that settle a revision count (see `settlement`).
    """
    if _update_undecided(db, key, summaries):
        return None
    overlap = read_overlap(db, key[0])
    in_force = {revision: read_decisions_in_force(db, key, revision) for revision in list_decided_revisions(db, key)}
    settlements = {revision: settle(decisions, overlap) for revision, decisions in in_force.items()}
    row = db.execute(SELECT_ITEM, key).fetchone()
    current: tuple[int, Shown] | None = None
    item: CurrentItem | None = None
    hidden: Sequence[Decision] = ()
    if row is not None:
        number, revision, reason, old_state, task, inclusion = row
        state = old_state
        settlement = settlements.setdefault(revision, settle((), overlap))
        if state != TASK_DELETION_STATE:
            gone = is_deleted_with_task(revision, read_task_deletion(db, key[0], task))
            state = derive_item_state(reason, settlement, deleted_with_task=gone)
        # Also of a closed item: decisions that lack others stay hidden.
        complete = settlement.state != "open"
        if state != old_state:
            _count_new_state(db, number, state, summaries)
        db.execute("UPDATE items SET state = ?, complete = ? WHERE no = ?", (state, complete, number))
        item = CurrentItem(revision, reason, state, inclusion)
        hidden = () if complete else in_force.get(revision, ())
        needs_shown = any(decision.shown is None for decision in in_force.get(revision, ()))
        if needs_shown and reason not in CLOSING_REASONS:
            (value,) = db.execute("SELECT value FROM bodies WHERE item = ?", (number,)).fetchone()
            current = (revision, build_shown(Assessment.model_validate_json(value), ranker_epoch=0))
    examples: dict[str, RankerExample] = {}
    by_revision: dict[int, list[ShownDecision]] = {}
    for decision in (each for _, settlement in sorted(settlements.items()) for each in settlement.counted):
        shown = _find_shown(decision, current)
        if shown is None:
            continue  # about a revision that is gone, and another program recorded it without what it was about
        by_revision.setdefault(decision.revision, []).append((decision, shown))
        words = extract_reviewed_words(decision, shown)
        if words is not None:
            examples[decision.reviewer] = RankerExample(shown.ranker_epoch, to_timestamp(decision.decided_at), words)
    drop_outcomes(db, key, summaries)
    _put_outcomes(db, key, by_revision, item, summaries)
    put_hidden_decisions(db, key, hidden, summaries)
    db.execute("DELETE FROM answers WHERE dataset = ? AND id = ?", key)
    for revision, decisions in in_force.items():
        complete = settlements[revision].state != "open"
        put_answers(db, key, revision, decisions, complete=complete, find_shown=lambda each: _find_shown(each, current))
    return examples


def _update_undecided(db: sqlite3.Connection, key: SentenceKey, summaries: Summaries) -> bool:
    """Updates the state of an item that nobody has decided about; False if somebody has, or had before it was erased.

    Most items are such: one query instead of eight.
    """
    row = db.execute(SELECT_UNDECIDED, key).fetchone()
    if row is None:
        return False
    number, revision, reason, state, task, complete, has_decisions = row
    if has_decisions:
        return False
    new_state = state
    if state != TASK_DELETION_STATE:
        gone = is_deleted_with_task(revision, read_task_deletion(db, key[0], task))
        new_state = derive_item_state(reason, OPEN_SETTLEMENT, deleted_with_task=gone)
    if new_state != state:
        _count_new_state(db, number, new_state, summaries)
    if new_state != state or complete:
        db.execute("UPDATE items SET state = ?, complete = 0 WHERE no = ?", (new_state, number))
    return True


def _count_new_state(db: sqlite3.Connection, number: int, state: str, summaries: Summaries) -> None:
    """To be called before the state is written."""
    group, summary = read_item_summary(db, number)
    summaries.move(group, group._replace(state=state), summary.list_values(group.reason))


def _find_shown(decision: Decision, current: tuple[int, Shown] | None) -> Shown | None:
    if decision.shown is None and current is not None and current[0] == decision.revision:
        return current[1]
    return decision.shown


def _put_outcomes(
    db: sqlite3.Connection,
    key: SentenceKey,
    by_revision: dict[int, list[ShownDecision]],
    item: CurrentItem | None,
    summaries: Summaries,
) -> None:
    for revision, shown_decisions in sorted(by_revision.items()):
        verdict = compute_majority_verdict([decision for decision, _ in shown_decisions])
        if verdict is None:
            continue
        shown = shown_decisions[0][1]
        days = (to_utc_day(decision.decided_at) or "" for decision, _ in shown_decisions)
        outcome = OutcomeRow(
            *key,
            revision=revision,
            verdict=verdict,
            reason=shown.reason,
            inclusion=shown.inclusion_probability,
            annotator=shown.annotator,
            day=max(days, default="") or None,
            batch=shown.batch,
        )
        put_outcome(db, outcome.with_item(item), summaries)
        if shown.reason == "control":
            continue  # nothing was flagged, so no flag was right or wrong
        for given, suggested, wrong in _compute_pair_outcomes(shown_decisions, verdict):
            put_pair(db, PairRow(*key, revision, given, suggested, shown.method, wrong), summaries)


def _compute_pair_outcomes(shown_decisions: list[ShownDecision], verdict: str) -> list[tuple[str, str, bool]]:
    """(given type, suggested type, whether the given label is wrong) for each flag that the decisions say something of.

    An error that names no word confirms the flag with the lowest probability and says nothing of the others.
    """
    flags = shown_decisions[0][1].doubtful
    if verdict == "ok":
        return [(get_entity_type(flag.given), get_entity_type(flag.suggested), False) for flag in flags]
    wrong_words: set[int] = set()
    for decision, shown in shown_decisions:
        if decision.verdict == "error":
            wrong_words |= find_wrong_words(decision, shown) or frozenset()
    if not wrong_words:
        flags = tuple(sorted(flags, key=lambda flag: flag.p_given)[:1])
        wrong_words = {flag.index for flag in flags}
    return [(get_entity_type(flag.given), get_entity_type(flag.suggested), flag.index in wrong_words) for flag in flags]
