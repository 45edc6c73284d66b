"""A polled batch becomes work: outputs and new statistics, with nothing changed until they are committed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.contracts import MAX_WORDS, Assessment, LabelledSentence, Position, read_sentence
from service.errors import DecodeError, InferenceError, InvalidInput, LabelwatchError
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
from service.stream.state.snapshot import StateDraft, StateSnapshot, StatsKey
from service.telemetry.batch_report import BatchReport, SentenceReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.datasets.registry import DatasetRegistry
    from service.inference.classifier import Classifier, WordProbs
    from service.inference.pooling import Pooling
    from service.judging.judge import Judge
    from service.log.topics import Topics
    from service.statistics.running import RunningStats


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record and the sentence it holds, with the judge that will see it."""

    record: Record
    sentence: LabelledSentence
    judge: Judge


class BatchProcessor:
    """decode → infer → judge, then learn, in offset order. Knows nothing of the log the records come from."""

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
        """The work to commit, and the ledger as it will be once it is. What is done is noted in `report`."""
        report = report or BatchReport()
        outputs: list[Output] = []
        entries: list[DecodedRecord] = []
        for record in (record for records in batch.records.values() for record in records):
            try:
                entries.append(self._decode(record))
            except InvalidInput as error:
                report.count_dead_letter(error.stage)
                outputs.append(build_dead_letter(self._topics.dead_letters, record, error))
        report.end_stage("decode")
        draft = snapshot.start_draft()
        lessons: dict[tuple[int, StatsKey], tuple[Judge, list[StatsUpdate]]] = {}
        for entry, words in self._infer(entries, report):
            try:
                outputs += self._process_one(entry, words, draft, lessons, report)
            except (InvalidInput, InferenceError) as error:
                report.count_dead_letter(error.stage)
                outputs.append(build_dead_letter(self._topics.dead_letters, entry.record, error))
        state: dict[int, dict[bytes, bytes]] = {partition: {} for partition in batch.next_offsets}
        for (partition, account), (judge, learned) in lessons.items():
            # Only totals judge, so what a partition has learned is added up once a batch.
            own = _apply_forget_after(judge, draft.get_partition_stats(partition, account, judge.create_empty_stats()))
            stats = judge.learn_all(learned, own)
            draft.put_partition_stats(partition, account, stats)
            value = json.dumps(stats.snapshot(), separators=(",", ":")).encode()
            state[partition][to_state_key(partition, *account)] = value
        report.end_stage("judge")
        return BatchResult(batch, outputs, state), draft.to_snapshot()

    def _decode(self, record: Record) -> DecodedRecord:
        if record.value is None:
            raise DecodeError("the message has no value: send a sentence, or `deleted: true` with its id")
        sentence = read_sentence(record.value, max_words=self._max_words)
        if sentence.id is None:
            identity = f"{record.topic}-{record.partition}-{record.offset}"
            sentence = sentence.model_copy(update={"id": identity})
        return DecodedRecord(record, sentence, self._datasets.get_judge(sentence.dataset))

    def _infer(
        self, decoded_records: list[DecodedRecord], report: BatchReport
    ) -> Iterator[tuple[DecodedRecord, WordProbs | InferenceError | None]]:
        """Entries in their order; a deleted sentence has no words to look at."""
        waiting = [entry for entry in decoded_records if not entry.sentence.deleted]
        # Words are remembered, so this is 1/60 of what the graph takes: doing it beside the graph would not pay.
        encoded = self._classifier.encode([entry.sentence.tokens for entry in waiting])
        report.end_stage("tokenize")
        ways: dict[Pooling | None, list[int]] = {}  # nearly always one
        for index, entry in enumerate(waiting):
            ways.setdefault(entry.judge.settings.pooling, []).append(index)
        found: dict[int, WordProbs | InferenceError] = {}
        for pooling, chosen in ways.items():
            answers = self._classifier.run([encoded[index] for index in chosen], pooling=pooling)
            found.update(zip(chosen, answers, strict=True))
        report.end_stage("inference")
        places = iter(range(len(waiting)))
        for entry in decoded_records:
            yield entry, None if entry.sentence.deleted else found[next(places)]

    def _process_one(
        self,
        decoded: DecodedRecord,
        words: WordProbs | InferenceError | None,
        draft: StateDraft,
        updates: dict[tuple[int, StatsKey], tuple[Judge, list[StatsUpdate]]],
        report: BatchReport,
    ) -> list[Output]:
        """Judged by the totals before it, then learned by them; the partition's own share is noted in `lessons`."""
        if isinstance(words, LabelwatchError):
            raise words
        judge, record = decoded.judge, decoded.record
        if words is None:
            return self._build_outputs(decoded, judge.build_deleted_assessment(decoded.sentence))
        account = StatsKey(decoded.sentence.dataset, judge.stats_key)
        seen = judge.observe(decoded.sentence, words)
        total = _apply_forget_after(judge, draft.get_total(account, judge.create_empty_stats()))
        yardstick = judge.build_threshold_set(total)
        verdict = judge.score_words(seen, yardstick)
        if verdict.reason == "scored" and _is_in_control_sample(decoded.sentence, judge.settings.control_share):
            verdict = replace(verdict, reason="control")
        said: list[Output] = []
        if verdict.reason != "scored" or self._publish_scores:
            assessment = judge.build_assessment(seen, verdict, yardstick)
            if verdict.reason == "control":
                assessment = assessment.model_copy(update={"inclusion_probability": judge.settings.control_share})
            said = self._build_outputs(decoded, assessment)
            if assessment.flags:
                report.flagged.append(assessment)
        # From here on nothing fails: a sentence that became a dead letter must not have taught.
        arrived = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        draft.put_total(account, judge.learn(seen, total, priority=verdict.priority, arrived_at=arrived))
        updates.setdefault((record.partition, account), (judge, []))[1].append(
            StatsUpdate(seen, verdict.priority, arrived)
        )
        report.sentences.append(SentenceReport.from_verdict(decoded.sentence, verdict))
        return said

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


def _apply_forget_after(judge: Judge, stats: RunningStats) -> RunningStats:
    """Statistics written before the dataset's forgetting was changed follow the setting that holds now."""
    days = judge.settings.forget_after_days
    return stats if stats.keep_days == days else stats.with_keep_days(days)


def _is_in_control_sample(sentence: LabelledSentence, share: float) -> bool:
    """Drawn by the sentence's own name, so that a replay draws the same ones."""
    if not share:
        return False
    digest = hashlib.sha256(f"{sentence.dataset}/{sentence.id}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64 < share
