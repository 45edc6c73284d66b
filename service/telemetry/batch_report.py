"""What a worker tells of its batches. Plain numbers, so that the stream knows no metrics and a test can listen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.contracts import Assessment, LabelledSentence
    from service.judging.types import SentenceScores


@dataclass(frozen=True, slots=True)
class ThresholdReport:
    """What a dataset's sentences are held against now: by class, the threshold (if it has one) and the own words."""

    thresholds: Mapping[str, float | None]
    words: Mapping[str, int]


class SentenceReport(NamedTuple):
    """A sentence that was judged, in numbers."""

    dataset: str
    annotator: str | None
    words: int
    score: float | None
    priority: float | None
    reason: str

    @classmethod
    def from_verdict(cls, sentence: LabelledSentence, verdict: SentenceScores) -> SentenceReport:
        words = len(sentence.tokens)
        return cls(sentence.dataset, sentence.annotator, words, verdict.score, verdict.priority, verdict.reason)


@dataclass(slots=True)
class BatchReport:
    """What came of one committed batch; the assessor and the worker fill it in as they go."""

    records: int = 0
    sentences: list[SentenceReport] = field(default_factory=list)  # deleted sentences are not judged
    flagged: list[Assessment] = field(default_factory=list)  # those with flags or suspects
    dead_letters: dict[str, int] = field(default_factory=dict)  # by the stage they failed at
    stage_seconds: dict[str, float] = field(default_factory=dict)  # by stage of the work
    latencies: Sequence[float] = ()  # per record, from its time in the log to its commit
    threshold_reports: dict[str, ThresholdReport] = field(default_factory=dict)  # of the datasets that learned
    _stage_started: float = field(default_factory=time.perf_counter, repr=False)

    def count_dead_letter(self, stage: str) -> None:
        self.dead_letters[stage] = self.dead_letters.get(stage, 0) + 1

    def end_stage(self, stage: str) -> None:
        """A stage has ended: the time since the one before belongs to it."""
        now = time.perf_counter()
        self.stage_seconds[stage] = self.stage_seconds.get(stage, 0.0) + now - self._stage_started
        self._stage_started = now


class Reporter(Protocol):
    """Who listens to a worker. Called on its thread: must not block and must not raise."""

    def register_dataset(self, dataset: str, classes: Sequence[str], *, given_types: Iterable[str] = ()) -> None:
        """A dataset that sentences may come for."""

    def set_refused_settings(self, datasets: int) -> None:
        """How many datasets have newest settings that can't be used."""

    def set_thresholds(self, dataset: str, report: ThresholdReport) -> None: ...

    def observe_batch(self, report: BatchReport) -> None: ...

    def count_refused_commit(self) -> None:
        """A batch was not taken by the log and will be read again."""

    def count_lost_records(self, records: int) -> None:
        """Records that were deleted before they were read."""
