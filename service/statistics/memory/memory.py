"""The memory of one source partition: what it has seen lately, per form and per template.

Words are counted in generations of 100 sentences, templates in generations of 30. The current and the previous generation
are read. With a history, a generation of forms that is no longer read is added to the table of all earlier ones. The
history changes only then, so a state record of it is written once in 100 sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from service.scoring.memory import TYPE_SCALE, MemoryCounts, SmoothingWeights
from service.statistics.memory.history import FormHistory
from service.statistics.memory.table import CountTable, TableLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from service.scoring.memory import WordConventions
    from service.statistics.memory.keys import SentenceKeys

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

FORM_GENERATION: Final = 100
TEMPLATE_GENERATION: Final = 30
CERTAIN_OUTSIDE: Final = 0.99
"""A word given O teaches its template nothing if the type O is as probable as this."""

MAX_GENERATION_FORMS: Final = 2_048
MAX_GENERATION_TEMPLATES: Final = 1_024
MAX_GENERATION_NUMBERS: Final = 2**15
MAX_GENERATION_KEY_BYTES: Final = 48 * 1024

MEMORY_MODES: Final = {
    "auto": SmoothingWeights(form=0.4, template=0.1, history=0.3),
    "documents": SmoothingWeights(form=0.4, template=0.2, history=0.0),
}


class Generations(NamedTuple):
    """The two tables that are read. Only `current` changes."""

    current: CountTable
    previous: CountTable

    @classmethod
    def empty(cls, width: int, max_keys: int) -> Generations:
        limits = TableLimits.for_width(width, max_keys, MAX_GENERATION_NUMBERS, MAX_GENERATION_KEY_BYTES)
        return cls(CountTable(width, limits), CountTable(width, limits))

    def get_counts(self, keys: Sequence[str]) -> Integers:
        return self.current.get_counts(keys) + self.previous.get_counts(keys)

    def fork(self) -> Generations:
        return Generations(self.current.copy(), self.previous)

    def advance(self) -> Generations:
        return Generations(CountTable(self.current.width, self.current.limits), self.current)


@dataclass(slots=True)
class Memory:
    """The tables of one partition. `learn` changes them; `fork` gives a memory that changes without this one."""

    n_types: int
    forms: Generations
    templates: Generations
    history: FormHistory | None
    sentences: int = 0
    gate_sum: int = 0
    gate_words: int = 0
    period: int = 0  # the first day, as an ordinal, of the `forget_after_days` days; a later one starts anew

    @classmethod
    def create(cls, n_types: int, *, has_history: bool, period: int = 0) -> Memory:
        """An empty memory."""
        return cls(
            n_types,
            Generations.empty(1 + n_types, MAX_GENERATION_FORMS),
            Generations.empty(1 + 2 * n_types, MAX_GENERATION_TEMPLATES),
            FormHistory.empty(n_types) if has_history else None,
            period=period,
        )

    def fork(self) -> Memory:
        return replace(self, forms=self.forms.fork(), templates=self.templates.fork())

    def with_history(self, *, has_history: bool) -> Memory:
        """The same without a history, or with one that begins now."""
        if has_history == (self.history is not None):
            return self
        return replace(self, history=FormHistory.empty(self.n_types) if has_history else None)

    def learn(
        self,
        keys: SentenceKeys,
        types: Floats,
        given: Sequence[int],
        conventions: WordConventions,
        *,
        outside: int | None,
    ) -> None:
        """Adds one sentence, after it was judged: type probabilities and given types of its words."""
        if keys.with_form:
            self._learn_forms(keys, types)
        self._learn_templates(keys, types, given, outside)
        self.gate_sum += conventions.gate_sum
        self.gate_words += conventions.gate_words
        self.sentences += 1
        if self.sentences % FORM_GENERATION == 0:
            if self.history is not None:
                self.history = self.history.add(self.forms.previous)
            self.forms = self.forms.advance()
        if self.sentences % TEMPLATE_GENERATION == 0:
            self.templates = self.templates.advance()

    def _learn_forms(self, keys: SentenceKeys, types: Floats) -> None:
        numbers = np.ones((len(keys.with_form), 1 + self.n_types), np.int64)
        numbers[:, 1:] = _to_parts(types.take(keys.with_form, axis=0))
        self.forms.current.add(keys.forms, numbers)

    def _learn_templates(self, keys: SentenceKeys, types: Floats, given: Sequence[int], outside: int | None) -> None:
        rows: Sequence[int] = range(len(given))
        if outside is not None:
            p_outside = types[:, outside].tolist()
            rows = [row for row in rows if given[row] != outside or p_outside[row] < CERTAIN_OUTSIDE]
            if not rows:
                return
        numbers = np.zeros((len(rows), 1 + 2 * self.n_types), np.int64)
        numbers[:, 0] = 1
        numbers[:, 1 : 1 + self.n_types] = _to_parts(types.take(rows, axis=0))
        for position, row in enumerate(rows):
            numbers[position, 1 + self.n_types + given[row]] = 1
        self.templates.current.add([keys.templates[row] for row in rows], numbers)


def _to_parts(types: Floats) -> Floats:
    """In whole units of 1/TYPE_SCALE."""
    parts = types * TYPE_SCALE
    return np.rint(parts, out=parts)


def recall(memories: Sequence[Memory], keys: SentenceKeys) -> MemoryCounts:
    """What the memories hold about the words, added up: the order of the memories does not matter."""
    histories = [memory.history.table for memory in memories if memory.history is not None]
    return MemoryCounts(
        keys.with_form,
        _sum_counts([memory.forms for memory in memories], keys.forms),
        _sum_counts(histories, keys.forms) if histories else None,
        _sum_counts([memory.templates for memory in memories], keys.templates),
        sum([memory.gate_sum for memory in memories]),
        sum([memory.gate_words for memory in memories]),
        tuple([memory.sentences for memory in memories]),
    )


def _sum_counts(tables: Sequence[CountTable] | Sequence[Generations], keys: Sequence[str]) -> Integers:
    total = tables[0].get_counts(keys)
    for table in tables[1:]:
        total = total + table.get_counts(keys)
    return total
