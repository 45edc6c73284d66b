"""The file that remembers webhook deliveries: shared, private, and bounded in number and age."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from service.api.ingest import delivery_file
from service.api.ingest.delivery_file import MAX_AGE_S, DeliveryFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "deliveries.sqlite"


@pytest.fixture
def file(path: Path) -> Iterator[DeliveryFile]:
    with closing(DeliveryFile(path)) as file:
        yield file


def test_other_processes_and_later_ones_find_a_delivery(file: DeliveryFile, path: Path) -> None:
    assert not file.contains_any(["a", "b"])
    file.add(["a", "b"])
    file.add(["b", "c"])
    with closing(DeliveryFile(path)) as other:
        assert [other.contains_any([key, "new"]) for key in "abcd"] == [True, True, True, False]
        assert not other.contains_any([])


def test_nobody_else_reads_it_and_no_event_is_in_it(file: DeliveryFile, path: Path) -> None:
    file.add(["a secret event"])
    files = sorted(path.parent.iterdir())
    assert path in files
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert not any(b"secret" in each.read_bytes() for each in files)


def test_the_oldest_deliveries_are_forgotten(file: DeliveryFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_file, "MAX_EVENT_KEYS", 4)
    for number in range(6):
        file.add([f"{number}"])
        file.add(["0"])  # a delivery that is seen again is new again
    assert [file.contains_any([f"{number}"]) for number in range(6)] == [True, False, False, False, True, True]


def test_deliveries_are_forgotten_after_a_day(file: DeliveryFile, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr("service.api.ingest.delivery_file.time.time", lambda: now[0])
    file.add(["a"])
    now[0] += MAX_AGE_S
    assert file.contains_any(["a"])
    now[0] += 1
    assert not file.contains_any(["a"])


def test_a_file_that_fails_is_tried_again_after_a_while(
    file: DeliveryFile, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_file, "RETRY_INTERVAL_S", 3600.0)
    path.mkdir(parents=True)
    file.add(["a"])
    assert not file.contains_any(["a"])
    assert len(caplog.records) == 1
    path.rmdir()
    file.add(["b"])
    assert not file.contains_any(["b"])
    assert not path.exists()
    monkeypatch.setattr(delivery_file, "RETRY_INTERVAL_S", 0.0)
    file.add(["c"])
    assert [file.contains_any([key]) for key in "abcd"] == [True, True, True, False]


def test_what_was_not_written_is_written_at_the_end(path: Path) -> None:
    path.mkdir(parents=True)
    with closing(DeliveryFile(path)) as file:
        file.add(["a"])
        path.rmdir()
    with closing(DeliveryFile(path)) as later:
        assert later.contains_any(["a"])


def test_of_the_deliveries_that_were_not_written_the_newest_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_file, "MAX_EVENT_KEYS", 2)
    monkeypatch.setattr(delivery_file, "RETRY_INTERVAL_S", 0.0)
    path.mkdir(parents=True)
    with closing(DeliveryFile(path)) as file:
        for key in "abc":
            file.add([key])
        path.rmdir()
        file.add([])
        assert [file.contains_any([key]) for key in "abc"] == [False, True, True]


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """As another process does that writes and does not end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield


def test_a_locked_file_is_read_but_not_waited_for_at_each_delivery(
    file: DeliveryFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_file, "RETRY_INTERVAL_S", 3600.0)
    file.add(["before"])
    with lock(path):
        file.add(["a"])
        assert file.contains_any(["before"])
    file.add(["b"])  # it could be written now, but it is not even tried
    assert not file.contains_any(["a", "b"])
    monkeypatch.setattr(delivery_file, "RETRY_INTERVAL_S", 0.0)
    file.add(["c"])
    assert all(file.contains_any([key]) for key in ("before", "a", "b", "c"))


def test_a_locked_file_is_reported_once(
    file: DeliveryFile, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it can be read is no sign that it can be written."""
    monkeypatch.setattr(delivery_file, "RETRY_INTERVAL_S", 0.0)
    file.add(["before"])
    for _ in range(2):
        caplog.clear()
        with lock(path):
            for number in range(3):
                assert not file.contains_any([f"new {number}"])
                file.add([f"{number}"])
        assert len(caplog.records) == 1
        file.add(["after"])
