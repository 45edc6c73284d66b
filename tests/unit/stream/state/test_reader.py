from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from service.errors import NewerStateError, StateError
from service.log.codec import to_arrivals_key, to_position_key, to_position_value, to_state_key
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.statistics.arrivals import ArrivalCounts
from service.statistics.running import RunningStats
from service.stream.state.reader import apply_state_record, read_state, read_state_record
from service.stream.state.snapshot import ArrivalsRecord, StateRecord, StateSnapshot, StatsKey

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()
NEWS = StatsKey("news", "key/0")
KEY = to_state_key(3, *NEWS)
DELETE_HINT = (
    "Restore the record from a backup, or delete it by writing its key without a value to labelwatch.state. "
    "The statistics in it are lost then"
)


def build_stats(n_classes: int = 2) -> RunningStats:
    probs = np.full((4, n_classes), 1 / n_classes)
    return RunningStats.empty(n_classes).update(probs, np.zeros(4, np.intp), priority=0.5)


def to_value(**changes: Any) -> bytes:
    return json.dumps({**build_stats().snapshot(), **changes}).encode()


def test_statistics_tombstones_and_positions_are_told_apart() -> None:
    assert read_state_record(TOPICS.state, KEY, to_value()) == StateRecord(3, NEWS, build_stats())
    assert read_state_record(TOPICS.state, KEY, None) == StateRecord(3, NEWS, None)
    arrivals = to_arrivals_key(3, "news")
    counts = ArrivalCounts({"B-DRUG": 2}, waiting=1)
    value = json.dumps(counts.snapshot()).encode()
    assert read_state_record(TOPICS.state, arrivals, value) == ArrivalsRecord(3, "news", counts)
    assert read_state_record(TOPICS.state, arrivals, None) == ArrivalsRecord(3, "news", None)
    assert read_state_record(TOPICS.state, arrivals, b"not read", skip={3}) is None
    assert read_state_record(TOPICS.state, to_position_key(3), to_position_value(7)) is None
    assert read_state_record(TOPICS.state, KEY, b"not read", skip={3}) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"no JSON", "the value is not JSON: Expecting value"),
        (b"\xff", "the value is not JSON: 'utf-8' codec"),
        (b"[" * 100_000, "the value is not JSON: maximum recursion depth exceeded"),
        (b"[]", "the snapshot of running statistics should be an object, it is list"),
        (to_value(n_classes=0), "`n_classes` should be a number of classes, it is 0"),
        (to_value(extra=1), "the snapshot of running statistics has unknown fields extra"),
    ],
)
def test_an_unreadable_value_is_named_with_topic_key_dataset_and_remedy(value: bytes, problem: str) -> None:
    with pytest.raises(StateError) as error:
        read_state_record(TOPICS.state, KEY, value)
    message = str(error.value)
    assert message.startswith(
        f'the statistics of dataset news in labelwatch.state can\'t be read (key ["stats",3,"news","key/0"]): {problem}'
    )
    assert message.endswith(DELETE_HINT)
    assert not isinstance(error.value, NewerStateError)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (None, "a state record has the unreadable key b''"),
        (b"\xff", "a state record has the unreadable key b'\\xff'"),
        (b'["stats",1]', "a state record has the unreadable key"),
        (to_state_key(0, "No Name", "key/0"), "'No Name' is not a dataset name"),
    ],
)
def test_an_unreadable_key_is_named_with_topic_and_remedy(key: bytes | None, problem: str) -> None:
    with pytest.raises(StateError) as error:
        read_state_record(TOPICS.state, key, to_value())
    assert str(error.value).startswith("a record in labelwatch.state can't be read (key ")
    assert problem in str(error.value)
    assert str(error.value).endswith(DELETE_HINT)


def test_unreadable_counts_are_named() -> None:
    with pytest.raises(StateError, match=r"of dataset news in labelwatch.state can't be read .*the counts of arrivals"):
        read_state_record(TOPICS.state, to_arrivals_key(3, "news"), b"[]")
    with pytest.raises(StateError, match="'No Name' is not a dataset name"):
        read_state_record(TOPICS.state, to_arrivals_key(3, "No Name"), b"[]")


def test_statistics_that_do_not_fit_their_key_are_named_and_leave_the_draft_as_it_was() -> None:
    draft = StateSnapshot().start_draft()
    apply_state_record(draft, TOPICS.state, StateRecord(3, NEWS, build_stats()))
    with pytest.raises(StateError, match=r"dataset news in labelwatch.state .* statistics of 5 classes where the key"):
        apply_state_record(draft, TOPICS.state, StateRecord(4, NEWS, build_stats(5)))
    assert draft.to_snapshot().get_partitions(NEWS) == {3: build_stats()}


def test_commands_read_the_newest_record_of_each_key_and_the_positions(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    gone = to_state_key(1, "gone", "key/0")
    records: list[tuple[bytes, bytes | None]] = [
        (KEY, json.dumps(RunningStats.empty(2).snapshot()).encode()),
        (gone, to_value()),
        (to_position_key(3), to_position_value(7)),
        (KEY, to_value()),
        (gone, None),
    ]
    log.append([Output(TOPICS.state, key, value) for key, value in records])
    state = read_state(log, TOPICS)
    assert state.positions == {3: 7}
    assert state.snapshot.keys == {NEWS}
    assert state.snapshot.get_total(NEWS, None) == build_stats()
    log.append([Output(TOPICS.state, b'["position"]', to_position_value(7))])
    with pytest.raises(StateError, match="a position record has the unreadable key"):
        read_state(log, TOPICS)
    log.close()
