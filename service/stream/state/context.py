"""What the sentences of a dataset are judged with: derived once from settings and statistics, used until they change."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic_core import to_json

from service.errors import StateError
from service.stream.state.snapshot import NO_MEMORIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.contracts import DatasetSettings
    from service.judging.judge import Judge
    from service.judging.types import ThresholdSet
    from service.statistics.memory.memory import Memory
    from service.statistics.running import RunningStats
    from service.stream.state.memories import PartitionMemory

logger = logging.getLogger(__name__)


class JudgingContext:
    """A judge and the statistics it judges with; everything derived from them is computed when first needed."""

    def __init__(
        self,
        judge: Judge,
        learned: RunningStats | None,
        build_judge: Callable[[DatasetSettings], Judge],
        partition_memories: Mapping[int, PartitionMemory] = NO_MEMORIES,
    ) -> None:
        """`learned` is None if nothing was learned yet."""
        self.judge = judge
        self.learned = learned
        self.partition_memories = partition_memories
        self._build_judge = build_judge
        self._variants: dict[tuple[tuple[str, str], ...], JudgingContext] = {}

    def is_current(
        self, judge: Judge, learned: RunningStats | None, partition_memories: Mapping[int, PartitionMemory]
    ) -> bool:
        """Whether these are what it was derived from."""
        return self.judge is judge and self.learned is learned and self.partition_memories is partition_memories

    @cached_property
    def stats(self) -> RunningStats:
        return self.judge.create_empty_stats() if self.learned is None else self.learned

    @cached_property
    def threshold_set(self) -> ThresholdSet:
        return self.judge.build_threshold_set(self.stats)

    @cached_property
    def memories(self) -> list[Memory]:
        """The memories of all partitions; none if the dataset has no memory. One that can't be read is left out."""
        if not self.judge.memory.is_on:
            return []
        memories = []
        for partition, memory in self.partition_memories.items():
            try:
                tables = memory.get_tables()
            except StateError as error:
                logger.warning("partition %d is judged without its memory, which can't be read: %s", partition, error)
                continue
            if tables is not None:
                memories.append(tables)
        return self.judge.memory.select(memories)

    @cached_property
    def settings_json(self) -> bytes:
        return self.judge.settings.model_dump_json().encode()

    @cached_property
    def thresholds_json(self) -> bytes:
        return to_json(self.threshold_set.by_class)

    def with_scores(self, *, method: str | None = None, token_score: str | None = None) -> JudgingContext:
        """The same with another method or token score; None leaves the dataset's own. InvalidInput for unknown names."""
        options = {"method": method, "token_score": token_score}
        settings = self.judge.settings
        changes = tuple(
            (name, value) for name, value in options.items() if value is not None and value != getattr(settings, name)
        )
        if not changes:
            return self
        variant = self._variants.get(changes)
        if variant is None:  # at most one for each pair of known names
            judge = self._build_judge(settings.model_copy(update=dict(changes)))
            variant = self._variants[changes] = JudgingContext(
                judge, self.learned, self._build_judge, self.partition_memories
            )
        return variant
