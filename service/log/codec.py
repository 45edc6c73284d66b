"""How messages are encoded in the log: sentences, state keys, event headers, dead letters."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from service.errors import LabelwatchError, MessageTooLargeError, StateError
from service.log.protocol import Headers, Output, Record
from service.log.topics import MAX_INPUT_BYTES

if TYPE_CHECKING:
    from service.contracts import LabelledSentence

EVENT_SOURCE = "labelwatch"
ASSESSMENT_EVENT_TYPE = "labelwatch.assessment.v1"
SENTENCE_EVENT_TYPE = "labelwatch.sentence.v1"
DATASET_EVENT_TYPE = "labelwatch.dataset.v1"
ERROR_HEADER_PREFIX = "__connect.errors"
POSITION_VERSION = 1
MEMORY_KIND = "memory"
ARRIVALS_KIND = "arrivals"
ANNOTATOR_KIND = "annotator"
BATCHES_KIND = "batches"
MAX_SENTENCE_BYTES = MAX_INPUT_BYTES - 4096  # the rest is for the key and the headers
REQUEST_ID_HEADER = "x-request-id"
SENT_BY_HEADER = "x-sent-by"
UNREAD_BATCH_HEADER = "labelwatch-unread-batch"  # of a record in place of a batch that was not unpacked: why
# What a key or value that anybody wrote may cause: no JSON, another shape, JSON that is nested too deeply, Infinity as a number.
_UNREADABLE = (ValueError, TypeError, RecursionError, OverflowError)


def _to_compact_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def to_state_key(partition: int, dataset: str, stats_key: str) -> bytes:
    return _to_compact_json(["stats", partition, dataset, stats_key])


def to_arrivals_key(partition: int, dataset: str) -> bytes:
    """As long as a key of statistics: releases before this record can read no other."""
    return _to_compact_json([ARRIVALS_KIND, partition, dataset, ""])


def to_batches_key(partition: int, dataset: str) -> bytes:
    """As long as a key of statistics, and never equal to one: releases before this record can read no other."""
    return _to_compact_json([BATCHES_KIND, partition, dataset, BATCHES_KIND])


def to_memory_key(partition: int, dataset: str, stats_key: str, part: str) -> bytes:
    """As long as a key of statistics, and never equal to one: releases before this record can read no other."""
    return _to_compact_json([MEMORY_KIND, partition, dataset, f"{stats_key}/{part}"])


def to_annotator_key(partition: int, dataset: str, stats_key: str, annotator: str) -> bytes:
    """As long as a key of statistics, and never equal to one: releases before this record can read no other."""
    return _to_compact_json([ANNOTATOR_KIND, partition, dataset, f"{stats_key}/{annotator}"])


def to_position_key(partition: int) -> bytes:
    return _to_compact_json(["position", partition])


def parse_arrivals_key(key: bytes) -> tuple[int, str] | None:
    """(partition, dataset) of a record with the counts of arrivals; none for another record."""
    return _parse_dataset_key(key, ARRIVALS_KIND)


def parse_batches_key(key: bytes) -> tuple[int, str] | None:
    """(partition, dataset) of a record with the counts of batches; none for another record."""
    return _parse_dataset_key(key, BATCHES_KIND)


def _parse_dataset_key(key: bytes, expected: str) -> tuple[int, str] | None:
    try:
        kind, partition, dataset, _ = json.loads(key)
        return (int(partition), str(dataset)) if kind == expected else None
    except _UNREADABLE:
        return None


def parse_memory_key(key: bytes) -> tuple[int, str, str, str] | None:
    """(partition, dataset, stats key, part) of a record of memory; none for another record."""
    try:
        kind, partition, dataset, name = json.loads(key)
        if kind != MEMORY_KIND:
            return None
        stats_key, part = str(name).rsplit("/", 1)
        return int(partition), str(dataset), stats_key, part
    except _UNREADABLE:
        return None


def parse_annotator_key(key: bytes) -> tuple[int, str, str, str] | None:
    """(partition, dataset, stats key, annotator) of the sums of an annotator; none for another record."""
    try:
        kind, partition, dataset, name = json.loads(key)
        if kind != ANNOTATOR_KIND:
            return None
        source_key, epoch, annotator = str(name).split("/", 2)  # a stats key has one slash, an annotator any number
        return int(partition), str(dataset), f"{source_key}/{epoch}", annotator
    except _UNREADABLE:
        return None


def parse_state_key(key: bytes) -> tuple[int, str, str] | None:
    """(partition, dataset, stats key) of statistics, or none for another record."""
    try:
        kind, *rest = json.loads(key)
        if kind in ("position", ARRIVALS_KIND, BATCHES_KIND, MEMORY_KIND, ANNOTATOR_KIND):
            return None
        partition, dataset, stats_key = rest
        return int(partition), str(dataset), str(stats_key)
    except _UNREADABLE as error:
        raise StateError(f"a state record has the unreadable key {key[:80]!r}") from error


def parse_position_key(key: bytes) -> int:
    """The partition of a position record."""
    try:
        _, partition = json.loads(key)
        return int(partition)
    except _UNREADABLE as error:
        raise StateError(f"a position record has the unreadable key {key[:80]!r}") from error


def to_position_value(next_offset: int) -> bytes:
    return _to_compact_json({"next_offset": next_offset, "version": POSITION_VERSION})


def parse_position(value: bytes) -> int:
    try:
        return int(json.loads(value)["next_offset"])
    except (KeyError, *_UNREADABLE) as error:
        raise StateError(f"a position record is unreadable: {value[:80]!r}") from error


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The REST request that appends a message. `sent_by`: the key or user that sent it; `trace`: its trace context."""

    request_id: str | None = None
    sent_by: str | None = None
    trace: Headers = ()


