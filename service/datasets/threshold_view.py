"""The thresholds that sentences of a dataset are judged with now, for REST and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.contracts import FlagPolicy, ModelName
    from service.judging.judge import Judge
    from service.statistics.running import RunningStats


@dataclass(frozen=True, slots=True)
class ClassThresholdView:
    name: str
    own_words: int  # words of the dataset that the threshold rests on
    threshold: float | None  # None: too little evidence, so the class can't be suggested
    prior: float | None  # the threshold before the first word of the dataset
    warming_up: bool


@dataclass(frozen=True, slots=True)
class ThresholdView:
    dataset: str
    version: int
    epoch: int
    model: ModelName
    flag_policy: FlagPolicy
    cutoff: float | None  # the score or priority below which the policy sends a sentence to review
    sentences: int  # that the statistics contain
    classes: tuple[ClassThresholdView, ...]


def build_threshold_view(judge: Judge, stats: RunningStats) -> ThresholdView:
    settings = judge.settings
    current = judge.build_threshold_set(stats)
    initial = judge.build_threshold_set(judge.create_empty_stats())
    word_counts = stats.get_total(settings.forget_after_days).counts
    return ThresholdView(
        dataset=settings.name,
        model=judge.model,
        version=settings.version,
        epoch=settings.epoch,
        flag_policy=judge.flag_policy,
        cutoff=current.flag_cutoff,
        sentences=stats.histogram.total,
        classes=tuple(
            ClassThresholdView(
                name=name,
                own_words=count,
                threshold=current.by_class[name],
                prior=initial.by_class[name],
                warming_up=name in current.warming_up,
            )
            for name, count in zip(judge.classes, word_counts, strict=True)
        ),
    )
