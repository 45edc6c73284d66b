"""Decisions and claims as messages, and their keys."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.contracts import Assessment, Claim, Decision
from service.log.codec import get_header
from service.log.protocol import Record
from service.review.messages import (
    DecisionKey,
    ErasedAssessment,
    ErasedDecision,
    build_claim_message,
    build_decision_message,
    encode_adjudication_key,
    encode_claim_key,
    encode_decision_key,
    iterate_assessments,
    iterate_decisions,
    parse_decision_key,
    parse_decision_record,
    parse_review_record,
)
from tests.support.review_queue import NOW, TOPICS, make_assessment, make_decision_output, make_review_output


def make_decision(**fields: Any) -> Decision:
    return Decision.model_validate({"id": "1", "reviewer": "ann", "verdict": "error", **fields})


def test_the_message_of_a_decision() -> None:
    output = build_decision_message(TOPICS, make_decision(dataset="news"), "request-1")
    assert (output.topic, output.key) == ("labelwatch.decisions", b"news/1/ann")
    assert get_header(output.headers, "ce_type") == "labelwatch.decision.v1"
    assert get_header(output.headers, "x-request-id") == "request-1"
    read = Decision.model_validate_json(output.value or b"")
    assert read.verdict == "error"
    assert read.decided_at is not None
    assert read.decided_at.tzinfo is not None


def test_the_message_of_a_claim() -> None:
    output = build_claim_message(TOPICS, Claim(id="1", reviewer="ann", until=NOW))
    assert (output.topic, output.key) == ("labelwatch.decisions", b"default/1/ann/claim")
    assert get_header(output.headers, "ce_type") == "labelwatch.claim.v1"
    assert json.loads(output.value or b"") == {
        "dataset": "default",
        "id": "1",
        "reviewer": "ann",
        "until": "2024-05-31T12:00:00Z",
    }


names = st.text(st.sampled_from("a/%2Fclaim é"), min_size=1, max_size=12)
messages = st.builds(
    lambda sentence_id, reviewer, kind: DecisionKey(
        "d", sentence_id, reviewer, is_claim=kind == "claim", is_adjudication=kind == "adjudication"
    ),
    names,
    names,
    st.sampled_from(("decision", "claim", "adjudication")),
)


@given(messages, messages)
def test_no_two_messages_share_a_key(first: DecisionKey, second: DecisionKey) -> None:
    def encode(key: DecisionKey) -> bytes:
        encode_key = encode_decision_key
        if key.is_claim or key.is_adjudication:
            encode_key = encode_claim_key if key.is_claim else encode_adjudication_key
        return encode_key(key.dataset, key.id, key.reviewer)

    assert (encode(first) == encode(second)) == (first == second)
    assert parse_decision_key(encode(first)) == first


@pytest.mark.parametrize("key", [b"", b"d", b"d/1", b"d/1/ann/other", b"d/1/2/3/4", b"\xff/1/2"])
def test_a_key_that_is_not_ours_is_none(key: bytes) -> None:
    assert parse_decision_key(key) is None


def test_a_decision_without_a_time_gets_that_of_the_service() -> None:
    before = datetime.now(UTC)
    output = make_decision_output("1", decided_at=None)
    decided_at = Decision.model_validate_json(output.value or b"").decided_at
    assert decided_at is not None
    assert before <= decided_at <= datetime.now(UTC)


# -- reading -----------------------------------------------------------------------------------------------------------


def to_record(topic: str, key: bytes | None, value: bytes | None) -> Record:
    return Record(topic, 0, 0, key, value)


def test_records_of_the_review_topic() -> None:
    flagged = make_review_output(make_assessment("a/b"))
    message = parse_review_record(to_record(TOPICS.review, flagged.key, flagged.value))
    assert isinstance(message, Assessment)
    assert message.id == "a/b"
    assert parse_review_record(to_record(TOPICS.review, b"d/a/b", None)) == ErasedAssessment("d", "a/b")
    unflagged = make_assessment("a").model_copy(update={"reason": "scored"}).model_dump_json().encode()
    assert parse_review_record(to_record(TOPICS.review, b"d/a", unflagged)) is None


def test_records_of_the_decisions_topic() -> None:
    decision = make_decision_output("1")
    claim = build_claim_message(TOPICS, Claim(id="1", reviewer="ann", until=NOW))
    records = [to_record(TOPICS.decisions, message.key, message.value) for message in (decision, claim)]
    assert [type(parse_decision_record(record)) for record in records] == [Decision, Claim]
    erased = to_record(TOPICS.decisions, b"d/a%2Fb/ann", None)
    assert parse_decision_record(erased) == ErasedDecision("d", "a/b", "ann")
    ended = parse_decision_record(to_record(TOPICS.decisions, b"d/1/ann/claim", None))
    assert ended == Claim(dataset="d", id="1", reviewer="ann")
    assert parse_decision_record(to_record(TOPICS.decisions, b"odd", None)) is None
    assert [type(message) for message in iterate_decisions([*records, erased])] == [Decision, ErasedDecision]


def test_records_that_cannot_be_read_are_skipped() -> None:
    flagged = make_review_output(make_assessment("a"))
    records = [to_record(TOPICS.review, b"d/a", b"{"), to_record(TOPICS.review, flagged.key, flagged.value)]
    assert [message.id for message in iterate_assessments(records)] == ["a"]
    assert list(iterate_decisions([to_record(TOPICS.decisions, b"d/a/ann", b"[]")])) == []
