"""Counts by key: a dictionary from key to row, and one integer array with a row per key."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_MIN_ROWS = 32


class TableLimits(NamedTuple):
    """How much a table may hold: keys, and the bytes of all keys."""

    keys: int
    key_bytes: int

    @classmethod
    def for_width(cls, width: int, max_keys: int, max_numbers: int, max_key_bytes: int) -> TableLimits:
        """With many types a table has fewer rows, so that its size stays bounded."""
        return cls(max(1, min(max_keys, max_numbers // width)), max_key_bytes)


def count_bytes(key: str) -> int:
    return len(key) if key.isascii() else len(key.encode("utf-8", "surrogatepass"))


class CountTable:
    """Integers by key. Row 0 belongs to no key and is zero: it is what an unknown key reads.

    A full table ignores new keys and still counts known ones. Not thread-safe while it changes.
    """

    __slots__ = ("_numbers", "_rows", "key_bytes", "limits", "width")

    def __init__(
        self,
        width: int,
        limits: TableLimits,
        *,
        rows: dict[str, int] | None = None,
        numbers: Integers | None = None,
        key_bytes: int = 0,
    ) -> None:
        """`rows`, `numbers` and `key_bytes` are those of another table; see `from_rows` for other content."""
        self.width = width
        self.limits = limits
        self.key_bytes = key_bytes
        self._rows = {} if rows is None else rows
        self._numbers = np.zeros((_MIN_ROWS, width), np.int64) if numbers is None else numbers

    @classmethod
    def from_rows(cls, limits: TableLimits, keys: Sequence[str], numbers: Integers) -> CountTable:
        """A table with one row of numbers per key. StateError if they don't fit each other."""
        rows = {key: row for row, key in enumerate(keys, 1)}
        if not len(rows) == len(keys) == len(numbers):
            raise StateError(f"{len(numbers)} rows of counts for {len(rows)} different keys")
        width = int(numbers.shape[1])
        padded = np.zeros((len(keys) + 1, width), np.int64)
        padded[1:] = numbers
        return cls(width, limits, rows=rows, numbers=padded, key_bytes=sum(map(count_bytes, keys)))

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        """Whether the same keys have the same counts. The order of the keys does not matter."""
        if not isinstance(other, CountTable):
            return NotImplemented
        if self.width != other.width or self._rows.keys() != other._rows.keys():
            return False
        return bool(np.array_equal(self.numbers, other.get_counts(self.keys)))

    __hash__ = object.__hash__

    @property
    def keys(self) -> list[str]:
        """In the order in which they were added."""
        return list(self._rows)

    @property
    def numbers(self) -> Integers:
        """One row per key, in the order of `keys`."""
        return self._numbers[1 : len(self._rows) + 1]

    def find_rows(self, keys: Sequence[str]) -> list[int]:
        """The position of each key in `keys`; every key must be known."""
        return [self._rows[key] - 1 for key in keys]

    def get_counts(self, keys: Sequence[str]) -> Integers:
        """One row per key; zeros for an unknown key."""
        find = self._rows.get
        return self._numbers.take([find(key, 0) for key in keys], axis=0)

    def add(self, keys: Sequence[str], numbers: Integers) -> None:
        """Adds one row of numbers per key; a key may occur several times."""
        table = self._rows
        rows = []
        for key in keys:
            row = table.get(key, 0)
            if not row:
                size = count_bytes(key)
                if len(table) < self.limits.keys and self.key_bytes + size <= self.limits.key_bytes:
                    row = table[key] = len(table) + 1
                    self.key_bytes += size
            rows.append(row)
        if len(table) >= len(self._numbers):
            grown = np.zeros((2 * len(table) + _MIN_ROWS, self.width), np.int64)
            grown[: len(self._numbers)] = self._numbers
            self._numbers = grown
        np.add.at(self._numbers, rows, numbers)
        self._numbers[0] = 0  # what was added for keys without room

    def copy(self, limits: TableLimits | None = None) -> CountTable:
        """A table that changes without this one."""
        return CountTable(
            self.width,
            self.limits if limits is None else limits,
            rows=self._rows.copy(),
            numbers=self._numbers.copy(),
            key_bytes=self.key_bytes,
        )
