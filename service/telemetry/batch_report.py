"""What a worker reports of its batches: plain numbers, so the stream does not depend on the metrics library."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.contracts import Assessment, LabelledSentence
    from service.judging.misfit import Misfit
    from service.judging.types import SentenceScores


@dataclass(frozen=True, slots=True)
class ThresholdReport:
    """The current thresholds of a dataset by class (None: too few words), and how many of its words each class has."""

    thresholds: Mapping[str, float | None]
    words: Mapping[str, int]


class SentenceReport(NamedTuple):
    """The numbers of one assessed sentence."""

    dataset: str
    annotator: str | None
    words: int
    score: float | None
    priority: float | None
    reason: str

    @classmethod
    def from_scores(cls, sentence: LabelledSentence, scores: SentenceScores) -> SentenceReport:
        words = len(sentence.tokens)
        return cls(
            sentence.dataset,
            sentence.annotator,
            words,
            scores.score,
            scores.priority,
            scores.reason,
        )


@dataclass(slots=True)
class BatchReport:
    """The result of one committed batch in numbers; the batch processor and the worker fill it in."""

    records: int = 0
    sentences: list[SentenceReport] = field(default_factory=list)  # without deleted ones, which are not assessed
    flagged: list[Assessment] = field(default_factory=list)  # with flags or suspects
    dead_letters: dict[str, int] = field(default_factory=dict)  # count by the stage that failed
    stage_seconds: dict[str, float] = field(default_factory=dict)  # by stage of processing
    latencies: Sequence[float] = ()  # seconds from a record's timestamp to its commit
    threshold_reports: dict[str, ThresholdReport] = field(
        default_factory=dict
    )  # of the datasets whose statistics changed
    misfits: dict[str, Misfit | None] = field(default_factory=dict)  # of the same datasets; None: the model fits
    refused: bool = False  # the log refused the commit
    on_stage: Callable[[str, float], None] | None = None  # called with each stage that ends, and its seconds
    _stage_started: float = field(default_factory=time.perf_counter, repr=False)

    def count_dead_letter(self, stage: str) -> None:
        self.dead_letters[stage] = self.dead_letters.get(stage, 0) + 1

    def end_stage(self, stage: str) -> None:
        """Adds the time since the end of the previous stage to this one."""
        now = time.perf_counter()
        seconds = now - self._stage_started
        self.stage_seconds[stage] = self.stage_seconds.get(stage, 0.0) + seconds
        self._stage_started = now
        if self.on_stage is not None:
            self.on_stage(stage, seconds)


class Reporter(Protocol):
    """Receives a worker's reports in its thread: must not block and must not raise."""

    def register_dataset(self, dataset: str, classes: Sequence[str], *, given_types: Iterable[str] = ()) -> None:
        """Registers a dataset. `given_types`: its own names of entity types, beside the model's."""

    def set_refused_settings(self, datasets: int) -> None:
        """Sets the number of datasets whose newest settings are invalid."""

    def set_thresholds(self, dataset: str, report: ThresholdReport) -> None: ...

    def observe_batch(self, report: BatchReport) -> None: ...

    def count_refused_commit(self) -> None:
        """Counts a batch that the log refused to commit; it will be read again."""

    def count_lost_records(self, records: int) -> None:
        """Counts records that retention deleted before the worker read them."""
