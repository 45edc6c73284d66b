"""What there is to notify about: decisions and new items from the topics, and conditions of datasets and batches."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import ValidationError

from service.contracts import Assessment, Decision
from service.contracts.notification import Notification
from service.errors import InvalidInput
from service.review.messages import parse_decision_record, parse_review_record
from service.review.queue.figures.batches import build_batch_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from service.contracts import DatasetSettings
    from service.contracts.notification import EventType, WebhookEndpoint
    from service.judging.misfit import Misfit
    from service.log.protocol import Record
    from service.review.queue.figures.batches import BatchOutcomes
    from service.statistics.batches import DatasetBatches

MAX_BATCHES_CHECKED: Final = 100  # of a dataset, the last to arrive
LASTING_PROBLEMS: Final = frozenset({"dataset.misfit"})  # news to a new endpoint, whenever they began
ANSWER_FIELDS: Final = ("verdict", "labels", "words", "note")


@dataclass(frozen=True, slots=True)
class Event:
    """`name` is unique: an event that is found again has the same. `at_ms` is its time in the log; None: it is now."""

    type: EventType
    name: str
    dataset: str
    data: dict[str, Any]
    at_ms: int | None = None

    def to_notification(self, endpoint: WebhookEndpoint, now: datetime) -> Notification:
        identity = hashlib.sha256(f"{endpoint.id}/{self.type}/{self.name}".encode()).hexdigest()[:32]
        return Notification(id=f"msg_{identity}", endpoint=endpoint.id, type=self.type, timestamp=now, data=self.data)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is notified when its value changes. `event` is None if this value is not worth a notification."""

    name: str
    value: object
    event: Event | None


def select_events(events: Iterable[Event], endpoint: WebhookEndpoint, start_ms: int) -> list[Event]:
    """The events that an endpoint is notified about, which is active since `start_ms`. One without a time is new."""
    return [
        event
        for event in events
        if endpoint.wants(event.type, event.dataset) and (event.at_ms is None or is_since(event.at_ms, start_ms))
    ]


def is_since(at_ms: int, start_ms: int) -> bool:
    """Whether a record is not older than the start. Kafka says -1 for a record without a time: it counts as new."""
    return at_ms <= 0 or at_ms >= start_ms


# -- from records ------------------------------------------------------------------------------------------------------


def find_decision_event(record: Record, get_settings: Callable[[str], DatasetSettings]) -> Event | None:
    """With an overlap, reviewers must not learn what others answered, also not from a channel that they read. So an
    independent decision is notified without its answer, which is in the queue once the item has all its decisions.
    """
    try:
        decision = parse_decision_record(record)
    except (InvalidInput, ValidationError):
        return None
    if not isinstance(decision, Decision):
        return None
    is_hidden = not decision.adjudication and get_settings(decision.dataset).overlap > 1
    excluded = {"shown", "blind_answer", *(ANSWER_FIELDS if is_hidden else ())}
    data = decision.model_dump(mode="json", exclude=excluded, exclude_none=True)
    name = f"{record.topic}-{record.partition}-{record.offset}"
    return Event("item.decided", name, decision.dataset, data, record.timestamp_ms)


def count_new_items(records: Iterable[Record]) -> Counter[str]:
    """New items by dataset. Flagged and control sentences count alike: a reviewer must not tell them apart."""
    items: Counter[str] = Counter()
    for record in records:
        try:
            assessment = parse_review_record(record)
        except (InvalidInput, ValidationError):
            continue
        if isinstance(assessment, Assessment) and assessment.reason in ("flagged", "control"):
            items[assessment.dataset] += 1
    return items


def build_digest(items: Mapping[str, int], positions: Mapping[int, int]) -> list[Event]:
    end = ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))
    return [
        Event("items.flagged", f"{dataset}@{end}", dataset, {"dataset": dataset, "items": count})
        for dataset, count in sorted(items.items())
    ]


# -- conditions --------------------------------------------------------------------------------------------------------


class DatasetView(Protocol):
    """What the state view of the API knows."""

    @property
    def caught_up(self) -> bool: ...
    def list_names(self) -> Iterable[str]: ...
    def get_settings(self, dataset: str) -> DatasetSettings: ...
    def list_misfits(self) -> dict[str, Misfit]: ...
    def get_batches(self, dataset: str) -> DatasetBatches: ...


class BatchReader(Protocol):
    """The review queue."""

    def read_batch_outcomes(self, dataset: str, batch: str) -> BatchOutcomes: ...


def list_conditions(
    view: DatasetView, queue: BatchReader, known: Mapping[str, object], *, with_batches: bool
) -> Iterator[Condition]:
    """Conditions whose value is another than the known one."""
    misfits = view.list_misfits()
    for dataset in view.list_names():
        yield from _check_misfit(dataset, misfits.get(dataset), known)
        yield from _check_model(dataset, view.get_settings(dataset), known)
        limit = view.get_settings(dataset).max_error_rate
        if limit is not None and with_batches:
            yield from _check_batches(dataset, view.get_batches(dataset), queue, known, limit=limit)


def _check_misfit(dataset: str, misfit: Misfit | None, known: Mapping[str, object]) -> Iterator[Condition]:
    name = f"misfit/{dataset}"
    if (misfit is not None) == bool(known.get(name)):
        return
    event = None
    if misfit is not None:
        sentences, flagged = misfit.counts
        problem = f"the model flags {flagged:,} of {sentences:,} sentences: it does not seem to fit the data"
        event = Event("dataset.misfit", f"{dataset}@{sentences}", dataset, {"dataset": dataset, "problem": problem})
    yield Condition(name, misfit is not None, event)


def _check_model(dataset: str, settings: DatasetSettings, known: Mapping[str, object]) -> Iterator[Condition]:
    name, value = f"model/{dataset}", [settings.model, settings.model_fingerprint]
    before = known.get(name)
    if before == value:
        return
    event = None
    if isinstance(before, list):
        data = {"dataset": dataset, "model": settings.model, "previous": before[0], "version": settings.version}
        event = Event("dataset.model_replaced", f"{dataset}@{settings.version}", dataset, data)
    yield Condition(name, value, event)


def _check_batches(
    dataset: str, batches: DatasetBatches, queue: BatchReader, known: Mapping[str, object], *, limit: float
) -> Iterator[Condition]:
    newest = sorted(batches.batches.items(), key=lambda each: -each[1].last_arrival_ms)[:MAX_BATCHES_CHECKED]
    for batch, counts in newest:
        name = f"verdict/{dataset}/{batch}"
        report = build_batch_report(
            dataset, batch, counts, queue.read_batch_outcomes(dataset, batch), max_error_rate=limit
        )
        verdict = report.verdict if report.verdict in ("accept", "reject") else None
        if verdict == known.get(name):
            continue
        data = report.model_dump(mode="json", exclude={"advice", "items_to_review"})
        identity = f"{dataset}/{batch}@{verdict}/{report.sentences}/{report.flagged_decided}/{report.controls_decided}"
        yield Condition(name, verdict, None if verdict is None else Event("batch.verdict", identity, dataset, data))
