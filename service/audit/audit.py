"""Audits a whole file in two passes, or as a stream.

In two passes, as in the paper: the first infers and learns, the second judges every sentence with the final
statistics. The flag threshold of a class is the mean over its own words in the file. A class with fewer than
`min_words` words also uses the model's held-out words, if there are any. As a stream: each sentence is judged with the
thresholds learned from those before it, and then updates them. The thresholds start from the model's held-out words,
and `priority` uses memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from service.audit.temp_files import ObservationFile
from service.contracts.probabilities import CLASSES_FIELD
from service.errors import InferenceError, InvalidInput, LabelwatchError
from service.judging.class_source import get_external_classes, to_word_probs
from service.scoring.confident import UNREACHABLE_THRESHOLD
from service.statistics.thresholds import compute_flag_thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from service.contracts import Assessment, LabelledSentence
    from service.formats.records import FileRecord
    from service.inference.classifier import Classifier
    from service.judging.judge import Judge
    from service.judging.types import Observation, ThresholdSet
    from service.statistics.memory.memory import Memory
    from service.statistics.running import RunningStats


def audit(
    records: Iterable[FileRecord],
    classifier: Classifier | None,
    judge: Judge,
    *,
    stream: bool,
    on_reject: Callable[[FileRecord, LabelwatchError], None],
    on_progress: Callable[[int], None] | None = None,
    on_deleted: Callable[[FileRecord], None] | None = None,
) -> Iterator[tuple[Observation, Assessment]]:
    """Yields each observation, as it is judged, with its assessment, in the order of the records.

    Without a classifier the sentences bring their probabilities, all for the class list of the judge.
    `on_reject` is called for every sentence that can't be assessed and may raise to stop the audit. `on_progress` is
    called with the number of sentences inferred so far, `on_deleted` for every sentence that is marked deleted.
    """
    stats = judge.create_empty_stats()
    observations = infer_observations(records, classifier, judge, on_reject=on_reject, on_deleted=on_deleted)
    if stream:
        for count, pair in enumerate(_judge_stream(observations, judge), 1):
            if on_progress is not None:
                on_progress(count)
            yield pair
        return
    with ObservationFile() as file:
        for observation in observations:
            file.append(observation)
            stats = judge.learn(observation, stats)
            if on_progress is not None:
                on_progress(len(file))
        thresholds = build_file_threshold_set(judge, stats)
        for observation in file:
            judged = judge.drop_unused_types(observation, thresholds)
            yield judged, judge.assess(judged, thresholds)


def _judge_stream(observations: Iterable[Observation], judge: Judge) -> Iterator[tuple[Observation, Assessment]]:
    """Judges and learns sentence by sentence, with memory, as the worker does for one partition."""
    stats = judge.create_empty_stats()
    memory: Memory | None = None
    for observation in observations:
        thresholds = judge.build_threshold_set(stats)
        memory = judge.memory.prepare(memory, observation.sentence)
        evidence = None if memory is None else judge.memory.gather(observation, [memory])
        judged = judge.drop_unused_types(observation, thresholds)
        assessment = judge.assess(judged, thresholds, evidence=evidence)
        smoothed = None if evidence is None else evidence.smoothed
        stats = judge.learn(observation, stats, priority=assessment.priority, smoothed=smoothed)
        if memory is not None and evidence is not None:
            evidence.teach(memory, judge.memory.types)
        yield judged, assessment


def infer_observations(
    records: Iterable[FileRecord],
    classifier: Classifier | None,
    judge: Judge,
    *,
    on_reject: Callable[[FileRecord, LabelwatchError], None],
    on_deleted: Callable[[FileRecord], None] | None = None,
) -> Iterator[Observation]:
    """Yields the probabilities of each sentence. Sentences marked deleted have no words and are left out."""

    def iterate_sentences() -> Iterator[tuple[FileRecord, LabelledSentence]]:
        for record in records:
            sentence = record.sentence
            if record.error is not None:
                on_reject(record, record.error)
            elif sentence is not None and sentence.deleted:
                if on_deleted is not None:
                    on_deleted(record)
            elif sentence is not None:
                try:
                    # Checked before inference, so that an audit that stops on errors stops at the first bad sentence.
                    _check_source(sentence, judge.source_classes if classifier is None else None)
                    judge.to_class_ids(sentence)
                except InvalidInput as error:
                    on_reject(record, error)
                else:
                    yield record, sentence

    if classifier is None:
        for _, sentence in iterate_sentences():
            if sentence.probabilities is not None:
                yield judge.observe(sentence, to_word_probs(sentence.probabilities))
        return
    pending: deque[tuple[FileRecord, LabelledSentence]] = deque()

    def iterate_words() -> Iterator[tuple[str, ...]]:
        for record, sentence in iterate_sentences():
            pending.append((record, sentence))
            yield sentence.tokens

    for result in classifier.infer_stream(iterate_words(), pooling=judge.settings.pooling):
        record, sentence = pending.popleft()
        if isinstance(result, InferenceError):
            on_reject(record, result)
        else:
            yield judge.observe(sentence, result)


def _check_source(sentence: LabelledSentence, classes: tuple[str, ...] | None) -> None:
    """Raises if the sentence's probabilities are of another source than those of the audit: they can't be compared."""
    given = get_external_classes(sentence)
    if given == classes:
        return
    if given is None:
        raise InvalidInput(
            "it has no probabilities, but the first sentence has: give them for all sentences, or let a model judge all "
            "of them (--model NAME), or leave these out (--on-error skip)",
            field="probabilities",
        )
    if classes is None:
        raise InvalidInput(
            "it has probabilities, but the first sentence has none: give them for all sentences, or let a model judge "
            "all of them (--model NAME), or leave these out (--on-error skip)",
            field="probabilities",
        )
    raise InvalidInput(
        "its classes are not those of the first sentence: give the same classes in the same order", field=CLASSES_FIELD
    )


def build_file_threshold_set(judge: Judge, stats: RunningStats) -> ThresholdSet:
    """Thresholds from the file's own words. A class with too few of them also uses the model's held-out words."""
    with_held_out = judge.build_threshold_set(stats)
    own = compute_flag_thresholds(stats.get_total(), None, min_words=judge.min_words)
    thresholds = np.where(own < UNREACHABLE_THRESHOLD, own, with_held_out.by_index)
    by_class = {
        name: None if threshold >= UNREACHABLE_THRESHOLD else float(threshold)
        for name, threshold in zip(judge.classes, thresholds, strict=True)
    }
    return replace(with_held_out, by_index=thresholds, by_class=by_class)
