"""What the sentences of a dataset are judged with: derived once from settings and statistics, used until they change."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pydantic_core import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.contracts import DatasetSettings
    from service.judging.judge import Judge
    from service.judging.types import ThresholdSet
    from service.statistics.running import RunningStats


class JudgingContext:
    """A judge and the statistics it judges with; everything derived from them is computed when first needed."""

    def __init__(
        self, judge: Judge, learned: RunningStats | None, build_judge: Callable[[DatasetSettings], Judge]
    ) -> None:
        """`learned` is None if nothing was learned yet."""
        self.judge = judge
        self.learned = learned
        self._build_judge = build_judge
        self._variants: dict[tuple[tuple[str, str], ...], JudgingContext] = {}

    @cached_property
    def stats(self) -> RunningStats:
        return self.judge.create_empty_stats() if self.learned is None else self.learned

    @cached_property
    def threshold_set(self) -> ThresholdSet:
        return self.judge.build_threshold_set(self.stats)

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
            variant = self._variants[changes] = JudgingContext(judge, self.learned, self._build_judge)
        return variant
