"""The history: all forms of a partition, beyond the generations that are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from service.statistics.memory.table import CountTable, TableLimits, count_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

MAX_HISTORY_FORMS: Final = 8_192
MAX_HISTORY_NUMBERS: Final = 2**16
MAX_HISTORY_KEY_BYTES: Final = 128 * 1024
KEPT_SHARE: Final = 7 / 8  # of a history that became too large: one that is always full would be rebuilt every time


@dataclass(frozen=True, slots=True, eq=False)
class FormHistory:
    """Counts by form, with the generation that each form was last seen in. Immutable: `add` returns a new history."""

    table: CountTable
    last_seen: Integers  # in the order of the table's keys
    generations: int  # how many were added

    @classmethod
    def empty(cls, n_types: int) -> FormHistory:
        width = 1 + n_types
        limits = TableLimits.for_width(width, MAX_HISTORY_FORMS, MAX_HISTORY_NUMBERS, MAX_HISTORY_KEY_BYTES)
        return cls(CountTable(width, limits), np.zeros(0, np.int64), 0)

    @property
    def n_types(self) -> int:
        return self.table.width - 1

    def add(self, generation: CountTable) -> FormHistory:
        """The history with one more generation. If it is too large then, the forms last seen longest ago are dropped."""
        limits = self.table.limits
        table = self.table.copy(TableLimits(limits.keys + len(generation), limits.key_bytes + generation.key_bytes))
        table.add(generation.keys, generation.numbers)
        last_seen = np.full(len(table), self.generations, np.int64)
        last_seen[: len(self.last_seen)] = self.last_seen
        last_seen[table.find_rows(generation.keys)] = self.generations
        if len(table) > limits.keys or table.key_bytes > limits.key_bytes:
            table, last_seen = _keep_last_seen(table, last_seen, limits)
        else:
            table.limits = limits
        return FormHistory(table, last_seen, self.generations + 1)

    def to_dict(self) -> dict[str, tuple[int, list[int]]]:
        """By form: the generation it was last seen in, and its counts."""
        seen = zip(self.last_seen.tolist(), self.table.numbers.tolist(), strict=True)
        return dict(zip(self.table.keys, seen, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FormHistory):
            return NotImplemented
        return self.generations == other.generations and self.to_dict() == other.to_dict()

    __hash__ = object.__hash__


def _keep_last_seen(table: CountTable, last_seen: Integers, limits: TableLimits) -> tuple[CountTable, Integers]:
    keys = table.keys
    newest_first = np.argsort(-last_seen, kind="stable")[: int(limits.keys * KEPT_SHARE)]
    sizes = np.cumsum([count_bytes(keys[row]) for row in newest_first.tolist()])
    n_kept = int(np.searchsorted(sizes, int(limits.key_bytes * KEPT_SHARE), side="right"))
    rows = np.sort(newest_first[:n_kept])
    return CountTable.from_rows(limits, [keys[row] for row in rows.tolist()], table.numbers[rows]), last_seen[rows]
