"""Turns a record batch into a batch result: outputs and new statistics. Nothing changes until they are committed.

A record whose dataset needs a model that is missing stops its partition: the result has the records before it, and
says why the partition can't go on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING

from service.contracts import MAX_WORDS, Assessment, LabelledSentence, Position, read_sentence
from service.contracts.defaults import MAX_ANNOTATORS
from service.errors import DecodeError, InferenceError, InvalidInput, LabelwatchError, MissingModelError
from service.judging.agreement import learn_annotators
from service.judging.class_source import is_external_key, to_word_probs
from service.judging.types import StatsUpdate
from service.log.codec import (
    ASSESSMENT_EVENT_TYPE,
    REQUEST_ID_HEADER,
    build_dead_letter,
    build_event_headers,
    explain_unreadable,
    get_header,
    to_state_key,
)
from service.log.protocol import BatchResult, Output, Record, RecordBatch
from service.log.trace_headers import select_trace_headers
from service.log.waiting_records import build_released_message, build_waiting_message
from service.statistics.arrivals import FlagCounts
from service.statistics.sampling import is_in_control_sample
from service.stream.state.snapshot import StateDraft, StateSnapshot, StatsKey
from service.stream.worker.intake import Intake
from service.stream.worker.partition_stops import PartitionStops, StoppedPartition
from service.telemetry.batch_report import BatchReport, SentenceReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from service.datasets.registry import DatasetRegistry
    from service.inference.classifier import WordProbs
    from service.inference.model.folder import ModelFolder
    from service.inference.model.pool import ModelPool
    from service.inference.pooling import Pooling
    from service.judging.judge import Judge
    from service.log.topics import Topics

    PartitionUpdates = dict[tuple[int, StatsKey], tuple[Judge, list[StatsUpdate]]]
    Words = WordProbs | InferenceError


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record, the sentence in it, and the judge for its probabilities."""

    record: Record
    sentence: LabelledSentence
    judge: Judge


@dataclass(slots=True)
class AdmittedBatch:
    """A batch after its records were read: those to judge, those that can't be read, and where partitions stop."""

    batch: RecordBatch
    draft: StateDraft
    intake: Intake
    outputs: list[Output]
    to_judge: list[DecodedRecord] = field(default_factory=list)
    rejected: list[tuple[Record, InvalidInput]] = field(default_factory=list)
    stops: PartitionStops = field(default_factory=PartitionStops)


@dataclass(frozen=True, slots=True)
class ProcessedBatch:
    """The result to commit, the snapshot to use once it is committed, and the partitions that it ends before."""

    result: BatchResult
    snapshot: StateSnapshot
    stopped: tuple[StoppedPartition, ...] = ()


