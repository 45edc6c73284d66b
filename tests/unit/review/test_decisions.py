from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.contracts import Claim, Decision
from service.errors import InvalidInput
from service.labels import LabelMap, Scheme
from service.log.codec import get_header
from service.review.decisions import check_decision
from service.review.messages import (
    build_claim_message,
    build_decision_message,
    encode_claim_key,
    encode_decision_key,
    parse_decision_key,
)
from tests.support.review_queue import (
    NOW,
    TOPICS,
    QueueHarness,
    make_assessment,
    make_decision_output,
    make_review_output,
)


def say(**fields: Any) -> Decision:
    return Decision.model_validate({"id": "1", "reviewer": "ann", "verdict": "error", **fields})


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"revision": 3}, "revision", "revision 3, the queue holds 0"),
        ({"id": "2"}, "id", "about default/2, not default/1"),
        ({"labels": ["O"]}, "labels", "1 label for 3 words"),
        ({"labels": ["O", "B-PER", "O"]}, "labels", "they are the given labels: correct at least one"),
        ({"labels": ["O", " ", "O"]}, "labels", "empty"),
        ({"verdict": "ok", "labels": ["O", "O", "O"]}, "labels", "need the verdict error"),
        ({"words": [3]}, "words", "no word 3"),
        ({"words": [-1]}, "words", "no word -1"),
        ({"words": [1, 1]}, "words", "twice"),
        ({"verdict": "unsure", "words": [1]}, "words", "need the verdict error"),
        ({"labels": ["O", "O", "O"], "words": [0]}, "words", "not the words whose label is corrected"),
    ],
)
def test_what_does_not_fit_the_item_is_named(desk: QueueHarness, fields: dict[str, Any], field: str, says: str) -> None:
    desk.write(make_review_output(make_assessment("1")))
    with pytest.raises(InvalidInput, match=says) as caught:
        check_decision(desk.get_item("1"), say(**fields))
    assert caught.value.field == field


def test_corrected_labels_are_ones_that_the_dataset_may_have(desk: QueueHarness) -> None:
    desk.write(make_review_output(make_assessment("1")))
    labels = LabelMap.build(
        ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
        model_scheme=Scheme.IOB2,
        dataset_labels=None,
        dataset_scheme=Scheme.IOB2,
        mapping={"PLACE": "LOC"},
    )
    for label in ("B-PLACE", "B-LOC", "I-PER", "O"):
        assert check_decision(desk.get_item("1"), say(labels=["O", label, "O"]), label_map=labels).labels == (
            "O",
            label,
            "O",
        )
    for label in ("B-GHOST", "PLACE", "U-PLACE", "o"):
        with pytest.raises(InvalidInput, match=r"no label of default.*PLACE") as caught:
            check_decision(desk.get_item("1"), say(labels=["O", label, "O"]), label_map=labels)
        assert (caught.value.field, caught.value.word) == ("labels", 1)
    desk.write(make_review_output(make_assessment("1", labels=("B-ORG", "B-PER", "O"), revision=1)))
    kept = say(labels=["B-ORG", "O", "O"], revision=1)  # judged by other settings, and nobody corrects it
    assert check_decision(desk.get_item("1"), kept, label_map=labels).labels == ("B-ORG", "O", "O")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"verdict": "ok"},
        {"verdict": "ok", "labels": ["O", "B-PER", "O"], "words": []},
        {"verdict": "unsure", "note": "who is that?"},
        {"labels": ["O", "O", "O"]},
        {"labels": ["O", "O", "O"], "words": [1]},
        {"words": [0, 2]},
    ],
)
def test_what_fits_is_completed(desk: QueueHarness, fields: dict[str, Any]) -> None:
    desk.write(make_review_output(make_assessment("1", annotator="zoe")))
    checked = check_decision(desk.get_item("1"), say(**fields), now=NOW)
    assert checked.decided_at == NOW
    assert checked.shown is not None
    assert checked.shown.labels == ("O", "B-PER", "O")
    assert checked.shown.annotator == "zoe"
    assert len(checked.shown.scores) == 3
    assert [doubt.index for doubt in checked.shown.doubtful] == [1]


def test_nobody_can_say_what_was_shown_but_the_service(desk: QueueHarness) -> None:
    desk.write(make_review_output(make_assessment("1")))
    checked = check_decision(desk.get_item("1"), say(shown={"labels": ["X"], "reason": "control"}))
    assert checked.shown is not None
    assert (checked.shown.reason, checked.shown.labels[0]) == ("flagged", "O")


def test_a_closed_item_takes_no_decision_but_lets_one_be_taken_back(desk: QueueHarness) -> None:
    desk.write(make_review_output(make_assessment("1", reason="update", update=True)))
    with pytest.raises(InvalidInput, match="closed"):
        check_decision(desk.get_item("1"), say())
    assert check_decision(desk.get_item("1"), say(withdrawn=True)).withdrawn


def test_a_time_without_zone_is_utc(desk: QueueHarness) -> None:
    desk.write(make_review_output(make_assessment("1")))
    checked = check_decision(desk.get_item("1"), say(decided_at="2024-05-31T12:00:00"))
    assert checked.decided_at == NOW


def test_the_message_of_a_decision() -> None:
    output = build_decision_message(TOPICS, say(dataset="news"), "request-1")
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


messages = st.tuples(names, names, st.booleans())


@given(messages, messages)
def test_no_two_share_a_key(one: tuple[str, str, bool], other: tuple[str, str, bool]) -> None:
    def key(identity: str, reviewer: str, claim: bool) -> bytes:
        return (encode_claim_key if claim else encode_decision_key)("d", identity, reviewer)

    assert (key(*one) == key(*other)) == (one == other)
    assert parse_decision_key(key(*one)) == ("d", *one)


@pytest.mark.parametrize("key", [b"", b"d", b"d/1", b"d/1/ann/other", b"d/1/2/3/4", b"\xff/1/2"])
def test_a_key_that_is_not_ours_is_none(key: bytes) -> None:
    assert parse_decision_key(key) is None


def test_a_decision_is_of_the_service_clock_where_it_does_not_say() -> None:
    before = datetime.now(UTC)
    output = make_decision_output("1", decided_at=None)
    decided = Decision.model_validate_json(output.value or b"").decided_at
    assert decided is not None
    assert before <= decided <= datetime.now(UTC)
