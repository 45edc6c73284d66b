from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as example_of
from hypothesis import settings
from hypothesis import strategies as st

from service.errors import StateError
from service.statistics.memory.table import CountTable, TableLimits, count_bytes

ROOMY = TableLimits(10_000, 10**6)
keys = st.text(st.characters(codec=None), max_size=3)
additions = st.lists(st.lists(st.tuples(keys, st.integers(0, 2**40)), max_size=8), max_size=12)


def add_all(table: CountTable, batches: list[list[tuple[str, int]]]) -> CountTable:
    for batch in batches:
        table.add([key for key, _ in batch], np.array([[1, n] for _, n in batch], np.int64).reshape(-1, 2))
    return table


@settings(deadline=None)
@example_of(additions)
def test_counts_are_sums_by_key(batches: list[list[tuple[str, int]]]) -> None:
    table = add_all(CountTable(2, ROOMY), batches)
    expected: dict[str, list[int]] = {}
    for key, n in [pair for batch in batches for pair in batch]:
        row = expected.setdefault(key, [0, 0])
        row[0], row[1] = row[0] + 1, row[1] + n
    assert table.keys == list(expected)
    assert table.numbers.tolist() == list(expected.values())
    assert table.get_counts([*expected, "unknown key"]).tolist() == [*expected.values(), [0, 0]]
    assert table.key_bytes == sum(map(count_bytes, expected))


@settings(deadline=None)
@example_of(additions, st.integers(1, 5), st.integers(1, 12))
def test_a_full_table_ignores_new_keys_only(batches: list[list[tuple[str, int]]], n_keys: int, n_bytes: int) -> None:
    table = add_all(CountTable(2, TableLimits(n_keys, n_bytes)), batches)
    unlimited = add_all(CountTable(2, ROOMY), batches)
    assert len(table) <= n_keys
    assert sum(map(count_bytes, table.keys)) <= n_bytes
    assert table.numbers.tolist() == unlimited.get_counts(table.keys).tolist()
    assert table.get_counts(["unknown key"]).tolist() == [[0, 0]]


@settings(deadline=None)
@example_of(additions, additions)
def test_a_copy_changes_alone(before: list[list[tuple[str, int]]], after: list[list[tuple[str, int]]]) -> None:
    table = add_all(CountTable(2, ROOMY), before)
    again = add_all(CountTable(2, ROOMY), before)
    changed = add_all(table.copy(), after)
    assert table == again
    assert changed == add_all(CountTable(2, ROOMY), before + after)


@settings(deadline=None)
@example_of(additions)
def test_equality_does_not_depend_on_the_order_of_keys(batches: list[list[tuple[str, int]]]) -> None:
    table = add_all(CountTable(2, ROOMY), batches)
    order = sorted(table.keys, reverse=True)
    assert CountTable.from_rows(ROOMY, order, table.get_counts(order)) == table
    more = add_all(table.copy(), [[("another key", 1)]])
    assert more != table


def test_content_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(StateError, match="2 rows of counts for 1 different keys"):
        CountTable.from_rows(ROOMY, ["a", "a"], np.zeros((2, 3), np.int64))
