"""Assessments and decisions for a review queue, a log in memory that is read in any order, and a dump of the queue."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from service.contracts import Assessment, DatasetSettings, Decision, Flag, ModelName, WordScore
from service.log.protocol import Output, Record
from service.log.topics import Topics
from service.review.decisions import check_decision
from service.review.items import build_shown
from service.review.messages import build_decision_message
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import QueueFilter, ReviewQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from service.log.protocol import Log
    from service.review.items import ReviewItem

TOPICS = Topics()
NOW = datetime(2024, 5, 31, 12, tzinfo=UTC)
MODEL = ModelName(name="tiny", fingerprint="f00d")
TYPES = ("PER", "ORG", "LOC")
WEIGHTS = {"O": 0.999, **{f"{prefix}-{kind}": 0.99 for prefix in "BI" for kind in TYPES}}


def make_assessment(
    sentence_id: str,
    *,
    p: Sequence[float | None] = (0.9, 0.1, 0.8),
    labels: Sequence[str] = ("O", "B-PER", "O"),
    reason: str = "flagged",
    suggested: str = "B-ORG",
    **fields: Any,
) -> Assessment:
    """A sentence whose words have these probabilities. The word with the lowest weighted score is the doubtful one."""
    scores = [None if x is None else x + (1 - x) * (1 - WEIGHTS[label]) for x, label in zip(p, labels, strict=True)]
    scored = [(score, index) for index, score in enumerate(scores) if score is not None]
    priority, worst = min(scored, default=(None, 0))
    flag = Flag(
        index=worst,
        token=f"word{worst}",
        given=labels[worst],
        suggested=suggested,
        p_given=p[worst] or 0.0,
        p_suggested=1 - (p[worst] or 0.0),
        threshold=0.5,
    )
    deleted = reason == "deleted"
    return Assessment.model_validate(
        {
            "tokens": () if deleted else tuple(f"word{index}" for index in range(len(labels))),
            "labels": () if deleted else tuple(labels),
            "dataset": "default",
            "id": sentence_id,
            "deleted": deleted,
            "reason": reason,
            "score": None if priority is None else min(x for x in p if x is not None),
            "method": "worst-token",
            "token_score": "self-confidence",
            "priority": None if deleted else priority,
            "weights": WEIGHTS,
            "words": () if deleted else tuple(WordScore(p_given=x, score=x) for x in p),
            "flags": (flag,) if reason == "flagged" else (),
            "worst": None if deleted or priority is None else flag,
            "thresholds": {"O": 0.9, "B-PER": 0.8},
            "model": MODEL,
            "scored_at": NOW,
            **fields,
        }
    )


def make_review_output(assessment: Assessment, topics: Topics = TOPICS) -> Output:
    key = f"{assessment.dataset}/{assessment.id}".encode()
    return Output(topics.review, key, assessment.model_dump_json(exclude_none=True).encode())


def make_scored_output(sentence_id: str, p: float, **fields: Any) -> Output:
    """A review message about a sentence whose second word is the doubtful one, with this probability."""
    return make_review_output(make_assessment(sentence_id, p=(0.95, p, 0.97), **fields))


def make_settings_output(topics: Topics = TOPICS, **fields: Any) -> Output:
    settings = DatasetSettings.model_validate(fields)
    return Output(topics.datasets, settings.name.encode(), settings.model_dump_json().encode())


def make_decision_output(sentence_id: str, verdict: str = "error", *, topics: Topics = TOPICS, **fields: Any) -> Output:
    """A decision as another program writes it: without `shown`."""
    decision = {
        "dataset": "default",
        "id": sentence_id,
        "reviewer": "ann",
        "decided_at": NOW,
        **fields,
        "verdict": verdict,
    }
    return build_decision_message(topics, Decision.model_validate(decision))


def decide_item(item: ReviewItem, verdict: str, *, topics: Topics = TOPICS, **fields: Any) -> Output:
    """A decision as the API writes it."""
    decision = {
        "dataset": item.dataset,
        "id": item.id,
        "revision": item.revision,
        "reviewer": "ann",
        "decided_at": NOW,
        **fields,
        "verdict": verdict,
    }
    return build_decision_message(topics, check_decision(item, Decision.model_validate(decision)))


# -- a log in memory ---------------------------------------------------------------------------------------------------


@dataclass
class MemoryLog:
    """Enough of a `Log` for a projector: partitions by key, read in any interleaving and in batches of any size."""

    partitions: int = 3
    seed: int = 0
    most: int = 1_000
    compacted: bool = False
    records: list[Record] = field(default_factory=list)

    def append(self, outputs: Iterable[Output], *, timeout: float = 30.0) -> None:
        for output in outputs:
            partition = sum(output.key or b"") % self.partitions if output.partition is None else output.partition
            offset = len(self.records)
            self.records.append(Record(output.topic, partition, offset, output.key, output.value, output.headers))

    def reader(self, **how: Any) -> MemoryLog:
        """The same log as another replica reads it."""
        return MemoryLog(self.partitions, records=self.records, **how)

    def follow(self, topic: str) -> MemoryFollower:
        return MemoryFollower(self, topic)


class MemoryFollower:
    def __init__(self, log: MemoryLog, topic: str) -> None:
        self._log, self._topic = log, topic
        self._random = np.random.default_rng(log.seed)
        self._waiting: dict[int, deque[Record]] = {}
        self._read = 0
        self._fetch_appended()
        self._remaining = sum(map(len, self._waiting.values()))

    def _fetch_appended(self) -> None:
        """Queues the records that were appended since, by partition; of a compacted log the newest of each key."""
        new = [record for record in self._log.records[self._read :] if record.topic == self._topic]
        self._read = len(self._log.records)
        newest = {record.key: record.offset for record in new}
        for record in new:
            if not self._log.compacted or newest[record.key] == record.offset:
                self._waiting.setdefault(record.partition, deque()).append(record)

    def poll(self) -> Sequence[Record]:
        self._fetch_appended()
        records: list[Record] = []
        while len(records) < self._log.most and (ready := sorted(n for n, queue in self._waiting.items() if queue)):
            records.append(self._waiting[int(self._random.choice(ready))].popleft())
        self._remaining -= len(records)
        return records

    @property
    def caught_up(self) -> bool:
        return self._remaining <= 0

    def renew_end(self) -> None:
        self._fetch_appended()
        self._remaining = sum(map(len, self._waiting.values()))

    def close(self) -> None: ...


@dataclass
class QueueHarness:
    """A queue and the projector that reads a log into it."""

    log: Any
    queue: ReviewQueue
    topics: Topics = TOPICS

    def __post_init__(self) -> None:
        self.projector = ReviewProjector(self.log, self.topics, self.queue.file)

    def write(self, *outputs: Output) -> None:
        self.log.append(outputs)
        self.catch_up()

    def catch_up(self) -> None:
        while self.projector.step() or not self.projector.caught_up:
            pass

    def get_item(self, sentence_id: str, dataset: str = "default") -> ReviewItem:
        item = self.queue.get_item(dataset, sentence_id, now=NOW)
        assert item is not None
        return item

    def list_ids(self, *, limit: int = 100, now: datetime = NOW, **filters: Any) -> list[str]:
        """The ids of the whole queue, read page by page."""
        ids: list[str] = []
        after = None
        while True:
            page = self.queue.get_page(QueueFilter(**filters), limit=limit, after=after, now=now)
            ids += [item.id for item in page.items]
            if page.next is None:
                return ids
            after = page.next

    def close(self) -> None:
        self.projector.close()
        self.queue.close()


def dump_queue(queue: ReviewQueue, now: datetime = NOW) -> dict[str, list[str]]:
    """Everything a queue shows, to the bit."""
    items: list[str] = []
    after = None
    while True:
        page = queue.get_page(QueueFilter(state="all"), limit=50, after=after, now=now)
        items += [f"{item.rank.hex()} {item.model_dump_json()} {item.shown.model_dump_json()}" for item in page.items]
        if page.next is None:
            break
        after = page.next
    datasets = sorted(queue.count_items_by_dataset())
    return {
        "items": items,
        "open": [item.id for item in queue.get_page(QueueFilter(), limit=200, now=now).items],
        "overview": [queue.build_overview(name).model_dump_json() for name in (None, *datasets)],
        "agreement": [queue.build_agreement_report(name).model_dump_json() for name in datasets],
        "precision": [pair.model_dump_json() for pair in queue.compute_pair_precision()],
    }


def dump_rebuilt_queue(log: Log | MemoryLog, topics: Topics, path: Path | str = ":memory:") -> dict[str, list[str]]:
    """What a replica that starts now shows once it has caught up."""
    harness = QueueHarness(log, ReviewQueue(path), topics)
    try:
        harness.catch_up()
        return dump_queue(harness.queue)
    finally:
        harness.close()


# -- a story with everything in it -------------------------------------------------------------------------------------


def make_history(topics: Topics = TOPICS, *, seed: int = 0, sentences: int = 60) -> list[Output]:
    """Assessments, revisions, decisions by two reviewers, claims and settings; enough for the ranker to be on."""
    random = np.random.default_rng(seed)
    outputs = [make_settings_output(topics, name="default", control_share=0.25, version=1)]
    latest: dict[str, Assessment] = {}
    for number in range(sentences):
        labels = ["O", *(f"B-{TYPES[k]}" for k in random.integers(0, 3, int(random.integers(1, 4))))]
        p = random.uniform(0.001, 0.999, len(labels)).tolist()
        reason = "control" if number % 6 == 5 else "flagged"
        fields: dict[str, Any] = {"dataset": "other" if number % 10 == 9 else "default", "annotator": f"a{number % 3}"}
        if reason == "control":
            fields["inclusion_probability"] = 0.25
        assessment = make_assessment(f"s{number}", p=p, labels=labels, reason=reason, **fields)
        latest[f"s{number}"] = assessment
        outputs.append(make_review_output(assessment, topics))
    for number in range(0, sentences, 2):
        assessment = latest[f"s{number}"]
        for reviewer in ("ann", "bob") if number % 3 == 0 else ("ann",):
            verdict = ("error", "ok", "unsure")[int(random.choice(3, p=[0.5, 0.4, 0.1]))]
            fields = {"dataset": assessment.dataset, "reviewer": reviewer}
            if verdict == "error" and random.random() < 0.5:
                fields["words"] = (int(random.integers(0, len(assessment.tokens))),)
            if random.random() < 0.5:
                fields["shown"] = _make_shown(assessment)
            outputs.append(make_decision_output(assessment.id or "", verdict, topics=topics, **fields))
    for number in range(0, sentences, 7):
        assessment = latest[f"s{number}"]
        reason = ("update", "deleted", "flagged")[number % 3]
        again = make_assessment(
            f"s{number}", reason=reason, dataset=assessment.dataset, revision=1, update=reason == "update"
        )
        outputs.append(make_review_output(again, topics))
    outputs.append(make_decision_output("s4", "ok", topics=topics, withdrawn=True))
    return outputs


def _make_shown(assessment: Assessment) -> object:
    return build_shown(assessment, ranker_epoch=0).model_dump()


def minutes_after_now(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)
