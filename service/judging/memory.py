"""How the sentences of a dataset use memory, as its settings say. What memory does is in service/statistics/memory."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from service.errors import StateError
from service.statistics.memory.evidence import ScoredWords, gather_evidence
from service.statistics.memory.memory import MEMORY_MODES, Memory
from service.statistics.running import to_bucket_day

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from service.contracts import DatasetSettings, LabelledSentence
    from service.judging.types import Observation
    from service.scoring.memory import TypeMerge
    from service.statistics.memory.evidence import WordEvidence


class DatasetMemory:
    """Prepares memories for the sentences of a dataset and asks them. It holds none itself."""

    def __init__(self, settings: DatasetSettings, types: TypeMerge) -> None:
        self.types = types
        # With one type there is nothing to weigh.
        self._weights = MEMORY_MODES[settings.memory] if settings.memory != "off" and types.n_types > 1 else None
        self._dataset = settings.name
        self._forget_after_days = settings.forget_after_days

    @property
    def is_on(self) -> bool:
        return self._weights is not None

    def prepare(
        self, memory: Memory | None, sentence: LabelledSentence, arrived_at: datetime | None = None
    ) -> Memory | None:
        """The memory that a sentence is judged with: `memory`, or an empty one; None if the dataset has none.

        A dataset that forgets after N days starts anew every N days. A period is its first day and not its number, so
        that periods of different N can be compared: a dataset may get another N.
        """
        if self._weights is None:
            return None
        has_history = self._weights.has_history
        days, period = self._forget_after_days, 0
        if days and arrived_at:
            day = date.fromisoformat(to_bucket_day(sentence.annotated_at, arrived_at)).toordinal()
            period = day - day % days
        if memory is None or (days and period > memory.period):
            return Memory.create(self.types.n_types, has_history=has_history, period=period)
        if memory.n_types != self.types.n_types:
            raise StateError(
                f"the memory of dataset {self._dataset} has {memory.n_types} types, its model has "
                f"{self.types.n_types}: run `labelwatch thresholds reset {self._dataset}` to start anew"
            )
        return memory.with_history(has_history=has_history)

    def select(self, memories: Iterable[Memory]) -> list[Memory]:
        """Which memories of several partitions are read together, without changing them; none if the dataset has none.

        A partition that has been idle may still have a memory that the dataset has forgotten, or a history of an earlier
        mode.
        """
        if self._weights is None:
            return []
        has_history = self._weights.has_history
        fitting = [each for each in memories if each.n_types == self.types.n_types]
        if self._forget_after_days:
            last_period = max((each.period for each in fitting), default=0)
            fitting = [each for each in fitting if each.period > last_period - self._forget_after_days]
        return [each.with_history(has_history=has_history) for each in fitting]

    def gather(self, observation: Observation, memories: Sequence[Memory]) -> WordEvidence | None:
        """What the memories, added up, say about the words; None without memories or scored words."""
        if self._weights is None or not memories or not len(observation.given):
            return None
        scored = observation.word_index.tolist() if observation.unscored else None
        words = ScoredWords(observation.sentence.tokens, observation.probs, observation.given, scored)
        return gather_evidence(memories, words, self.types, self._weights)
