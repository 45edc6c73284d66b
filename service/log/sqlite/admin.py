"""Describes the topics of an embedded log without creating, locking or changing its file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from service.errors import StreamError
from service.log.codec import decode_headers
from service.log.protocol import Record
from service.log.sqlite.database import PARTITION
from service.sqlite_errors import translate_sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.log.protocol import Headers
    from service.log.topics import Topics


NO_HEADERS: Final[Headers] = ()
READ_ROWS: Final = 1_000
READ_QUERY: Final = "SELECT offset, key, value, headers, timestamp_ms FROM records WHERE topic = ? AND offset >= ? ORDER BY offset LIMIT ?"


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


def read_log_file(path: Path, topic: str) -> Iterator[tuple[Record, str]]:
    """As `read_rows`, from a file that is not changed."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with (
        translate_sqlite_errors(StreamError, f"{path}: can't be read as a log"),
        closing(sqlite3.connect(uri, uri=True, timeout=30)) as db,
    ):
        yield from read_rows(db, topic)


def read_rows(db: sqlite3.Connection, topic: str) -> Iterator[tuple[Record, str]]:
    """The records of a topic, each with why its row can't be read (empty if it can), one row in memory at a time."""
    db.text_factory = _decode_text
    next_offset, found = 0, True
    while found:
        # One short read after the other: a long one would keep the service from emptying its write-ahead log.
        found = False
        with closing(db.execute(READ_QUERY, (topic, next_offset, READ_ROWS))) as rows:
            for row in rows:
                found, next_offset = True, row[0] + 1
                yield _read_row(topic, row)


def list_topic_names(db: sqlite3.Connection) -> list[str]:
    """All topics that were ever written to, of all prefixes."""
    return [name for (name,) in db.execute("SELECT topic FROM heads ORDER BY topic")]


def _decode_text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _read_row(topic: str, row: tuple[int, object, object, str, int]) -> tuple[Record, str]:
    offset, key, value, headers, timestamp_ms = row
    problem, parsed = "", NO_HEADERS
    try:
        parsed = decode_headers(headers)
    except (ValueError, TypeError, AttributeError):
        problem = "its headers can't be read"
    if not all(part is None or isinstance(part, bytes) for part in (key, value)):
        problem = "its key or value is not binary"
    if problem:
        return Record(topic, PARTITION, offset, None, None), problem
    return Record(
        topic, PARTITION, offset, cast("bytes | None", key), cast("bytes | None", value), parsed, timestamp_ms
    ), ""


def _describe_topic(db: sqlite3.Connection, topic: str) -> TopicContent:
    head = db.execute("SELECT next_offset FROM heads WHERE topic = ?", (topic,)).fetchone()
    next_offset = 0 if head is None else int(head[0])
    records, first_offset, size = db.execute(
        "SELECT count(*), min(offset), coalesce(sum(coalesce(length(key), 0) + coalesce(length(value), 0)), 0)"
        " FROM records WHERE topic = ?",
        (topic,),
    ).fetchone()
    return TopicContent(topic, records, next_offset if first_offset is None else first_offset, next_offset, size)
