"""The embedded log looked at from outside: what each topic holds, without making, locking or changing anything."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import StreamError

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.topics import Topics


@dataclass(frozen=True, slots=True)
class TopicContent:
    name: str
    records: int
    first_offset: int  # of what is still there; the next offset where nothing is
    next_offset: int
    bytes: int


def describe_log_file(path: Path, topics: Topics) -> list[TopicContent]:
    """One entry a topic, in the order of the specs; a topic that nobody has written to is empty."""
    try:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=30)) as db:
            return [_describe_topic(db, spec.name) for spec in topics.list_specs()]
    except sqlite3.Error as error:
        raise StreamError(f"{path}: can't be read as a log: {error}") from error


def _describe_topic(db: sqlite3.Connection, topic: str) -> TopicContent:
    head = db.execute("SELECT next_offset FROM heads WHERE topic = ?", (topic,)).fetchone()
    end = 0 if head is None else int(head[0])
    records, first, size = db.execute(
        "SELECT count(*), min(offset), coalesce(sum(coalesce(length(key), 0) + coalesce(length(value), 0)), 0)"
        " FROM records WHERE topic = ?",
        (topic,),
    ).fetchone()
    return TopicContent(topic, records, end if first is None else first, end, size)
