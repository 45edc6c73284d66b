"""Errors of the embedded log's file: what they say."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()
REMEDY = "`labelwatch check` says what is damaged; stop the service and restore a backup with `labelwatch restore`"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    with closing(SqliteLog(path, TOPICS)) as log:
        log.append([Output(TOPICS.sentences, None, b"x" * 1000)] * 100)
    return path


def test_a_damaged_log_names_the_commands_that_help(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    with closing(SqliteLog(path, TOPICS)) as log, pytest.raises(StreamError) as failed:
        log.read(TOPICS.sentences, 0, 100)
    assert str(failed.value) == f"the embedded log failed: database disk image is malformed: {REMEDY}"


def test_a_file_that_is_no_log_names_them_too(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StreamError) as failed:
        SqliteLog(path, TOPICS)
    assert str(failed.value) == f"the embedded log failed: file is not a database: {REMEDY}"


def test_other_errors_name_no_backup(path: Path) -> None:
    log = SqliteLog(path, TOPICS)
    log.close()
    with pytest.raises(StreamError) as failed:
        log.read(TOPICS.sentences, 0, 100)
    assert str(failed.value) == "the embedded log failed: Cannot operate on a closed database."
