"""Turns a record batch into a batch result: outputs and new statistics. Nothing changes until they are committed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.contracts import MAX_WORDS, Assessment, LabelledSentence, Position, read_sentence
from service.errors import DecodeError, InferenceError, InvalidInput, LabelwatchError
from service.judging.class_source import to_word_probs
from service.judging.types import StatsUpdate
from service.log.codec import (
    ASSESSMENT_EVENT_TYPE,
    REQUEST_ID_HEADER,
    build_dead_letter,
    build_event_headers,
    get_header,
    to_state_key,
)
from service.log.protocol import BatchResult, Output, Record, RecordBatch
from service.log.waiting_records import build_released_message, build_waiting_message
from service.statistics.sampling import DrawPurpose, draw_uniform
from service.stream.state.snapshot import StateDraft, StateSnapshot, StatsKey
from service.stream.worker.intake import Intake
from service.telemetry.batch_report import BatchReport, SentenceReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.datasets.registry import DatasetRegistry
    from service.inference.classifier import Classifier, WordProbs
    from service.inference.pooling import Pooling
    from service.judging.judge import Judge
    from service.log.topics import Topics

    PartitionUpdates = dict[tuple[int, StatsKey], tuple[Judge, list[StatsUpdate]]]


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record, the sentence in it, and the judge for its probabilities."""

    record: Record
    sentence: LabelledSentence
    judge: Judge


class BatchProcessor:
    """decode → infer → judge, then learn, in offset order. Does not know which log the records come from."""

    def __init__(
        self,
        classifier: Classifier,
        datasets: DatasetRegistry,
        topics: Topics,
        *,
        max_words: int = MAX_WORDS,
        publish_scores: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._classifier = classifier
        self._datasets = datasets
        self._topics = topics
        self._max_words = max_words
        self._publish_scores = publish_scores
        self._now = now

    def process(
        self, batch: RecordBatch, snapshot: StateSnapshot, report: BatchReport | None = None
    ) -> tuple[BatchResult, StateSnapshot]:
        """The result to commit, and the snapshot to use once it is committed. Counts and times go to `report`."""
        report = report or BatchReport()
        draft = snapshot.start_draft()
        intake = Intake(draft)
        outputs = [*self._release(batch, intake)]
        decoded_records: list[DecodedRecord] = []
        for record, is_released in _iter_records(batch):
            try:
                decoded = self._decode(record)
            except InvalidInput as error:
                report.count_dead_letter(error.stage)
                outputs.append(build_dead_letter(self._topics.dead_letters, record, error))
                continue
            if is_released or intake.admit(record.partition, decoded.sentence, decoded.judge):
                decoded_records.append(decoded)
            else:
                outputs += self._store(decoded)
        report.end_stage("decode")
        updates: PartitionUpdates = {}
        for decoded, words in self._infer(decoded_records, report):
            try:
                outputs += self._process_one(decoded, words, draft, updates, report)
            except (InvalidInput, InferenceError) as error:
                report.count_dead_letter(error.stage)
                outputs.append(build_dead_letter(self._topics.dead_letters, decoded.record, error))
        state: dict[int, dict[bytes, bytes]] = {partition: {} for partition in (*batch.next_offsets, *batch.released)}
        for (partition, key), (judge, learned) in updates.items():
            # Sentences are judged with totals only, so a partition's own share is updated once per batch.
            stats = judge.learn_all(learned, draft.get_partition_stats(partition, judge))
            draft.put_partition_stats(partition, judge, stats)
            value = json.dumps(stats.snapshot(), separators=(",", ":")).encode()
            state[partition][to_state_key(partition, *key)] = value
        for partition, state_key, value in intake.iter_state():
            state[partition][state_key] = value
        report.end_stage("judge")
        return BatchResult(batch, outputs, state), draft.to_snapshot()

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

    def _decode(self, record: Record) -> DecodedRecord:
        if record.value is None:
            raise DecodeError("the message has no value: send a sentence, or `deleted: true` with its id")
        sentence = read_sentence(record.value, max_words=self._max_words)
        if sentence.id is None:
            identity = f"{record.topic}-{record.partition}-{record.offset}"
            sentence = sentence.model_copy(update={"id": identity})
        return DecodedRecord(record, sentence, self._datasets.get_sentence_judge(sentence))

    def _infer(
        self, decoded_records: list[DecodedRecord], report: BatchReport
    ) -> Iterator[tuple[DecodedRecord, WordProbs | InferenceError | None]]:
        """The records in their order, each with its word probabilities; None for a deleted sentence."""
        to_infer = {
            index: decoded.sentence.tokens
            for index, decoded in enumerate(decoded_records)
            if not decoded.sentence.deleted and decoded.sentence.probabilities is None
        }
        encoded = dict(zip(to_infer, self._classifier.encode(list(to_infer.values())), strict=True))
        report.end_stage("tokenize")
        by_pooling: dict[Pooling | None, list[int]] = {}  # nearly always one
        for index in to_infer:
            by_pooling.setdefault(decoded_records[index].judge.settings.pooling, []).append(index)
        words: dict[int, WordProbs | InferenceError] = {}
        for pooling, indexes in by_pooling.items():
            results = self._classifier.run([encoded[index] for index in indexes], pooling=pooling)
            words.update(zip(indexes, results, strict=True))
        report.end_stage("inference")
        for index, decoded in enumerate(decoded_records):
            sentence = decoded.sentence
            if sentence.deleted:
                yield decoded, None
            elif sentence.probabilities is not None:
                yield decoded, to_word_probs(sentence.probabilities)
            else:
                yield decoded, words[index]

    def _process_one(
        self,
        decoded: DecodedRecord,
        words: WordProbs | InferenceError | None,
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
        scores = judge.score_words(observation, thresholds)
        if scores.reason == "scored" and _is_in_control_sample(decoded.sentence, judge.settings.control_share):
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
        arrived_at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        draft.put_stats(judge, judge.learn(observation, total, priority=scores.priority, arrived_at=arrived_at))
        _, partition_updates = updates.setdefault((record.partition, StatsKey.from_judge(judge)), (judge, []))
        partition_updates.append(StatsUpdate(observation, scores.priority, arrived_at))
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


def _is_in_control_sample(sentence: LabelledSentence, share: float) -> bool:
    """Drawn from the sentence's name, so that a replay draws the same sentences."""
    return share > 0 and draw_uniform(sentence.dataset, str(sentence.id), DrawPurpose.CONTROL_SAMPLE) < share
