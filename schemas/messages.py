"""The messages by name and version: where each is read and written, and its JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.contracts import Assessment, Claim, DatasetSettings, Decision, LabelledSentence, Message
from service.errors import InferenceError, InvalidInput
from service.log.codec import (
    ERROR_HEADER_PREFIX,
    POSITION_VERSION,
    REQUEST_ID_HEADER,
    build_dead_letter,
    build_event_headers,
)
from service.log.protocol import Record
from service.review.messages import CLAIM_PARTITION
from service.statistics.class_stats import CLASS_STATS_FORMAT
from service.statistics.histogram import HISTOGRAM_FORMAT
from service.statistics.running import RUNNING_STATS_FORMAT

if TYPE_CHECKING:
    from datetime import datetime

    from service.statistics.snapshots import SnapshotFormat

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class MessageContract:
    name: str
    model: type[Message]
    key: str  # what the message key should be
    key_example: str


CONTRACTS = (
    MessageContract("sentence.v1", LabelledSentence, "`dataset/id`; any other key, or none, works too", "news/4711"),
    MessageContract("assessment.v1", Assessment, "`dataset/id`", "news/4711"),
    MessageContract(
        "decision.v1", Decision, "`dataset/id/reviewer`, with % and / in the parts as %25 and %2F", "news/4711/anna"
    ),
    MessageContract(
        "claim.v1",
        Claim,
        f"`dataset/id/reviewer/claim`, the parts as in a decision's key; always in partition {CLAIM_PARTITION}",
        "news/4711/anna/claim",
    ),
    MessageContract("dataset.v1", DatasetSettings, "name of the dataset", "news"),
)

# Said in code by validators, which pydantic can't put into a schema.
SENTENCE_WITH_WORDS = {
    "required": ["tokens", "labels"],
    "properties": {"tokens": {"minItems": 1}, "labels": {"minItems": 1}},
}
DELETED_SENTENCE = {"required": ["deleted", "id"], "properties": {"deleted": {"const": True}, "id": {"type": "string"}}}


def build_schemas() -> dict[str, Schema]:
    """Every JSON Schema by the name of its message."""
    made = {one.name: _build_model_schema(one) for one in CONTRACTS}
    return made | {
        "state.v1": _with_schema_id("state.v1", _build_state_schema()),
        "position.v1": _with_schema_id("position.v1", _build_position_schema()),
        "event-headers.v1": _with_schema_id("event-headers.v1", _build_event_headers_schema()),
        "dead-letter-headers.v1": _with_schema_id("dead-letter-headers.v1", _build_dead_letter_headers_schema()),
    }


def _with_schema_id(name: str, body: Schema) -> Schema:
    return {"$schema": DIALECT, "$id": f"urn:labelwatch:{name}", **body}


def _build_model_schema(contract: MessageContract) -> Schema:
    body = contract.model.model_json_schema(mode="validation")
    if issubclass(contract.model, LabelledSentence):
        body["anyOf"] = [SENTENCE_WITH_WORDS, DELETED_SENTENCE]
    return _with_schema_id(contract.name, _drop_discriminators(body))


def _drop_discriminators(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Without `discriminator`, which is OpenAPI's and means something else to AsyncAPI; `oneOf` says the same."""
    if isinstance(value, dict):
        return {name: _drop_discriminators(part) for name, part in value.items() if name != "discriminator"}
    return [_drop_discriminators(part) for part in value] if isinstance(value, list) else value


