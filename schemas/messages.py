"""The messages by name and version, each with its key and its JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from schemas.state_records import (
    Schema,
    build_annotator_schema,
    build_arrivals_schema,
    build_batches_schema,
    build_history_schema,
    build_memory_schema,
    build_position_schema,
    build_state_schema,
)
from service.contracts import (
    AnnotatedSentence,
    Assessment,
    Claim,
    DatasetSettings,
    Decision,
    LabelledSentence,
    Message,
    Training,
    TrainingRequest,
)
from service.contracts.access.audit import AuditRecord
from service.contracts.access.key import StoredKey
from service.contracts.notification import EndpointStatus, Notification, WebhookEndpoint
from service.errors import InferenceError, InvalidInput
from service.log.codec import (
    ERROR_HEADER_PREFIX,
    REQUEST_ID_HEADER,
    SENT_BY_HEADER,
    build_dead_letter,
    build_event_headers,
)
from service.log.protocol import Record
from service.log.waiting_records import HEADER_PREFIX, build_waiting_message
from service.review.messages import CLAIM_PARTITION

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class MessageContract:
    name: str
    model: type[Message]
    key: str  # what the message key should be
    key_example: str


CONTRACTS = (
    MessageContract(
        "sentence.v1",
        LabelledSentence,
        "`dataset/document` where the sentence has a document, else `dataset/id`; any other key, or none, works too",
        "news/4711",
    ),
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
    MessageContract("audit.v1", AuditRecord, "none", ""),
    MessageContract("key.v1", StoredKey, "name of the key", "dana"),
    MessageContract("training.v1", Training, "`dataset/model`", "med/med-v1"),
    MessageContract("training-request.v1", TrainingRequest, "`dataset/@request`", "med/@request"),
    MessageContract("webhook-endpoint.v1", WebhookEndpoint, "`endpoint/` and its id", "endpoint/wh_0123456789abcdef"),
    MessageContract(
        "webhook-status.v1", EndpointStatus, "`status/` and the id of the endpoint", "status/wh_0123456789abcdef"
    ),
    MessageContract(
        "notification.v1",
        Notification,
        "`message/`, the id of the endpoint, `/` and its own id",
        "message/wh_0123456789abcdef/msg_5c3b",
    ),
)

# Rules of validators, which pydantic can't express in a schema.
SENTENCE_WITH_WORDS = {
    "required": ["tokens", "labels"],
    "properties": {"tokens": {"minItems": 1}, "labels": {"minItems": 1}},
}
DELETED_SENTENCE = {"required": ["deleted", "id"], "properties": {"deleted": {"const": True}, "id": {"type": "string"}}}


def build_schemas() -> dict[str, Schema]:
    """Every JSON Schema by the name of its message."""
    schemas = {contract.name: _build_model_schema(contract) for contract in CONTRACTS}
    return schemas | {
        "state.v1": _with_schema_id("state.v1", build_state_schema()),
        "arrivals.v1": _with_schema_id("arrivals.v1", build_arrivals_schema()),
        "annotator.v1": _with_schema_id("annotator.v1", build_annotator_schema()),
        "batches.v1": _with_schema_id("batches.v1", build_batches_schema()),
        "memory.v1": _with_schema_id("memory.v1", build_memory_schema()),
        "history.v1": _with_schema_id("history.v1", build_history_schema()),
        "position.v1": _with_schema_id("position.v1", build_position_schema()),
        "event-headers.v1": _with_schema_id("event-headers.v1", _build_event_headers_schema()),
        "dead-letter-headers.v1": _with_schema_id("dead-letter-headers.v1", _build_dead_letter_headers_schema()),
        "waiting-headers.v1": _with_schema_id("waiting-headers.v1", _build_waiting_headers_schema()),
    }


def _with_schema_id(name: str, body: Schema) -> Schema:
    return {"$schema": DIALECT, "$id": f"urn:labelwatch:{name}", **body}


def _build_model_schema(contract: MessageContract) -> Schema:
    body = contract.model.model_json_schema(mode="validation")
    if issubclass(contract.model, AnnotatedSentence):
        body["anyOf"] = [SENTENCE_WITH_WORDS, DELETED_SENTENCE]
    return _with_schema_id(contract.name, _drop_discriminators(body))


def _drop_discriminators(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Drops `discriminator`, which has another meaning in AsyncAPI than in OpenAPI. `oneOf` says the same."""
    if isinstance(value, dict):
        return {name: _drop_discriminators(item) for name, item in value.items() if name != "discriminator"}
    return [_drop_discriminators(item) for item in value] if isinstance(value, list) else value


EVENT_HEADER_DESCRIPTIONS = {
    "ce_specversion": "Version of CloudEvents",
    "ce_type": "Name and version of the message",
    "ce_source": "The writer",
    "ce_id": "Unique id of the message",
    "ce_time": "Time of writing",
    "content-type": "Media type of the value",
    REQUEST_ID_HEADER: "The id of the REST request that wrote it, if one did",
    SENT_BY_HEADER: "Of a sentence: the name of the key or user whose REST request sent it, if one did",
}


def _build_event_headers_schema() -> Schema:
    """The names are those that the code writes: one without a description is an error."""
    headers = build_event_headers("", event_id="", at=datetime.fromtimestamp(0, UTC), request_id="x", sent_by="x")
    names = [name for name, _ in headers]
    return {
        "title": "Event headers",
        "description": "CloudEvents 1.0 in binary mode. Producers of sentences may leave them out",
        "type": "object",
        "required": [name for name in names if name not in (REQUEST_ID_HEADER, SENT_BY_HEADER)],
        "properties": {name: {"type": "string", "description": EVENT_HEADER_DESCRIPTIONS[name]} for name in names},
    }


DEAD_LETTER_HEADER_DESCRIPTIONS = {
    "topic": "Topic that the message was read from",
    "partition": "Partition that the message was read from",
    "offset": "Offset of the message",
    "stage": "The step that failed",
    "exception.class.name": "Class of the error",
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
    for name in ("partition", "offset"):
        properties[f"{ERROR_HEADER_PREFIX}.{name}"]["pattern"] = "^[0-9]+$"
    return {
        "title": "Dead letter headers",
        "description": "Added to the original headers; key and value are the original ones byte for byte",
        "type": "object",
        "required": names,
        "properties": properties,
    }


WAITING_HEADER_DESCRIPTIONS = {
    "topic": "Topic that the message was read from",
    "offset": "Offset of the message; its partition is that of the record",
    "timestamp_ms": "Time of the message",
    "key": "Key of the message, if it had one",
}


def _build_waiting_headers_schema() -> Schema:
    message = build_waiting_message("", Record("", 0, 0, b"", b""), LabelledSentence(tokens=("",), labels=("",)))
    names = [name for name, _ in message.headers]
    properties: dict[str, Schema] = {
        name: {"type": "string", "description": WAITING_HEADER_DESCRIPTIONS[name.removeprefix(HEADER_PREFIX)]}
        for name in names
    }
    for name in ("offset", "timestamp_ms"):
        properties[f"{HEADER_PREFIX}{name}"]["pattern"] = "^[0-9]+$"
    return {
        "title": "Waiting sentence headers",
        "description": "Added to the original headers; the value is the original one byte for byte",
        "type": "object",
        "required": [name for name in names if not name.endswith(".key")],
        "properties": properties,
    }
