"""Describes the topics of an embedded log without creating, locking or changing its file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.sqlite_errors import translate_sqlite_errors

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.topics import Topics


@dataclass(frozen=True, slots=True)
class TopicContent:
    name: str
    records: int
    first_offset: int  # the next offset if the topic is empty
    next_offset: int
    bytes: int


def describe_log_file(path: Path, topics: Topics) -> list[TopicContent]:
    """One entry per topic, in the order of `Topics.list_specs`. A topic that was never written to is empty."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with (
        translate_sqlite_errors(StreamError, f"{path}: can't be read as a log"),
        closing(sqlite3.connect(uri, uri=True, timeout=30)) as db,
    ):
        return [_describe_topic(db, spec.name) for spec in topics.list_specs()]


def _describe_topic(db: sqlite3.Connection, topic: str) -> TopicContent:
    head = db.execute("SELECT next_offset FROM heads WHERE topic = ?", (topic,)).fetchone()
    next_offset = 0 if head is None else int(head[0])
    records, first_offset, size = db.execute(
        "SELECT count(*), min(offset), coalesce(sum(coalesce(length(key), 0) + coalesce(length(value), 0)), 0)"
        " FROM records WHERE topic = ?",
        (topic,),
    ).fetchone()
    return TopicContent(topic, records, next_offset if first_offset is None else first_offset, next_offset, size)
