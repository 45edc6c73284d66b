"""How things are written in the log: state keys, event headers, dead letters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from service.errors import LabelwatchError, StateError
from service.log.protocol import Headers, Output, Record

if TYPE_CHECKING:
    from datetime import datetime

EVENT_SOURCE = "labelwatch"
ASSESSMENT = "labelwatch.assessment.v1"
SENTENCE = "labelwatch.sentence.v1"
DATASET = "labelwatch.dataset.v1"
ERRORS = "__connect.errors"
POSITION_VERSION = 1
REQUEST_ID = "x-request-id"


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def state_key(partition: int, dataset: str, stats_key: str) -> bytes:
    return _compact(["stats", partition, dataset, stats_key])


def position_key(partition: int) -> bytes:
    return _compact(["position", partition])


def read_state_key(key: bytes) -> tuple[int, str, str] | None:
    """(partition, dataset, stats key), or none for a position record."""
    try:
        kind, *rest = json.loads(key)
        if kind == "position":
            return None
        partition, dataset, stats_key = rest
        return int(partition), str(dataset), str(stats_key)
    except (ValueError, TypeError) as error:
        raise StateError(f"a state record has the unreadable key {key[:80]!r}") from error


def position_value(next_offset: int) -> bytes:
    return _compact({"next_offset": next_offset, "version": POSITION_VERSION})


def read_position(value: bytes) -> int:
    try:
        return int(json.loads(value)["next_offset"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"a position record is unreadable: {value[:80]!r}") from error


def event_headers(kind: str, *, identity: str, at: datetime, request_id: str | None = None) -> Headers:
    """CloudEvents 1.0 in binary mode: attributes as headers, the value stays plain JSON."""
    attributes = {
        "ce_specversion": "1.0",
        "ce_type": kind,
        "ce_source": EVENT_SOURCE,
        "ce_id": identity,
        "ce_time": at.isoformat(),
        "content-type": "application/json",
    }
    if request_id:
        attributes[REQUEST_ID] = request_id
    return tuple((name, value.encode()) for name, value in attributes.items())


def header(headers: Headers, name: str) -> str | None:
    return next((value.decode(errors="replace") for key, value in headers if key == name), None)


def dead_letter(topic: str, record: Record, error: LabelwatchError) -> Output:
    """The record byte for byte, with the reason in headers in the style of Kafka Connect."""
    reason = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "stage": error.stage,
        "exception.class.name": type(error).__name__,
        "exception.message": str(error)[:4000],
    }
    added = tuple((f"{ERRORS}.{name}", value.encode(errors="replace")) for name, value in reason.items())
    return Output(topic, record.key, record.value, (*record.headers, *added))
