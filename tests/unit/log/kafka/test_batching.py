from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.log.kafka.batching import take_fairly


def fetched(sizes: dict[int, list[int]]) -> Any:
    return {
        partition: [SimpleNamespace(offset=100 + n, value=b"x" * size) for n, size in enumerate(each)]
        for partition, each in sizes.items()
    }


def lengths(taken: Any) -> dict[int, int]:
    return {partition: len(messages) for partition, messages in taken.items()}


def test_partitions_take_turns_so_that_no_backlog_keeps_the_others_waiting() -> None:
    found = fetched({0: [30] * 100, 1: [30] * 100, 2: [30] * 2})
    taken, left = take_fairly(found, 300)
    assert lengths(taken) == {0: 4, 1: 4, 2: 2}
    assert left == {0: 104, 1: 104}


def test_where_one_message_fills_a_batch_every_partition_has_its_turn() -> None:
    found = fetched({0: [500], 1: [500], 3: [500]})
    served, last = [], -1
    for _ in range(6):
        taken, _ = take_fairly(found, 100, last_served=last)
        (last,) = taken
        served.append(last)
    assert served == [0, 1, 3, 0, 1, 3]


@pytest.mark.parametrize("last", [-1, 0, 5])
@settings(deadline=None, max_examples=100)
@given(
    sizes=st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 40), min_size=1, max_size=8), max_size=5),
    limit=st.integers(1, 200),
)
def test_what_is_taken_begins_each_partition_fits_and_leaves_the_rest(
    sizes: dict[int, list[int]], limit: int, last: int
) -> None:
    found = fetched(sizes)
    taken, left = take_fairly(found, limit, last_served=last)
    for partition, messages in found.items():
        n = len(taken.get(partition, ()))
        assert list(taken.get(partition, ())) == messages[:n]
        assert left.get(partition) == (messages[n].offset if n < len(messages) else None)
    count = sum(lengths(taken).values())
    assert count >= min(1, len(found))
    assert count == 1 or sum(len(m.value) for each in taken.values() for m in each) <= limit
