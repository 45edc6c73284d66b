from __future__ import annotations

import json
from typing import Any

import pytest

from service.contracts.defaults import MAX_LABEL_CHARS
from service.errors import NewerStateError, StateError
from service.statistics.arrivals import MAX_LABELS, OTHER_LABELS, ArrivalCounts, FlagCounts
from service.statistics.running import RunningStats


def test_labels_are_counted_by_sentence() -> None:
    counts = ArrivalCounts().count_labels({"B-DRUG", "I-DRUG"}).count_labels({"B-DRUG"}).count_labels(())
    assert counts.labels == {"B-DRUG": 2, "I-DRUG": 1}


def test_labels_beyond_the_limits_are_counted_together() -> None:
    counts = ArrivalCounts()
    for number in range(MAX_LABELS + 2):
        counts = counts.count_labels([f"B-{number}"])
    counts = counts.count_labels(["B-0"]).count_labels(["x" * (MAX_LABEL_CHARS + 1)]).count_labels([""])
    assert counts.labels["B-0"] == 2
    assert counts.labels[OTHER_LABELS] == 4
    assert len(counts.labels) == MAX_LABELS + 1
    assert ArrivalCounts().count_labels(["x" * (MAX_LABEL_CHARS + 1)]).labels == {OTHER_LABELS: 1}


def test_records_wait_and_are_released() -> None:
    stored = ArrivalCounts().store().store()
    assert (stored.waiting, stored.next_offset) == (2, 0)
    released = stored.release(7)
    assert (released.waiting, released.next_offset) == (1, 8)


def test_partitions_add_up_in_any_order() -> None:
    one = ArrivalCounts({"B-DRUG": 2, "B-PER": 1}, 3, 9, {"k": FlagCounts(5, 2)})
    two = ArrivalCounts({"B-DRUG": 1}, waiting=4, flags={"k": FlagCounts(7, 1), "m": FlagCounts(1, 0)})
    flags = {"k": FlagCounts(12, 3), "m": FlagCounts(1, 0)}
    assert one.merge(two) == two.merge(one) == ArrivalCounts({"B-DRUG": 3, "B-PER": 1}, waiting=7, flags=flags)


def test_flags_start_anew_with_another_stats_key() -> None:
    counts = ArrivalCounts().count_flags("k", FlagCounts(2, 1)).count_flags("k", FlagCounts(3, 0))
    assert counts.flags == {"k": FlagCounts(5, 1)}
    assert counts.count_flags("m", FlagCounts(1, 1)).flags == {"m": FlagCounts(1, 1)}


def test_counts_are_restored_as_they_were() -> None:
    counts = ArrivalCounts({"B-DRUG": 2, "B-Ö": 1}, 3, 9, {"k/0": FlagCounts(5, 2)})
    assert ArrivalCounts.restore(json.loads(json.dumps(counts.snapshot()))) == counts


def test_a_release_that_knows_only_statistics_reads_the_record_and_goes_on() -> None:
    snapshot = ArrivalCounts({"B-DRUG": 2}, waiting=3, next_offset=9).snapshot()
    assert RunningStats.restore(snapshot) == RunningStats.empty(1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"labels": []}, "`labels` should be an object"),
        ({"labels": {"B-DRUG": -1}}, "`labels` should be an object of counts"),
        ({"waiting": True}, "`waiting` should be a number of records"),
        ({"waiting": 2**60}, "`waiting` should be a number of records"),
        ({"next_offset": "1"}, "`next_offset` should be an offset"),
        ({"flags": []}, "`flags` should be an object"),
        ({"flags": {"k": [1]}}, "`flags` should have the numbers of judged and of flagged sentences"),
        ({"flags": {"k": [1, 2]}}, "`flags` should have the numbers"),
        ({"flags": {"k": [1.5, 1]}}, "list of integers"),
        ({"extra": 1}, "unknown fields extra"),
    ],
)
def test_unreadable_counts_are_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(StateError, match=problem):
        ArrivalCounts.restore({**ArrivalCounts().snapshot(), **change})


def test_counts_of_a_later_release_are_read_if_it_allows_that() -> None:
    later = {**ArrivalCounts(waiting=2).snapshot(), "version": 9, "extra": 1}
    assert ArrivalCounts.restore(later).waiting == 2
    with pytest.raises(NewerStateError):
        ArrivalCounts.restore({**later, "min_reader": 9})
