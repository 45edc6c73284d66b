"""Checks that a file is an embedded log and that nothing in it is damaged, and finds what is left of one that is gone."""

from __future__ import annotations

import glob
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.sqlite.database import SCHEMA_VERSION
from service.sqlite_errors import translate_sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MAX_PROBLEMS = 5
FILE_HEADER = b"SQLite format 3\0"
LOG_TABLES = frozenset({"records", "heads"})
SIDE_FILES = ("-wal", "-shm")  # SQLite removes them when the last process closes the file
REPLACED = ".replaced-"  # between the name of the log and the time at which a restore has moved it aside


def is_log_file(path: Path) -> bool:
    """Whether the file is an embedded log: a copy, or one that a restore has moved aside."""
    try:
        with path.open("rb") as file:
            if file.read(len(FILE_HEADER)) != FILE_HEADER:
                return False
        with closing(_open_read_only(path)) as db:
            return _list_tables(db) >= LOG_TABLES
    except (OSError, sqlite3.Error):
        return False


def find_leftovers(path: Path, others: Iterable[Path]) -> list[Path]:
    """Files that say that there was a log at `path`: its own, and those of `others` that are in its folder."""
    own = [path.with_name(path.name + suffix) for suffix in SIDE_FILES]
    replaced = sorted(path.parent.glob(f"{glob.escape(path.name)}{REPLACED}*"))
    beside = [other for other in others if other.parent.resolve() == path.parent.resolve()]
    return [file for file in (*own, *beside, *replaced) if file.exists()]


def describe_missing_log(path: Path, others: Iterable[Path]) -> str:
    """That there was a log at `path`, and what to do; empty if the log is there, or nothing is left of one."""
    left = [] if path.exists() else find_leftovers(path, others)
    if not left:
        return ""
    names = f"{', '.join(file.name for file in left)} {'is' if len(left) == 1 else 'are'} left beside it"
    return (
        f"{path} is missing, and {names}: move the file back, or restore a backup with `labelwatch restore`. To start "
        "over with an empty log, without keys and settings, move what is left away or remove it"
    )


def find_damage(path: Path) -> list[str]:
    """What is wrong with the tables of a SQLite file, at most `MAX_PROBLEMS` lines. Reads all of the file."""
    with translate_sqlite_errors(StreamError, f"{path}: can't be read"), closing(_open_read_only(path)) as db:
        return _find_damaged_pages(db)


def find_log_damage(path: Path) -> list[str]:
    """As `find_damage`, for an embedded log: also offsets that contradict each other.

    Raises `StreamError` if the file is not an embedded log, or one of a newer release.
    """
    with translate_sqlite_errors(StreamError, f"{path}: can't be read as a log"), closing(_open_read_only(path)) as db:
        if not _list_tables(db) >= LOG_TABLES:
            raise StreamError(f"{path}: is not a log of labelwatch: it lacks the tables records and heads")
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            raise StreamError(f"{path}: a newer labelwatch has written it (format {version}): update labelwatch")
        return _find_damaged_pages(db) or list(_find_wrong_offsets(db))[:MAX_PROBLEMS]


def _list_tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _open_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)


def _find_damaged_pages(db: sqlite3.Connection) -> list[str]:
    problems = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")]
    return [] if problems == ["ok"] else [line for problem in problems for line in problem.splitlines()][:MAX_PROBLEMS]


def _find_wrong_offsets(db: sqlite3.Connection) -> Iterator[str]:
    """Topics with a record at or after their next offset: a new record would overwrite it or be refused."""
    query = (
        "SELECT r.topic, max(r.offset), h.next_offset FROM records AS r LEFT JOIN heads AS h ON h.topic = r.topic"
        " GROUP BY r.topic HAVING h.next_offset IS NULL OR max(r.offset) >= h.next_offset"
    )
    for topic, last_offset, next_offset in db.execute(query):
        yield f"{topic} has a record at offset {last_offset}, and its next offset is {next_offset or 0}"
