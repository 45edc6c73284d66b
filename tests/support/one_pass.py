"""What one pass over the sentences of a partition gives: the answer that a stream must reach, however it is interrupted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.contracts.defaults import MAX_ANNOTATORS
from service.judging.agreement import learn_annotators
from service.judging.types import StatsUpdate

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from service.contracts import Assessment, LabelledSentence
    from service.inference.classifier import WordProbs
    from service.judging.judge import Judge
    from service.statistics.annotators.sums import AnnotatorSums
    from service.statistics.memory.memory import Memory
    from service.statistics.running import RunningStats


@dataclass
class OnePass:
    """Judges and learns sentence by sentence, with the statistics of this partition alone."""

    judge: Judge
    stats: RunningStats = field(init=False)
    memory: Memory | None = None
    annotators: dict[str, AnnotatorSums] = field(default_factory=dict)
    max_annotators: int = MAX_ANNOTATORS

    def __post_init__(self) -> None:
        self.stats = self.judge.create_empty_stats()

    def add(self, sentence: LabelledSentence, words: WordProbs, *, arrived_at: datetime | None = None) -> Assessment:
        judge = self.judge
        observation = judge.observe(sentence, words)
        self.memory = judge.memory.prepare(self.memory, sentence, arrived_at)
        evidence = None if self.memory is None else judge.memory.gather(observation, [self.memory])
        assessment = judge.assess(observation, judge.build_threshold_set(self.stats), evidence=evidence)
        self.stats = judge.learn(
            observation,
            self.stats,
            priority=assessment.priority,
            arrived_at=arrived_at,
            smoothed=None if evidence is None else evidence.smoothed,
        )
        if self.memory is not None and evidence is not None:
            evidence.teach(self.memory, judge.memory.types)
        update = StatsUpdate(observation, assessment.priority, arrived_at)
        self.annotators |= learn_annotators(
            judge.span_comparer, [update], self.annotators, max_annotators=self.max_annotators
        )
        return assessment

    def add_all(self, pairs: Iterable[tuple[LabelledSentence, WordProbs]]) -> list[Assessment]:
        return [self.add(sentence, words) for sentence, words in pairs]
