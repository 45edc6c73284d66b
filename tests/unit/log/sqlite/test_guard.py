"""A log whose file is gone or whose disk is full is not written to; everything else goes on."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.log.protocol import BatchResult, CommitRefused, Output
from service.log.sqlite import guard
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()
ONE = Output(TOPICS.sentences, None, b"one")
RESERVE = 1_000


def read_values(log: SqliteLog) -> list[bytes | None]:
    return [record.value for record in log.read(TOPICS.sentences, 0, 100)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_file_accepts_nothing(path: Path, replaced: bool) -> None:
    with closing(SqliteLog(path, TOPICS)) as log:
        log.append([ONE])
        for beside in path.parent.glob("log.sqlite*"):
            beside.unlink()
        if replaced:
            path.touch()
        with pytest.raises(StreamError, match="was deleted or replaced while labelwatch was running") as refused:
            log.append([ONE])
        assert "Without the file, a restart begins an empty log, without keys and settings" in str(refused.value)
        assert read_values(log) == [b"one"]


def test_below_the_reserve_reading_goes_on_and_writing_resumes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [RESERVE]
    monkeypatch.setattr(guard, "read_free_bytes", lambda _: free[0])
    with closing(SqliteWorkerSession(path, TOPICS, reserve_bytes=RESERVE)) as session:
        session.append([ONE])
        session.poll_rebalance()
        free[0] = RESERVE - 1
        with pytest.raises(StreamError, match=r"nothing is written below 0 MB \(LABELWATCH_LOG_RESERVE_BYTES\)"):
            session.append([ONE])
        assert read_values(session) == [b"one"]
        assert len(session.poll(max_records=10, timeout=0)) == 0
        assert "free some space" in session.warnings[0]
        free[0] = RESERVE
        assert session.warnings == ()
        batch = session.poll(max_records=10, timeout=0)
        assert len(batch) == 1
        free[0] = 0  # while the batch is judged
        with pytest.raises(CommitRefused):
            session.commit(BatchResult(batch))
        free[0] = RESERVE
        session.poll_rebalance()
        assert len(session.poll(max_records=10, timeout=0)) == 1
        session.append([ONE])


def test_a_full_log_opens_and_frees_space(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteLog(path, TOPICS)) as log:
        log.append([ONE])
    monkeypatch.setattr(guard, "read_free_bytes", lambda _: 0)
    with closing(SqliteWorkerSession(path, TOPICS, reserve_bytes=RESERVE)) as session:
        assert read_values(session) == [b"one"]
        session._database.delete_before(TOPICS.sentences, 0)
        with session._database.write_transaction(frees_space=True):
            session._database.delete_before(TOPICS.sentences, 1)
        assert read_values(session) == []


def test_a_disk_that_is_full_in_the_middle_of_a_write_leaves_nothing_behind(path: Path) -> None:
    large = Output(TOPICS.sentences, None, b"x" * 200_000)
    with closing(SqliteLog(path, TOPICS)) as log:
        log.append([ONE])
        database = log._database._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        for _ in range(3):
            with pytest.raises(StreamError, match="full"):
                log.append([large, ONE])
        assert read_values(log) == [b"one"]
        database.execute("PRAGMA max_page_count = 100000")
        log.append([large])
        assert read_values(log) == [b"one", large.value]