def _build_counts_schema(description: str) -> Schema:
    return {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": description}


def _build_version_schema(snapshot_format: SnapshotFormat) -> Schema:
    """Each nested format has a version of its own."""
    min_reader = "The oldest version of this format whose readers can use the object; the same as version if absent"
    return {
        "version": {"const": snapshot_format.version},
        "min_reader": {
            "type": "integer",
            "minimum": 1,
            "maximum": snapshot_format.version,
            "description": min_reader,
        },
    }


def _build_state_schema() -> Schema:
    fields = {
        "sums": "Probability of the class over words given it, in units of 2^-40",
        "counts": "Words given the class",
        "agree_sums": "As sums, of words where the model agrees",
        "agree_counts": "As counts, of words where the model agrees",
    }
    day = {name: _build_counts_schema(f"{text}; one a class") for name, text in fields.items()}
    bins = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}
    return {
        "title": "State",
        "description": "Raw integer sums of a dataset, a model and a partition. Only the partition's owner writes them",
        "type": "object",
        "additionalProperties": False,
        "required": ["version", "n_classes", "keep_days", "buckets", "histogram"],
        "properties": {
            **_build_version_schema(RUNNING_STATS_FORMAT),
            "n_classes": {"type": "integer", "minimum": 1},
            "keep_days": {"type": ["integer", "null"], "minimum": 1, "description": "None: nothing is forgotten"},
            "buckets": {
                "description": "By day; one with an empty name where nothing is forgotten",
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["version", *fields],
                    "properties": {**_build_version_schema(CLASS_STATS_FORMAT), **day},
                },
            },
            "histogram": {
                "description": "Priorities seen: the occupied bins and their counts",
                "type": "object",
                "additionalProperties": False,
                "required": ["version", "bins"],
                "properties": {**_build_version_schema(HISTOGRAM_FORMAT), "bins": {"type": "array", "items": bins}},
            },
        },
    }


def _build_position_schema() -> Schema:
    return {
        "title": "Position",
        "description": "Where a partition goes on; written with every batch",
        "type": "object",
        "required": ["next_offset", "version"],
        "properties": {"next_offset": {"type": "integer", "minimum": 0}, "version": {"const": POSITION_VERSION}},
    }


EVENT_HEADER_DESCRIPTIONS = {
    "ce_specversion": "Version of CloudEvents",
    "ce_type": "Name and version of the message",
    "ce_source": "Who wrote it",
    "ce_id": "Unique to the message",
    "ce_time": "When it was written",
    "content-type": "Of the value",
    REQUEST_ID_HEADER: "The request that it came from, where there was one",
}


def _build_event_headers_schema() -> Schema:
    """Names as the code writes them, so that one without a text here is an error."""
    names = [name for name, _ in build_event_headers("", event_id="", at=_make_epoch(), request_id="x")]
    return {
        "title": "Event headers",
        "description": "CloudEvents 1.0 in binary mode. Producers of sentences may leave all of them out",
        "type": "object",
        "required": [name for name in names if name != REQUEST_ID_HEADER],
        "properties": {name: {"type": "string", "description": EVENT_HEADER_DESCRIPTIONS[name]} for name in names},
    }


DEAD_LETTER_HEADER_DESCRIPTIONS = {
    "topic": "Topic it was read from",
    "partition": "Partition it was read from",
    "offset": "Offset it was read at",
    "stage": "What could not be done",
    "exception.class.name": "Kind of the error",
    "exception.message": "The error, which names the field and says what to change",
}


def list_stages() -> list[str]:
    """Every stage at which a message can become a dead letter."""
    kinds: list[type[InvalidInput] | type[InferenceError]] = [
        InvalidInput,
        *InvalidInput.__subclasses__(),
        InferenceError,
    ]
    return sorted({kind.stage for kind in kinds if kind.__module__ == InvalidInput.__module__})


def _build_dead_letter_headers_schema() -> Schema:
    letter = build_dead_letter("", Record("", 0, 0, None, b""), InvalidInput(""))
    names = [name for name, _ in letter.headers]
    properties: dict[str, Schema] = {
        name: {
            "type": "string",
            "description": DEAD_LETTER_HEADER_DESCRIPTIONS[name.removeprefix(f"{ERROR_HEADER_PREFIX}.")],
        }
        for name in names
    }
    properties[f"{ERROR_HEADER_PREFIX}.stage"]["enum"] = list_stages()
    for place in ("partition", "offset"):
        properties[f"{ERROR_HEADER_PREFIX}.{place}"]["pattern"] = "^[0-9]+$"
    return {
        "title": "Dead letter headers",
        "description": "Added to the original headers; key and value are the original ones byte for byte",
        "type": "object",
        "required": names,
        "properties": properties,
    }


def _make_epoch() -> datetime:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(0, UTC)
