from __future__ import annotations

import json
from typing import Any

import pytest

from service.errors import NewerStateError, StateError
from service.statistics.batches import MAX_BATCHES, MAX_SHARES, OTHER_SHARES, BatchCounts, DatasetBatches
from service.statistics.running import RunningStats


def count(
    batches: DatasetBatches, name: str, *, flagged: bool = False, drawn: bool = False, share: float = 0.05
) -> DatasetBatches:
    return batches.count(name, flagged=flagged, drawn=drawn, share=share, arrival_ms=7)


def test_sentences_are_counted_by_flag_and_control_share() -> None:
    batches = count(count(count(DatasetBatches(), "a", flagged=True), "a"), "a", share=0)
    assert batches.batches == {"a": BatchCounts(1, {"0.05": 1, "0.0": 1}, 7)}
    assert batches.batches["a"].sentences == 3


def test_sentences_of_the_control_sample_are_counted_too() -> None:
    one = count(count(DatasetBatches(), "a", drawn=True), "a")
    merged = one.merge(count(count(DatasetBatches(), "a", drawn=True), "a", drawn=True, share=0.1))
    assert merged.batches == {"a": BatchCounts(0, {"0.05": 3, "0.1": 1}, 7, {"0.05": 2, "0.1": 1})}
    assert DatasetBatches.restore(json.loads(merged.to_json())) == merged


def test_records_of_a_release_that_did_not_count_the_sample_are_read() -> None:
    snapshot = count(DatasetBatches(), "a", drawn=True).snapshot()
    assert isinstance(snapshot["batches"], list)
    del snapshot["batches"][0]["drawn"]
    assert DatasetBatches.restore(snapshot).batches == {"a": BatchCounts(0, {"0.05": 1}, 7)}


def test_the_batch_that_is_idle_for_the_longest_time_is_forgotten() -> None:
    batches = DatasetBatches()
    for number in range(MAX_BATCHES):
        batches = count(batches, f"b{number}")
    batches = count(count(batches, "b0"), "new")
    assert len(batches.batches) == MAX_BATCHES
    assert batches.batches["b0"].sentences == 2
    assert "b1" not in batches.batches
    assert batches.forgotten == 1


def test_further_control_shares_are_counted_together() -> None:
    batches = DatasetBatches()
    for number in range(MAX_SHARES + 2):
        batches = count(batches, "a", share=number / 100)
    assert batches.batches["a"].unflagged[OTHER_SHARES] == 2
    assert batches.batches["a"].sentences == MAX_SHARES + 2


def test_partitions_add_up() -> None:
    one, two = count(DatasetBatches(), "a"), count(count(DatasetBatches(forgotten=1), "a", flagged=True), "b")
    for merged in (one.merge(two), two.merge(one)):
        assert merged.batches == {"a": BatchCounts(1, {"0.05": 1}, 7), "b": BatchCounts(0, {"0.05": 1}, 7)}
        assert merged.forgotten == 1


def test_counts_are_restored_as_they_were_in_their_order() -> None:
    batches = count(count(count(DatasetBatches(), "ö"), "a", flagged=True), "ö", share=0.1)
    restored = DatasetBatches.restore(json.loads(batches.to_json()))
    assert restored == batches
    assert list(restored.batches) == ["a", "ö"]


def test_a_release_that_knows_only_statistics_reads_the_record_and_goes_on() -> None:
    assert RunningStats.restore(count(DatasetBatches(), "a").snapshot()) == RunningStats.empty(1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"batches": {}}, "`batches` should be a list"),
        ({"batches": [1]}, "`batches` should be a list of objects"),
        ({"batches": [{"name": ""}]}, "should have a name"),
        ({"batches": [{"name": "a", "flagged": -1, "unflagged": {}, "last_arrival_ms": 0}]}, "flagged sentences"),
        ({"batches": [{"name": "a", "flagged": 1, "unflagged": [], "last_arrival_ms": 0}]}, "object of counts"),
        ({"batches": [{"name": "a", "flagged": 1, "unflagged": {"2": 1}, "last_arrival_ms": 0}]}, "from 0 to 1"),
        ({"batches": [{"name": "a", "flagged": 1, "unflagged": {}, "last_arrival_ms": 0}] * 2}, "a name twice"),
        ({"forgotten": True}, "`forgotten` should be a number"),
        ({"extra": 1}, "unknown fields extra"),
    ],
)
def test_unreadable_counts_are_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(StateError, match=problem):
        DatasetBatches.restore({**DatasetBatches().snapshot(), **change})


def test_counts_of_a_later_release_are_read_if_it_allows_that() -> None:
    later = {**DatasetBatches(forgotten=2).snapshot(), "version": 9, "extra": 1}
    assert DatasetBatches.restore(later).forgotten == 2
    with pytest.raises(NewerStateError):
        DatasetBatches.restore({**later, "min_reader": 9})
