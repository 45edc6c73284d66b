"""Records of the review and decision topics: their keys, how they are read, and how decisions and claims are written.

An assessment has the key `dataset/id`, a decision `dataset/id/reviewer`, an adjudication
`dataset/id/reviewer/adjudication`, a claim `dataset/id/reviewer/claim`. In the keys of decisions and claims, a slash (or %) inside an id or a name is escaped as %2F (%25), so that no two share a key.

All claims go to one partition, whatever their key: every reader must see the same claim first.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pydantic import ValidationError

from service.contracts import Assessment, Claim, Decision
from service.log.codec import build_event_headers, get_header
from service.log.protocol import Output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.log.protocol import Record
    from service.log.topics import Topics

DECISION_EVENT_TYPE = "labelwatch.decision.v1"
CLAIM_EVENT_TYPE = "labelwatch.claim.v1"
CLAIM_KEY_SUFFIX = "claim"
ADJUDICATION_KEY_SUFFIX = "adjudication"
CLAIM_PARTITION = 0


class ErasedAssessment(NamedTuple):
    """A tombstone of the review topic: nothing is left of the sentence."""

    dataset: str
    id: str


class ErasedDecision(NamedTuple):
    """A tombstone of the decisions topic: nothing is left of the reviewer's decision."""

    dataset: str
    id: str
    reviewer: str
    adjudication: bool = False


class DecisionKey(NamedTuple):
    """The parts of a key in the decisions topic."""

    dataset: str
    id: str
    reviewer: str
    is_claim: bool = False
    is_adjudication: bool = False


# -- reading -----------------------------------------------------------------------------------------------------------


def parse_review_record(record: Record) -> Assessment | ErasedAssessment | None:
    """The message of a record in the review topic, or None for one that is no review item.

    Raises ValidationError for a value that is not an assessment.
    """
    if record.value is None:
        dataset, _, sentence_id = (record.key or b"").decode(errors="replace").partition("/")
        return ErasedAssessment(dataset, sentence_id)
    assessment = Assessment.model_validate_json(record.value)
    return None if assessment.id is None or assessment.reason == "scored" else assessment


def parse_decision_record(record: Record) -> Decision | Claim | ErasedDecision | None:
    """The message of a record in the decisions topic, or None for a tombstone whose key is not ours.

    A tombstone of a claim ends the claim. Raises ValidationError for a value that is neither decision nor claim.
    """
    if record.value is not None:
        return (Claim if _is_claim(record) else Decision).model_validate_json(record.value)
    key = parse_decision_key(record.key or b"")
    if key is None:
        return None
    if key.is_claim:
        return Claim(dataset=key.dataset, id=key.id, reviewer=key.reviewer)
    return ErasedDecision(key.dataset, key.id, key.reviewer, key.is_adjudication)


def iterate_assessments(records: Iterable[Record]) -> Iterator[Assessment | ErasedAssessment]:
    """The messages of the review topic. Records that can't be read are skipped."""
    for record in records:
        with suppress(ValidationError):
            if (message := parse_review_record(record)) is not None:
                yield message


def iterate_decisions(records: Iterable[Record]) -> Iterator[Decision | ErasedDecision]:
    """The messages of the decisions topic, without claims. Records that can't be read are skipped."""
    for record in records:
        with suppress(ValidationError):
            message = parse_decision_record(record)
            if isinstance(message, Decision | ErasedDecision):
                yield message


def _is_claim(record: Record) -> bool:
    """By the event type; by the key where a producer sets no headers."""
    event_type = get_header(record.headers, "ce_type")
    if event_type is not None:
        return event_type == CLAIM_EVENT_TYPE
    key = parse_decision_key(record.key or b"")
    return key is not None and key.is_claim


def parse_decision_key(key: bytes) -> DecisionKey | None:
    """The parts of the key, or None where the key is not ours."""
    try:
        dataset, *parts = key.decode().split("/")
    except UnicodeDecodeError:
        return None
    suffix = parts[2] if len(parts) == 3 else None
    if len(parts) != 2 and suffix not in (CLAIM_KEY_SUFFIX, ADJUDICATION_KEY_SUFFIX):
        return None
    is_claim, is_adjudication = suffix == CLAIM_KEY_SUFFIX, suffix == ADJUDICATION_KEY_SUFFIX
    return DecisionKey(dataset, unquote(parts[0]), unquote(parts[1]), is_claim, is_adjudication)


# -- writing -----------------------------------------------------------------------------------------------------------


def build_decision_message(topics: Topics, decision: Decision, request_id: str | None = None) -> Output:
    """The message that records a decision. A reviewer's last decision on a sentence replaces the earlier ones."""
    if decision.decided_at is None:
        decision = decision.model_copy(update={"decided_at": datetime.now(UTC)})
    encode_key = encode_adjudication_key if decision.adjudication else encode_decision_key
    return _build_output(topics, encode_key(decision.dataset, decision.id, decision.reviewer), decision, request_id)


def build_claim_message(topics: Topics, claim: Claim, request_id: str | None = None) -> Output:
    output = _build_output(topics, encode_claim_key(claim.dataset, claim.id, claim.reviewer), claim, request_id)
    return replace(output, partition=CLAIM_PARTITION)


def _build_output(topics: Topics, key: bytes, message: Decision | Claim, request_id: str | None) -> Output:
    event_type = DECISION_EVENT_TYPE if isinstance(message, Decision) else CLAIM_EVENT_TYPE
    now = datetime.now(UTC)
    headers = build_event_headers(event_type, event_id=str(uuid.uuid4()), at=now, request_id=request_id)
    return Output(topics.decisions, key, message.model_dump_json(exclude_none=True).encode(), headers)


def encode_decision_key(dataset: str, sentence_id: str, reviewer: str) -> bytes:
    return f"{dataset}/{_escape_key_part(sentence_id)}/{_escape_key_part(reviewer)}".encode()


def encode_adjudication_key(dataset: str, sentence_id: str, reviewer: str) -> bytes:
    return encode_decision_key(dataset, sentence_id, reviewer) + f"/{ADJUDICATION_KEY_SUFFIX}".encode()


def encode_claim_key(dataset: str, sentence_id: str, reviewer: str) -> bytes:
    return encode_decision_key(dataset, sentence_id, reviewer) + f"/{CLAIM_KEY_SUFFIX}".encode()


def _escape_key_part(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")
