"""Backups of the embedded log."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.log.protocol import Output
from service.log.sqlite.backup import back_up_log, restore_log
from service.log.sqlite.integrity import find_log_damage
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()


def append(log: SqliteLog, *values: str) -> None:
    log.append([Output(TOPICS.sentences, None, value.encode()) for value in values])


def read_values(path: Path) -> list[str]:
    with closing(SqliteLog(path, TOPICS)) as log:
        return [(record.value or b"").decode() for record in log.read(TOPICS.sentences, 0, 1_000_000)]


def overwrite_pages(path: Path) -> None:
    """Overwrites everything behind the first page, which holds the schema."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    with closing(SqliteLog(path, TOPICS)) as log:
        append(log, *(f"sentence {number} " + "x" * 500 for number in range(200)))
    return path


def test_a_backup_is_one_file_of_one_moment_for_its_owner(tmp_path: Path) -> None:
    path, backup = tmp_path / "log.sqlite", tmp_path / "backup" / "monday.sqlite"
    backup.parent.mkdir()
    with closing(SqliteLog(path, TOPICS)) as log:
        append(log, "one", "two")
        size = back_up_log(path, backup)  # the records are only in the write-ahead log yet
        append(log, "three")
    assert [file.name for file in backup.parent.iterdir()] == ["monday.sqlite"]
    assert size == backup.stat().st_size
    assert backup.stat().st_mode & 0o777 == 0o600
    assert read_values(backup) == ["one", "two"]


def test_each_backup_beside_a_writer_holds_whole_transactions(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    stop = threading.Event()

    def write_pairs() -> None:
        with closing(SqliteLog(path, TOPICS)) as log:
            while not stop.is_set():
                append(log, "first of a pair", "second of a pair")

    SqliteLog(path, TOPICS).close()
    writer = threading.Thread(target=write_pairs)
    writer.start()
    try:
        counts = []
        for number in range(5):
            back_up_log(path, tmp_path / f"{number}.sqlite")
            counts.append(len(read_values(tmp_path / f"{number}.sqlite")))
    finally:
        stop.set()
        writer.join()
    assert all(count % 2 == 0 for count in counts)
    assert counts == sorted(counts)


def test_a_restored_log_continues_where_the_backup_ended(log_path: Path, tmp_path: Path) -> None:
    backup, replaced = tmp_path / "backup.sqlite", tmp_path / "replaced.sqlite"
    expected = read_values(log_path)
    back_up_log(log_path, backup)
    with closing(SqliteLog(log_path, TOPICS)) as log:
        append(log, "after the backup")
    restore_log(backup, log_path, replaced=replaced)
    assert read_values(log_path) == expected
    assert read_values(replaced) == [*expected, "after the backup"]
    with closing(SqliteLog(log_path, TOPICS)) as log:
        append(log, "new")
        assert log.read(TOPICS.sentences, 200, 10)[0].offset == 200
    assert log_path.stat().st_mode & 0o777 == 0o600


def test_a_log_in_use_is_not_replaced(log_path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.sqlite"
    back_up_log(log_path, backup)
    with closing(SqliteLog(log_path, TOPICS)) as log:
        append(log, "after the backup")
        with pytest.raises(StreamError, match=r"is in use .*: stop labelwatch first"):
            restore_log(backup, log_path, replaced=tmp_path / "replaced.sqlite")
    assert read_values(log_path)[-1] == "after the backup"
    assert not (tmp_path / "replaced.sqlite").exists()


def test_an_existing_log_is_refused_unless_it_may_be_moved(log_path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.sqlite"
    back_up_log(log_path, backup)
    with pytest.raises(StreamError, match="exists"):
        restore_log(backup, log_path)
    assert len(read_values(log_path)) == 200
    assert not list(tmp_path.glob("*.new*"))


def test_damage_is_found_and_neither_backed_up_nor_restored(log_path: Path, tmp_path: Path) -> None:
    backup, damaged = tmp_path / "backup.sqlite", tmp_path / "damaged.sqlite"
    back_up_log(log_path, backup)
    damaged.write_bytes(backup.read_bytes())
    overwrite_pages(damaged)
    with pytest.raises(StreamError, match="damaged"):
        restore_log(damaged, tmp_path / "new.sqlite")
    assert not (tmp_path / "new.sqlite").exists()
    overwrite_pages(log_path)
    with pytest.raises(StreamError):
        back_up_log(log_path, tmp_path / "second.sqlite")
    assert not list(tmp_path.glob("second*"))
    restore_log(backup, log_path, replaced=tmp_path / "replaced.sqlite")
    assert len(read_values(log_path)) == 200


def test_offsets_that_contradict_each_other_are_damage(log_path: Path) -> None:
    assert find_log_damage(log_path) == []
    with closing(sqlite3.connect(log_path)) as db:
        db.execute("UPDATE heads SET next_offset = 7")
        db.commit()
    assert find_log_damage(log_path) == ["labelwatch.sentences has a record at offset 199, and its next offset is 7"]


@pytest.mark.parametrize("statement", ["CREATE TABLE other (a)", "PRAGMA user_version = 99"])
def test_a_file_that_is_no_log_of_this_release_is_refused(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "other.sqlite"
    if "user_version" in statement:
        SqliteLog(path, TOPICS).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
    with pytest.raises(StreamError, match=r"is not a log of labelwatch|a newer labelwatch has written it"):
        restore_log(path, tmp_path / "log.sqlite")
