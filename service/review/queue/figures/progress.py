"""How far reviewers have come since a time, such as the start of a reviewer's day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import Field

from service.contracts import Message
from service.review.queue.figures.overview import count_items
from service.review.queue.filters import QueueFilter, count_matching

if TYPE_CHECKING:
    import sqlite3

RATE_PERIOD = timedelta(hours=1)


class Progress(Message):
    """Decisions count once per reviewer and item. A changed decision has the time of its change."""

    since: datetime
    decided: int = Field(description="Decisions since then that are not withdrawn")
    decided_by_reviewer: int | None = Field(default=None, description="Those of the reviewer; null without one")
    last_hour: int = Field(description="Decisions of the last hour, of the reviewer if one is named")
    open: int = Field(description="Open items")
    unsure: int = Field(description="Decided items that somebody is unsure about")


def read_progress(
    db: sqlite3.Connection, *, dataset: str | None, reviewer: str | None, since: datetime, now: datetime
) -> Progress:
    def count(after: datetime, by: str | None) -> int:
        query = (
            "SELECT count(*) FROM decisions WHERE decided_at >= ? AND verdict <> 'withdrawn'"
            " AND dataset = coalesce(?, dataset) AND reviewer = coalesce(?, reviewer)"
        )
        return int(db.execute(query, (after.timestamp(), dataset, by)).fetchone()[0])

    unsure = QueueFilter(dataset=dataset, state="decided", verdict="unsure")
    return Progress(
        since=since,
        decided=count(since, None),
        decided_by_reviewer=None if reviewer is None else count(since, reviewer),
        last_hour=count(now - RATE_PERIOD, reviewer),
        open=count_items(db, None if dataset is None else (dataset,))["open"],
        unsure=count_matching(db, unsure, now=now.timestamp()),
    )
