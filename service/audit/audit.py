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

from service.audit.temp_files import Observations
from service.errors import InferenceError, InvalidInput, LabelwatchError
from service.scoring.confident import NEVER
from service.statistics.thresholds import flag_thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from service.contracts import Assessment, LabelledSentence
    from service.inference.classifier import Classifier
    from service.judging.judge import Judge
    from service.judging.types import Observation, Yardstick
    from service.statistics.running import RunningStats


class Located(Protocol):
    """A sentence with the place it was read from, or the error that stands there instead."""

    @property
    def place(self) -> str: ...
    @property
    def sentence(self) -> LabelledSentence | None: ...
    @property
    def error(self) -> InvalidInput | None: ...


def audit(
    records: Iterable[Located],
    classifier: Classifier,
    judge: Judge,
    *,
    stream: bool,
    reject: Callable[[Located, LabelwatchError], None],
    progress: Callable[[int], None] | None = None,
    deleted: Callable[[Located], None] | None = None,
) -> Iterator[tuple[Observation, Assessment]]:
    """Observations with their assessments, in the order of the records.

    `reject` is told of every sentence that can't be assessed, and may raise to stop. `progress` is told how many
    sentences have been inferred so far, `deleted` of every sentence that is left out since it is marked so.
    """
    stats = judge.empty()
    seen_so_far = 0
    observed = observations(records, classifier, judge, reject=reject, deleted=deleted)
    if stream:
        for seen in observed:
            assessment = judge.judge(seen, stats)
            stats = judge.learn(seen, stats, priority=assessment.priority)
            seen_so_far += 1
            if progress is not None:
                progress(seen_so_far)
            yield seen, assessment
        return
    with Observations() as spool:
        for seen in observed:
            spool.append(seen)
            stats = judge.learn(seen, stats)
            if progress is not None:
                progress(len(spool))
        yardstick = whole_file_yardstick(judge, stats)
        for seen in spool:
            yield seen, judge.judge(seen, yardstick)


def observations(
    records: Iterable[Located],
    classifier: Classifier,
    judge: Judge,
    *,
    reject: Callable[[Located, LabelwatchError], None],
    deleted: Callable[[Located], None] | None = None,
) -> Iterator[Observation]:
    """What the model says of each sentence. Sentences marked as deleted have no words and are left out."""
    waiting: deque[tuple[Located, LabelledSentence]] = deque()

    def words() -> Iterator[tuple[str, ...]]:
        for record in records:
            sentence = record.sentence
            if record.error is not None:
                reject(record, record.error)
            elif sentence is not None and sentence.deleted:
                if deleted is not None:
                    deleted(record)
            elif sentence is not None:
                try:
                    # Before it is inferred, so that an audit that stops does so at the first bad sentence.
                    judge.ids(sentence)
                except InvalidInput as error:
                    reject(record, error)
                else:
                    waiting.append((record, sentence))
                    yield sentence.tokens

    for answer in classifier.infer_stream(words(), pooling=judge.settings.pooling):
        record, sentence = waiting.popleft()
        if isinstance(answer, InferenceError):
            reject(record, answer)
        else:
            yield judge.observe(sentence, answer)


def whole_file_yardstick(judge: Judge, stats: RunningStats) -> Yardstick:
    """Thresholds of the file's own words where a class has enough of them, else with the model's held-out words."""
    started = judge.yardstick(stats)
    own = flag_thresholds(stats.total(), None, min_words=judge.min_words)
    thresholds = np.where(own < NEVER, own, started.thresholds)
    named = {name: None if t >= NEVER else float(t) for name, t in zip(judge.classes, thresholds, strict=True)}
    return replace(started, thresholds=thresholds, named=named)
