from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.log.kafka.worker.batching import take_fairly


def make_polled(sizes: dict[int, list[int]]) -> Any:
    return {
        partition: [SimpleNamespace(offset=100 + n, value=b"x" * size) for n, size in enumerate(partition_sizes)]
        for partition, partition_sizes in sizes.items()
    }


def count_messages(batch: Any) -> dict[int, int]:
    return {partition: len(messages) for partition, messages in batch.items()}


def test_a_partition_with_a_backlog_does_not_delay_the_others() -> None:
    polled = make_polled({0: [30] * 100, 1: [30] * 100, 2: [30] * 2})
    batch, next_offsets = take_fairly(polled, 300)
    assert count_messages(batch) == {0: 4, 1: 4, 2: 2}
    assert next_offsets == {0: 104, 1: 104}


def test_partitions_take_turns_when_one_message_fills_a_batch() -> None:
    polled = make_polled({0: [500], 1: [500], 3: [500]})
    served, last = [], -1
    for _ in range(6):
        batch, _ = take_fairly(polled, 100, last_served=last)
        (last,) = batch
        served.append(last)
    assert served == [0, 1, 3, 0, 1, 3]


@pytest.mark.parametrize("last", [-1, 0, 5])
@settings(deadline=None, max_examples=100)
@given(
    sizes=st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 40), min_size=1, max_size=8), max_size=5),
    limit=st.integers(1, 200),
)
def test_a_batch_holds_the_first_messages_that_fit_and_the_rest_remains(
    sizes: dict[int, list[int]], limit: int, last: int
) -> None:
    polled = make_polled(sizes)
    batch, next_offsets = take_fairly(polled, limit, last_served=last)
    for partition, messages in polled.items():
        n = len(batch.get(partition, ()))
        assert list(batch.get(partition, ())) == messages[:n]
        assert next_offsets.get(partition) == (messages[n].offset if n < len(messages) else None)
    count = sum(count_messages(batch).values())
    assert count >= min(1, len(polled))
    assert count == 1 or sum(len(m.value) for messages in batch.values() for m in messages) <= limit