NO_REQUEST: Final = RequestOrigin()


def build_event_headers(
    event_type: str, *, event_id: str, at: datetime, request_id: str | None = None, sent_by: str | None = None
) -> Headers:
    """CloudEvents 1.0 in binary mode: attributes as headers, the value stays plain JSON."""
    attributes = {
        "ce_specversion": "1.0",
        "ce_type": event_type,
        "ce_source": EVENT_SOURCE,
        "ce_id": event_id,
        "ce_time": at.isoformat(),
        "content-type": "application/json",
    }
    if request_id:
        attributes[REQUEST_ID_HEADER] = request_id
    if sent_by:
        attributes[SENT_BY_HEADER] = sent_by
    return tuple((name, value.encode()) for name, value in attributes.items())


def get_header(headers: Headers, name: str) -> str | None:
    return next((value.decode(errors="replace") for key, value in headers if key == name), None)


def explain_unreadable(record: Record) -> str | None:
    """Why the record holds no message at all; None if it may hold one."""
    if record.value is None:
        return "the message has no value: send a sentence, or `deleted: true` with its id"
    return get_header(record.headers, UNREAD_BATCH_HEADER) if record.headers else None


def encode_headers(headers: Headers) -> str:
    """Headers as text for a SQLite column. Latin-1 has one character per byte, so any bytes survive."""
    return json.dumps([(name, value.decode("latin-1")) for name, value in headers]) if headers else "[]"


def decode_headers(text: str) -> Headers:
    return tuple((name, value.encode("latin-1")) for name, value in json.loads(text))


def build_sentence_message(
    topic: str,
    sentence: LabelledSentence,
    *,
    origin: RequestOrigin = NO_REQUEST,
    location: str | None = None,
) -> Output:
    """The message that sends a sentence to the input topic.

    `location` is the path of the sentence in a request body. The error names it.
    """
    value = sentence.model_dump_json(exclude_defaults=True).encode()
    if len(value) > MAX_SENTENCE_BYTES:
        remedy = "" if sentence.probabilities is None else ", or send fewer digits per probability"
        raise MessageTooLargeError(
            f"the message has {len(value):,} bytes, the limit is {MAX_SENTENCE_BYTES:,}: split the sentence{remedy}",
            field=location,
        )
    headers = build_event_headers(
        SENTENCE_EVENT_TYPE,
        event_id=str(uuid.uuid4()),
        at=datetime.now(UTC),
        request_id=origin.request_id,
        sent_by=origin.sent_by,
    )
    return Output(topic, encode_sentence_key(sentence), value, (*headers, *origin.trace))


def encode_sentence_key(sentence: LabelledSentence) -> bytes:
    """The key of a sentence's message: dataset and document, or dataset and id where it has no document.

    Messages with the same key stay in one partition, in order. So a document is judged in its order, and the revisions
    of a sentence are in order as long as it stays in its document. Where it does not, `revision` decides.
    """
    return f"{sentence.dataset}/{sentence.document or sentence.id}".encode()


def build_dead_letter(topic: str, record: Record, error: LabelwatchError) -> Output:
    """The record byte for byte, with the reason in headers in the style of Kafka Connect."""
    reason = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "stage": error.stage,
        "exception.class.name": type(error).__name__,
        "exception.message": str(error)[:4000],
    }
    added = tuple((f"{ERROR_HEADER_PREFIX}.{name}", value.encode(errors="replace")) for name, value in reason.items())
    return Output(topic, record.key, record.value, (*record.headers, *added))
