"""The file of the queue: it belongs to one process, and can be deleted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.errors import SettingsError, StateError
from service.review.projection.queue_file import QueueFile
from service.review.queue.queue import ReviewQueue
from tests.support.review_queue import (
    QueueHarness,
    make_decision_output,
    make_scored_output,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_two_processes_do_not_share_a_file(tmp_path: Path) -> None:
    first = ReviewQueue(tmp_path / "queue.sqlite")
    with pytest.raises(SettingsError, match="give each process its own file"):
        ReviewQueue(tmp_path / "queue.sqlite")
    first.close()
    ReviewQueue(tmp_path / "queue.sqlite").close()


def test_a_file_of_an_earlier_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "queue.sqlite"
    path.parent.mkdir()
    path.write_bytes(b"not a database")
    queue = ReviewQueue(path)
    assert queue.count_items() == {"open": 0, "adjudication": 0, "decided": 0, "closed": 0}
    queue.close()
    queue.close()
    with pytest.raises(StateError, match="closed"):
        queue.count_items()


def test_a_file_that_is_deleted_is_built_again(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1), make_scored_output("b", 0.2), make_decision_output("a", "ok"))
    harness.queue.file.path.unlink()
    harness.catch_up()
    harness.catch_up()
    assert harness.list_ids() == ["b"]
    assert harness.queue.file.path.exists()


@pytest.mark.parametrize("same", [False, True])
def test_without_its_folder_the_queue_waits_until_the_folder_is_back(tmp_path: Path, same: bool) -> None:
    folder, aside = tmp_path / "data", tmp_path / "aside"
    with closing(QueueFile(folder / "queue.sqlite")) as file:
        folder.rename(aside)
        for _ in range(2):  # the first attempt has closed the connections
            with pytest.raises(StateError, match=r"the review queue at .*queue\.sqlite failed: No such file"):
                file.clear()
            with pytest.raises(StateError), file.read_transaction():
                pass
        if same:
            aside.rename(folder)
        else:
            folder.mkdir()
        file.clear()
        with file.read_transaction() as db:
            assert db.execute("SELECT count(*) FROM items").fetchone() == (0,)


def test_changes_can_be_waited_for(harness: QueueHarness) -> None:
    harness.write(make_scored_output("a", 0.1))
    before = harness.queue.version
    harness.catch_up()
    assert harness.queue.version == before
    harness.write(make_decision_output("a", "ok"))
    assert harness.queue.version > before


def test_a_new_file_has_its_tables_as_soon_as_it_exists(harness: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.write(make_scored_output("a", 0.1))
    item_counts: list[int | None] = []
    connect = QueueFile._connect

    def connect_and_count(file: QueueFile, path: Path) -> sqlite3.Connection:
        connection = connect(file, path)
        if file.path.exists():
            with closing(sqlite3.connect(file.path)) as other:
                item_counts.append(other.execute("SELECT count(*) FROM items").fetchone()[0])
        else:
            item_counts.append(None)
        return connection

    monkeypatch.setattr(QueueFile, "_connect", connect_and_count)
    harness.queue.file.path.unlink()
    harness.catch_up()
    assert item_counts == [None, 0]
    assert harness.list_ids() == ["a"]
    assert sorted(path.name for path in harness.queue.file.path.parent.glob("*.new*")) == []
