"""Audits a whole file: every sentence judged by the thresholds of the file itself, or by those before it.

Two passes (the paper's way): the first infers and learns, the second judges all with the final statistics. The flag
threshold of a class is the mean of its own words in the file; a class with fewer than `min_words` of them falls back
to the model's held-out words, where it has any, together with its own. As a stream, each sentence is judged by those
before it and teaches after, with the model's held-out words to start from.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from service.audit.temp_files import ObservationSpool
from service.errors import InferenceError, InvalidInput, LabelwatchError
from service.scoring.confident import UNREACHABLE_THRESHOLD
from service.statistics.thresholds import compute_flag_thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from service.contracts import Assessment, LabelledSentence
    from service.inference.classifier import Classifier
    from service.judging.judge import Judge
    from service.judging.types import Observation, ThresholdSet
    from service.statistics.running import RunningStats


class AuditRecord(Protocol):
    """A sentence with the place it was read from, or the error that stands there instead."""

    @property
    def location(self) -> str: ...
    @property
    def sentence(self) -> LabelledSentence | None: ...
    @property
    def error(self) -> InvalidInput | None: ...


def audit(
    records: Iterable[AuditRecord],
    classifier: Classifier,
    judge: Judge,
    *,
    stream: bool,
    on_reject: Callable[[AuditRecord, LabelwatchError], None],
    on_progress: Callable[[int], None] | None = None,
    on_deleted: Callable[[AuditRecord], None] | None = None,
) -> Iterator[tuple[Observation, Assessment]]:
    """Observations with their assessments, in the order of the records.

    `reject` is told of every sentence that can't be assessed, and may raise to stop. `progress` is told how many
    sentences have been inferred so far, `deleted` of every sentence that is left out since it is marked so.
    """
    stats = judge.create_empty_stats()
    seen_so_far = 0
    observed = infer_observations(records, classifier, judge, on_reject=on_reject, on_deleted=on_deleted)
    if stream:
        for seen in observed:
            assessment = judge.assess(seen, stats)
            stats = judge.learn(seen, stats, priority=assessment.priority)
            seen_so_far += 1
            if on_progress is not None:
                on_progress(seen_so_far)
            yield seen, assessment
        return
    with ObservationSpool() as spool:
        for seen in observed:
            spool.append(seen)
            stats = judge.learn(seen, stats)
            if on_progress is not None:
                on_progress(len(spool))
        yardstick = build_file_threshold_set(judge, stats)
        for seen in spool:
            yield seen, judge.assess(seen, yardstick)


def infer_observations(
    records: Iterable[AuditRecord],
    classifier: Classifier,
    judge: Judge,
    *,
    on_reject: Callable[[AuditRecord, LabelwatchError], None],
    on_deleted: Callable[[AuditRecord], None] | None = None,
) -> Iterator[Observation]:
    """What the model says of each sentence. Sentences marked as deleted have no words and are left out."""
    waiting: deque[tuple[AuditRecord, LabelledSentence]] = deque()

    def words() -> Iterator[tuple[str, ...]]:
        for record in records:
            sentence = record.sentence
            if record.error is not None:
                on_reject(record, record.error)
            elif sentence is not None and sentence.deleted:
                if on_deleted is not None:
                    on_deleted(record)
            elif sentence is not None:
                try:
                    # Before it is inferred, so that an audit that stops does so at the first bad sentence.
                    judge.to_class_ids(sentence)
                except InvalidInput as error:
                    on_reject(record, error)
                else:
                    waiting.append((record, sentence))
                    yield sentence.tokens

    for answer in classifier.infer_stream(words(), pooling=judge.settings.pooling):
        record, sentence = waiting.popleft()
        if isinstance(answer, InferenceError):
            on_reject(record, answer)
        else:
            yield judge.observe(sentence, answer)


def build_file_threshold_set(judge: Judge, stats: RunningStats) -> ThresholdSet:
    """Thresholds of the file's own words where a class has enough of them, else with the model's held-out words."""
    started = judge.build_threshold_set(stats)
    own = compute_flag_thresholds(stats.get_total(), None, min_words=judge.min_words)
    thresholds = np.where(own < UNREACHABLE_THRESHOLD, own, started.by_index)
    named = {
        name: None if t >= UNREACHABLE_THRESHOLD else float(t)
        for name, t in zip(judge.classes, thresholds, strict=True)
    }
    return replace(started, by_index=thresholds, by_class=named)
