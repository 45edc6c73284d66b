from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.log.protocol import BatchResult, Output
from service.log.sqlite.retention import Retention
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()
EXPIRED = Retention(max_age_ms=-1_000)
FULL = Retention(max_bytes=1)


def open_session(path: Path, retention: Retention) -> SqliteWorkerSession:
    return SqliteWorkerSession(path, TOPICS, retention=retention)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    with closing(open_session(path, Retention())) as session:
        topics = (TOPICS.sentences, TOPICS.dead_letters, TOPICS.review)
        session.append([Output(topic, b"%d" % number, b"x" * 500) for topic in topics for number in range(100)])
    return path


def list_offsets(session: SqliteWorkerSession, topic: str) -> list[int]:
    return [record.offset for record in session.read(topic, 0, 1_000)]


def test_age_deletes_old_records_but_no_unread_and_no_compacted_ones(path: Path) -> None:
    with closing(open_session(path, EXPIRED)) as session:
        session.prune(consumed_offset=90)
        assert list_offsets(session, TOPICS.sentences) == list(range(90, 100))
        assert list_offsets(session, TOPICS.dead_letters) == []
        assert list_offsets(session, TOPICS.review) == list(range(100))


def test_size_deletes_the_oldest_tenth_but_no_unread_records(path: Path) -> None:
    with closing(open_session(path, FULL)) as session:
        session.prune(consumed_offset=100)
        assert list_offsets(session, TOPICS.sentences) == list(range(10, 100))
        session.prune(consumed_offset=12)
        assert list_offsets(session, TOPICS.sentences) == list(range(12, 100))
        assert list_offsets(session, TOPICS.review) == list(range(100))


def test_without_limits_nothing_is_deleted(path: Path) -> None:
    with closing(open_session(path, Retention())) as session:
        session.prune(consumed_offset=100)
        assert list_offsets(session, TOPICS.sentences) == list(range(100))


def test_records_that_were_deleted_before_the_position_are_reported_as_lost(path: Path) -> None:
    with closing(open_session(path, Retention())) as session:
        session.poll_rebalance()
        session.commit(BatchResult(session.poll(max_records=10, timeout=0.0)))
    with closing(open_session(path, EXPIRED)) as session:
        session.prune(consumed_offset=40)
        (assignment,) = session.poll_rebalance().assigned
        assert (assignment.next_offset, assignment.lost_records) == (40, 30)
        assert session.poll(max_records=10, timeout=0.0).next_offsets == {0: 50}
