"""A polled batch becomes work: outputs and new statistics, with nothing changed until they are committed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.contracts import MAX_WORDS, Assessment, LabelledSentence, Position, read_sentence
from service.errors import DecodeError, InferenceError, InvalidInput, LabelwatchError
from service.stream.base import Output, Polled, Record, Work
from service.stream.codec import ASSESSMENT, REQUEST_ID, dead_letter, event_headers, header, state_key
from service.stream.ledger import Account, Draft, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.inference.classifier import Classifier, WordProbs
    from service.pipeline import Judge
    from service.state.running import RunningStats
    from service.stream.datasets import Datasets
    from service.stream.topics import Topics


@dataclass(frozen=True, slots=True)
class Entry:
    """A record and the sentence it holds, with the judge that will see it."""

    record: Record
    sentence: LabelledSentence
    judge: Judge


class Assessor:
    """decode → infer → judge, then learn, in offset order. Knows nothing of the log the records come from."""

    def __init__(
        self,
        classifier: Classifier,
        datasets: Datasets,
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

    def assess(self, polled: Polled, ledger: Ledger) -> tuple[Work, Ledger]:
        """The work to commit, and the ledger as it will be once it is."""
        outputs: list[Output] = []
        entries: list[Entry] = []
        for record in (record for records in polled.records.values() for record in records):
            try:
                entries.append(self._decode(record))
            except InvalidInput as error:
                outputs.append(dead_letter(self._topics.dead_letters, record, error))
        draft = ledger.draft()
        for entry, words in self._infer(entries):
            try:
                outputs += self._outputs(entry, self._judge_and_learn(entry, words, draft))
            except (InvalidInput, InferenceError) as error:
                outputs.append(dead_letter(self._topics.dead_letters, entry.record, error))
        state: dict[int, dict[bytes, bytes]] = {partition: {} for partition in polled.next_offsets}
        for (partition, account), stats in draft.touched.items():
            value = json.dumps(stats.snapshot(), separators=(",", ":")).encode()
            state[partition][state_key(partition, *account)] = value
        return Work(polled, outputs, state), draft.ledger()

    def _decode(self, record: Record) -> Entry:
        if record.value is None:
            raise DecodeError("the message has no value: send a sentence, or `deleted: true` with its id")
        sentence = read_sentence(record.value, max_words=self._max_words)
        if sentence.id is None:
            identity = f"{record.topic}-{record.partition}-{record.offset}"
            sentence = sentence.model_copy(update={"id": identity})
        return Entry(record, sentence, self._datasets.judge(sentence.dataset))

    def _infer(self, entries: list[Entry]) -> Iterator[tuple[Entry, WordProbs | InferenceError | None]]:
        """Entries in their order; a deleted sentence has no words to look at."""
        waiting = [entry for entry in entries if not entry.sentence.deleted]
        found = iter(self._classifier.infer([entry.sentence.tokens for entry in waiting]))
        for entry in entries:
            yield entry, None if entry.sentence.deleted else next(found)

    def _judge_and_learn(self, entry: Entry, words: WordProbs | InferenceError | None, draft: Draft) -> Assessment:
        if isinstance(words, LabelwatchError):
            raise words
        judge, record = entry.judge, entry.record
        if words is None:
            return judge.deleted(entry.sentence)
        account = Account(entry.sentence.dataset, judge.stats_key)
        seen = judge.observe(entry.sentence, words)
        own, total = (
            _forgetting_as(judge, stats)
            for stats in (
                draft.of(record.partition, account, judge.empty()),
                draft.total(account, judge.empty()),
            )
        )
        assessment = judge.judge(seen, total)
        arrived = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        own, total = (
            judge.learn(seen, stats, priority=assessment.priority, arrived_at=arrived) for stats in (own, total)
        )
        draft.put(record.partition, account, stats=own, total=total)
        return assessment

    def _outputs(self, entry: Entry, assessment: Assessment) -> list[Output]:
        record = entry.record
        if assessment.reason == "scored" and _in_control(assessment, entry.judge.settings.control_share):
            assessment = assessment.model_copy(update={"reason": "control"})
        topics = [self._topics.review] if assessment.reason != "scored" else []
        if self._publish_scores:
            topics.append(self._topics.scores)
        if not topics:
            return []
        now = self._now()
        request_id = header(record.headers, REQUEST_ID)
        assessment = assessment.model_copy(
            update={
                "position": Position(topic=record.topic, partition=record.partition, offset=record.offset),
                "scored_at": now,
                "request_id": request_id,
            }
        )
        identity = f"{record.topic}-{record.partition}-{record.offset}"
        headers = event_headers(ASSESSMENT, identity=identity, at=now, request_id=request_id)
        value = assessment.model_dump_json(exclude_none=True).encode()
        key = f"{assessment.dataset}/{assessment.id}".encode()
        return [Output(topic, key, value, headers) for topic in topics]


def _forgetting_as(judge: Judge, stats: RunningStats) -> RunningStats:
    """Statistics written before the dataset's forgetting was changed follow the setting that holds now."""
    days = judge.settings.forget_after_days
    return stats if stats.keep_days == days else stats.keeping(days)


def _in_control(assessment: Assessment, share: float) -> bool:
    """Drawn by the sentence's own name, so that a replay draws the same ones."""
    if not share:
        return False
    digest = hashlib.sha256(f"{assessment.dataset}/{assessment.id}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64 < share