class BatchProcessor:
    """decode → infer → judge, then learn, in offset order. Does not know which log the records come from."""

    def __init__(
        self,
        models: ModelPool,
        datasets: DatasetRegistry,
        topics: Topics,
        *,
        max_words: int = MAX_WORDS,
        publish_scores: bool = False,
        max_annotators: int = MAX_ANNOTATORS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._models = models
        self._datasets = datasets
        self._topics = topics
        self._max_words = max_words
        self._publish_scores = publish_scores
        self._max_annotators = max_annotators
        self._now = now

    def process(self, batch: RecordBatch, snapshot: StateSnapshot, report: BatchReport | None = None) -> ProcessedBatch:
        """Processes the records before the first one of each partition whose model is missing.

        Counts and times go to `report`.
        """
        report = report or BatchReport()
        while True:
            try:
                admitted = self._admit_all(batch, snapshot)
                report.end_stage("decode")
                words = self._infer(admitted.to_judge, report)
            except MissingModelError:
                continue  # a model that has just gone or could not be loaded: the next attempt stops before it
            return self._process_admitted(admitted, words, report)

    def check_model(self, dataset: str) -> None:
        """Raises `MissingModelError` if the dataset's sentences can't be judged. Loads the model if it is not loaded."""
        folder = self._datasets.get_judge(dataset).folder
        if folder is not None:
            self._models.get_classifier(folder)

    def _admit_all(self, batch: RecordBatch, snapshot: StateSnapshot) -> AdmittedBatch:
        """Reads the records in their order, up to the first of each partition whose model is missing."""
        batch = self._drop_early_releases(batch)
        draft = snapshot.start_draft()
        intake = Intake(draft)
        admitted = AdmittedBatch(batch, draft, intake, outputs=[*self._release(batch, intake)])
        for record, is_released in _iter_records(batch):
            if admitted.stops.includes(record) and not is_released:
                continue
            try:
                sentence = self._read_sentence(record)
                judge = self._find_judge(sentence)
            except InvalidInput as error:
                admitted.rejected.append((record, error))
                continue
            if isinstance(judge, MissingModelError):
                if is_released:
                    raise judge
                admitted.stops.add(record, sentence.dataset, judge)
                continue
            decoded = DecodedRecord(record, sentence, judge)
            if is_released or intake.admit(record.partition, sentence, judge):
                admitted.to_judge.append(decoded)
            else:
                admitted.outputs += self._store(decoded)
        return admitted

    def _drop_early_releases(self, batch: RecordBatch) -> RecordBatch:
        """Without the released records of partitions where the model of one has gone again: they stay stored."""
        if not batch.released:
            return batch
        released = {
            partition: release
            for partition, release in batch.released.items()
            if all(self._has_model(dataset) for dataset in {stored.dataset for stored in release.records})
        }
        return replace(batch, released=released)

    def _has_model(self, dataset: str) -> bool:
        try:
            self._datasets.get_judge(dataset)
        except MissingModelError:
            return False
        return True

    def _find_judge(self, sentence: LabelledSentence) -> Judge | MissingModelError:
        try:
            return self._datasets.get_sentence_judge(sentence)
        except MissingModelError as error:
            return error

    def _process_admitted(
        self, admitted: AdmittedBatch, words: Mapping[int, Words], report: BatchReport
    ) -> ProcessedBatch:
        draft, outputs = admitted.draft, admitted.outputs
        for record, error in admitted.rejected:
            report.count_dead_letter(error.stage)
            outputs.append(build_dead_letter(self._topics.dead_letters, record, error))
        updates: PartitionUpdates = {}
        for index, decoded in enumerate(admitted.to_judge):
            try:
                outputs += self._process_one(decoded, words.get(index), draft, updates, report)
            except (InvalidInput, InferenceError) as error:
                report.count_dead_letter(error.stage)
                outputs.append(build_dead_letter(self._topics.dead_letters, decoded.record, error))
        batch = admitted.stops.trim(admitted.batch)
        state: dict[int, dict[bytes, bytes]] = {partition: {} for partition in (*batch.next_offsets, *batch.released)}
        for (partition, key), (judge, learned) in updates.items():
            # Sentences are judged with totals only, so a partition's own share is updated once per batch.
            stats = judge.learn_all(learned, draft.get_partition_stats(partition, judge))
            draft.put_partition_stats(partition, judge, stats)
            value = json.dumps(stats.snapshot(), separators=(",", ":")).encode()
            state[partition][to_state_key(partition, *key)] = value
            annotators = learn_annotators(
                judge.span_comparer, learned, draft.annotators.get(partition, key), max_annotators=self._max_annotators
            )
            draft.annotators.put(partition, key, annotators)
            if not is_external_key(judge.stats_key):
                flags = FlagCounts(len(learned), sum(update.flagged for update in learned))
                admitted.intake.count_flags(partition, key, flags)
        records = (admitted.intake.iter_state(), *(part.iter_records() for part in draft.parts))
        for partition, state_key, value in chain.from_iterable(records):
            state[partition][state_key] = value
        report.end_stage("judge")
        report.records = len(batch)
        stopped = tuple(admitted.stops.by_partition.values())
        return ProcessedBatch(BatchResult(batch, outputs, state), draft.to_snapshot(), stopped)

    def _release(self, batch: RecordBatch, intake: Intake) -> Iterator[Output]:
        """Deletes released records from the waiting topic, and counts them."""
        for partition, release in batch.released.items():
            for stored in release.records:
                intake.release(stored)
                yield build_released_message(self._topics.waiting, stored)
            for dataset in sorted(release.missing):
                intake.forget(partition, dataset)

    def _store(self, decoded: DecodedRecord) -> list[Output]:
        """Stores a sentence whose dataset waits. A deletion also closes an open item at once."""
        stored = build_waiting_message(self._topics.waiting, decoded.record, decoded.sentence)
        if not decoded.sentence.deleted:
            return [stored]
        closing = self._build_outputs(decoded, decoded.judge.build_deleted_assessment(decoded.sentence))
        return [stored, *(output for output in closing if output.topic == self._topics.review)]

    def _read_sentence(self, record: Record) -> LabelledSentence:
        if (problem := explain_unreadable(record)) is not None:
            raise DecodeError(problem)
        sentence = read_sentence(record.value or b"", max_words=self._max_words)
        if sentence.id is None:
            sentence = sentence.model_copy(update={"id": f"{record.topic}-{record.partition}-{record.offset}"})
        return sentence

    def _infer(self, to_judge: Sequence[DecodedRecord], report: BatchReport) -> dict[int, Words]:
        """The word probabilities by index of the record, without deleted sentences. Batches hold one model each."""
        words: dict[int, Words] = {}
        by_model: dict[ModelFolder, list[int]] = {}  # nearly always one
        for index, decoded in enumerate(to_judge):
            if decoded.sentence.deleted:
                continue
            if decoded.sentence.probabilities is not None:
                words[index] = to_word_probs(decoded.sentence.probabilities)
            elif decoded.judge.folder is not None:
                by_model.setdefault(decoded.judge.folder, []).append(index)
        for folder, indexes in by_model.items():
            classifier = self._models.get_classifier(folder)
            encoded = dict(
                zip(indexes, classifier.encode([to_judge[index].sentence.tokens for index in indexes]), strict=True)
            )
            report.end_stage("tokenize")
            by_pooling: dict[Pooling | None, list[int]] = {}  # nearly always one
            for index in indexes:
                by_pooling.setdefault(to_judge[index].judge.settings.pooling, []).append(index)
            for pooling, chosen in by_pooling.items():
                results = classifier.run([encoded[index] for index in chosen], pooling=pooling)
                words.update(zip(chosen, results, strict=True))
            report.end_stage("inference")
        for stage in sorted({"tokenize", "inference"} - report.stage_seconds.keys()):  # no sentence to infer
            report.end_stage(stage)
        return words

    def _process_one(
        self,
        decoded: DecodedRecord,
        words: Words | None,
        draft: StateDraft,
        updates: PartitionUpdates,
        report: BatchReport,
    ) -> list[Output]:
        """Judges with the totals before the sentence, then learns it; `updates` collects the partition's own share."""
        if isinstance(words, LabelwatchError):
            raise words
        judge, record = decoded.judge, decoded.record
        if words is None:
            return self._build_outputs(decoded, judge.build_deleted_assessment(decoded.sentence))
        observation = judge.observe(decoded.sentence, words)
        total = draft.get_stats(judge)
        thresholds = judge.build_threshold_set(total)
        arrived_at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        memory = judge.memory.prepare(draft.get_memory(record.partition, judge), decoded.sentence, arrived_at)
        evidence = None if memory is None else judge.memory.gather(observation, [memory])
        scores = judge.score_words(observation, thresholds, evidence=evidence)
        if scores.reason == "scored" and is_in_control_sample(
            decoded.sentence.dataset, str(decoded.sentence.id), judge.settings.control_share
        ):
            scores = replace(scores, reason="control")
        outputs: list[Output] = []
        if scores.reason != "scored" or self._publish_scores:
            assessment = judge.build_assessment(observation, scores, thresholds)
            if scores.reason == "control":
                assessment = assessment.model_copy(update={"inclusion_probability": judge.settings.control_share})
            outputs = self._build_outputs(decoded, assessment)
            if assessment.flags:
                report.flagged.append(assessment)
        # Nothing below fails: a sentence that became a dead letter must not be learned from.
        smoothed = None if evidence is None else evidence.smoothed
        draft.put_stats(
            judge,
            judge.learn(observation, total, priority=scores.priority, arrived_at=arrived_at, smoothed=smoothed),
        )
        _, partition_updates = updates.setdefault((record.partition, StatsKey.from_judge(judge)), (judge, []))
        flagged = bool(scores.flags.any())
        partition_updates.append(StatsUpdate(observation, scores.priority, arrived_at, flagged, smoothed))
        if memory is not None and evidence is not None:
            evidence.teach(memory, judge.memory.types)
            draft.put_memory(record.partition, judge, memory)
        share = judge.settings.control_share
        draft.batches.count(record, decoded.sentence, reason=scores.reason, share=share)
        report.sentences.append(SentenceReport.from_scores(decoded.sentence, scores))
        return outputs

    def _build_outputs(self, decoded: DecodedRecord, assessment: Assessment) -> list[Output]:
        record = decoded.record
        topics = [self._topics.review] if assessment.reason != "scored" else []
        if self._publish_scores:
            topics.append(self._topics.scores)
        now = self._now()
        request_id = get_header(record.headers, REQUEST_ID_HEADER)
        assessment = assessment.model_copy(
            update={
                "position": Position(topic=record.topic, partition=record.partition, offset=record.offset),
                "scored_at": now,
                "request_id": request_id,
            }
        )
        identity = f"{record.topic}-{record.partition}-{record.offset}"
        headers = build_event_headers(ASSESSMENT_EVENT_TYPE, event_id=identity, at=now, request_id=request_id)
        headers += select_trace_headers(record.headers)
        value = assessment.model_dump_json(exclude_none=True).encode()
        key = f"{assessment.dataset}/{assessment.id}".encode()
        return [Output(topic, key, value, headers) for topic in topics]


def _iter_records(batch: RecordBatch) -> Iterator[tuple[Record, bool]]:
    """Every record, and whether it was stored and is released now. Released ones come first: they are older."""
    for release in batch.released.values():
        for stored in release.records:
            yield stored.record, True
    for records in batch.records.values():
        for record in records:
            yield record, False
