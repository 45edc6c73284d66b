"""What the embedded log adds to the conformance suite: one worker per file, formats, retention while it runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.log.protocol import BatchResult, Output
from service.log.sqlite import session as session_module
from service.log.sqlite.database import PARTITION
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.retention import Retention
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


def append_sentences(path: Path, count: int) -> None:
    with closing(SqliteLog(path, TOPICS)) as log:
        log.append([Output(TOPICS.sentences, None, b"%d" % number) for number in range(count)])


def test_a_second_worker_is_refused_until_the_first_has_closed(path: Path) -> None:
    first = SqliteWorkerSession(path, TOPICS)
    with pytest.raises(
        StreamError, match=r"another worker is running on .*: stop it, or use Kafka for several workers"
    ):
        SqliteWorkerSession(path, TOPICS)
    first.close()
    SqliteWorkerSession(path, TOPICS).close()


def test_logs_and_a_replay_session_work_beside_the_worker(path: Path) -> None:
    append_sentences(path, 3)
    replay_topics = Topics("replay.", TOPICS.sentences)
    with (
        closing(SqliteWorkerSession(path, TOPICS)) as worker,
        closing(SqliteWorkerSession(path, replay_topics, exclusive=False)) as replay,
    ):
        for session in (worker, replay):
            session.poll_rebalance()
            session.commit(BatchResult(session.poll(max_records=2, timeout=0.0)))
            assert session.lag() == {PARTITION: 1}


def test_a_file_that_cannot_be_opened_leaves_the_lock_free(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    for _ in range(2):
        with pytest.raises(StreamError, match=r"written by a newer labelwatch \(format 99\): update labelwatch"):
            SqliteWorkerSession(path, TOPICS)


def test_a_session_without_an_assignment_reads_nothing(path: Path) -> None:
    append_sentences(path, 1)
    with closing(SqliteWorkerSession(path, TOPICS)) as session:
        assert len(session.poll(max_records=1, timeout=0.0)) == 0
        (assignment,) = session.poll_rebalance().assigned
        assert (assignment.partition, assignment.next_offset) == (PARTITION, 0)
        assert session.poll_rebalance().assigned == ()
        assert len(session.poll(max_records=1, timeout=0.0)) == 1


def test_commits_apply_the_retention(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "PRUNE_INTERVAL_S", 0.0)
    append_sentences(path, 10)
    with closing(SqliteWorkerSession(path, TOPICS, retention=Retention(max_age_ms=-1_000))) as session:
        session.poll_rebalance()
        session.commit(BatchResult(session.poll(max_records=4, timeout=0.0)))
        assert [record.offset for record in session.read(TOPICS.sentences, 0, 100)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("mode", [None, 0o644])
def test_only_the_owner_can_read_the_files_of_the_log(tmp_path: Path, mode: int | None) -> None:
    """They hold the text of every sentence."""
    path = tmp_path / "log.sqlite"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    log = SqliteWorkerSession(path, Topics())
    try:
        log.append([Output("labelwatch.sentences", None, b"{}")])
        for name in ("log.sqlite", "log.sqlite-shm", "log.sqlite-wal"):
            assert oct((tmp_path / name).stat().st_mode & 0o777) == "0o600", name
    finally:
        log.close()
