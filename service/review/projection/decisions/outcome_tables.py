"""Outcomes, label pairs and hidden decisions in the tables of the review queue, and their counts in the summaries."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from service.review.projection.summaries import Group, encode_number, to_name_value

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from service.contracts import Decision
    from service.review.projection.summaries import Summaries
    from service.review.review_state import SentenceKey


class CurrentItem(NamedTuple):
    """The item that the queue holds of a sentence."""

    revision: int
    reason: str
    state: str
    inclusion: float | None


class OutcomeRow(NamedTuple):
    """What was decided about a revision. The last three columns are those of its item; None if the queue holds another revision."""

    dataset: str
    id: str
    revision: int
    verdict: str
    reason: str
    inclusion: float | None
    annotator: str | None
    day: str | None
    batch: str | None
    item_reason: str | None = None
    item_state: str | None = None
    item_inclusion: float | None = None

    def with_item(self, item: CurrentItem | None) -> OutcomeRow:
        if item is None or item.revision != self.revision:
            return self
        return self._replace(item_reason=item.reason, item_state=item.state, item_inclusion=item.inclusion)

    def list_values(self) -> Iterator[tuple[str, str]]:
        """Its value in each dimension. For the recall: what is decided of the control sentences, and of the flagged items."""
        yield "outcome", ""
        if self.day is not None:
            yield "outcome_day", self.day
        yield to_name_value("outcome_annotator", self.annotator)
        is_closed = self.item_state == "closed"
        if self.item_reason == "control":
            yield "closed_control" if is_closed else "decided_control", encode_number(self.item_inclusion)
        elif self.item_reason == "flagged" and not is_closed:
            yield "decided_flagged", ""
        elif self.item_reason is None and self.reason == "control":
            yield "superseded_control", encode_number(self.inclusion)

    def add_to(self, summaries: Summaries, n: int) -> None:
        summaries.add(Group(self.dataset, self.reason, self.verdict), self.list_values(), n)


class PairRow(NamedTuple):
    """Whether the given label of a flag was wrong, by the types of both labels and the method."""

    dataset: str
    id: str
    revision: int
    given: str
    suggested: str
    method: str
    wrong: bool

    def add_to(self, summaries: Summaries, n: int) -> None:
        value = _encode_pair(self.given, self.suggested, self.method)
        summaries.add(Group(self.dataset, "", "wrong" if self.wrong else "right"), [("pair", value)], n)


@lru_cache(maxsize=4096)
def _encode_pair(given: str, suggested: str, method: str) -> str:
    return json.dumps([given, suggested, method], ensure_ascii=False)


def put_outcome(db: sqlite3.Connection, row: OutcomeRow, summaries: Summaries) -> None:
    db.execute("INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    row.add_to(summaries, 1)


def put_pair(db: sqlite3.Connection, row: PairRow, summaries: Summaries) -> None:
    db.execute("INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    row.add_to(summaries, 1)


def drop_outcomes(db: sqlite3.Connection, key: SentenceKey, summaries: Summaries) -> None:
    """Drops the outcomes and the pairs of a sentence."""
    for row in db.execute("SELECT * FROM outcomes WHERE dataset = ? AND id = ?", key):
        OutcomeRow(*row).add_to(summaries, -1)
    for row in db.execute("SELECT * FROM pairs WHERE dataset = ? AND id = ?", key):
        PairRow(*row).add_to(summaries, -1)
    db.execute("DELETE FROM outcomes WHERE dataset = ? AND id = ?", key)
    db.execute("DELETE FROM pairs WHERE dataset = ? AND id = ?", key)


def put_hidden_decisions(
    db: sqlite3.Connection, key: SentenceKey, decisions: Iterable[Decision], summaries: Summaries
) -> None:
    """Stores how many decisions about the item are hidden because it lacks others, in place of the last number."""
    after: Counter[str] = Counter(decision.verdict for decision in decisions)
    query = "SELECT verdict, n FROM hidden_decisions WHERE dataset = ? AND id = ?"
    before: dict[str, int] = dict(db.execute(query, key).fetchall())
    if before == after:
        return
    db.execute("DELETE FROM hidden_decisions WHERE dataset = ? AND id = ?", key)
    db.executemany("INSERT INTO hidden_decisions VALUES (?, ?, ?, ?)", [(*key, *entry) for entry in after.items()])
    for verdict in {*before, *after}:
        change = after.get(verdict, 0) - before.get(verdict, 0)
        summaries.add(Group(key[0], "", verdict), [("hidden", "")], change)
