"""`labelwatch dead-letters`: listed with their reasons, and sent again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from service.access.audit_log import get_command_user
from service.contracts.access.audit import AuditRecord
from service.log.protocol import Output
from service.log.topics import Topics

if TYPE_CHECKING:
    from tests.support.command_harness import CommandHarness

TOPICS = Topics()


MESSAGES: list[tuple[bytes | None, bytes | None]] = [
    (b"\xffkey", b"\xfe not json"),
    (None, b'{"tokens": ["a"], "labels": ["B-GHOST"], "dataset": "odd", "id": "g"}'),
    (b"k", None),
]
PRODUCER_HEADERS = (("trace", b"\x00\xff"), ("__connect.errors.stage", b"theirs"))


def make_dead_letters(harness: CommandHarness) -> None:
    harness.append_settings(name="odd", version=1, label_set=["PER"])
    harness.append(*(Output(TOPICS.sentences, key, value, PRODUCER_HEADERS) for key, value in MESSAGES))
    harness.run("worker", "--once")


def test_dead_letters_are_listed_with_their_reasons(harness: CommandHarness) -> None:
    make_dead_letters(harness)
    ran = harness.run("dead-letters", "list")
    assert "B-GHOST" in ran.out
    assert "the message has no value" in ran.out
    assert "3 dead letters: 2 decode, 1 labels" in ran.err
    [line] = harness.run("dead-letters", "list", "--stage", "labels", "--json").out.splitlines()
    letter = json.loads(line)
    assert letter["stage"] == "labels"
    assert letter["origin"] == "labelwatch.sentences-0-1"
    assert letter["headers"] == [["trace", {"base64": "AP8="}], ["__connect.errors.stage", {"text": "theirs"}]]


def test_dead_letters_are_sent_again_byte_for_byte_and_only_once(harness: CommandHarness) -> None:
    make_dead_letters(harness)
    assert "1 dead letter would be sent" in harness.run("dead-letters", "replay", "--stage", "labels", "--dry-run").out
    assert len(harness.read_records(TOPICS.sentences)) == 3
    assert "1 dead letter sent" in harness.run("dead-letters", "replay", "--stage", "labels").out
    ran = harness.run("dead-letters", "replay")
    assert ran.out.startswith("2 dead letters sent to labelwatch.sentences; 1 was sent again before")
    again = harness.read_records(TOPICS.sentences)[3:]
    assert sorted((record.key or b"", record.value or b"") for record in again) == sorted(
        (key or b"", value or b"") for key, value in MESSAGES
    )
    assert {tuple(header for header in record.headers if header[0] != "labelwatch-replay-of") for record in again} == {
        PRODUCER_HEADERS
    }
    assert harness.run("dead-letters", "replay").out.startswith("0 dead letters sent")
    assert harness.run("dead-letters", "replay", "--again").out.startswith("3 dead letters sent")


def test_each_replay_is_in_the_audit_trail(harness: CommandHarness) -> None:
    make_dead_letters(harness)
    harness.run("dead-letters", "replay", "--dry-run")
    assert harness.read_records(TOPICS.audit) == []
    harness.run("dead-letters", "replay", "--stage", "labels")
    harness.run("dead-letters", "replay")
    harness.run("dead-letters", "replay")  # nothing is left to send
    records = [AuditRecord.model_validate_json(each.value or b"") for each in harness.read_records(TOPICS.audit)]
    assert [(each.action, each.details, each.via) for each in records] == [
        ("dead-letters", {"letters": 1}, "command"),
        ("dead-letters", {"letters": 2}, "command"),
    ]
    assert {each.actor for each in records} == {get_command_user()}


def test_a_letter_whose_cause_is_fixed_goes_to_review(harness: CommandHarness) -> None:
    make_dead_letters(harness)
    harness.append_settings(name="odd", version=2, label_map={"GHOST": "PER"}, control_share=1.0)
    harness.run("dead-letters", "replay", "--stage", "labels")
    harness.run("worker", "--once")
    assert [assessment.id for assessment in harness.read_assessments()] == ["g"]
    assert len(harness.read_records(TOPICS.dead_letters)) == 3


def test_letters_that_were_sent_again_are_marked_or_left_out(harness: CommandHarness) -> None:
    make_dead_letters(harness)
    assert "sent again" not in harness.run("dead-letters", "list").out
    harness.run("dead-letters", "replay", "--stage", "labels")
    ran = harness.run("dead-letters", "list")
    [marked] = [line for line in ran.out.splitlines() if "[sent again]" in line]
    assert "B-GHOST" in marked
    assert "3 dead letters: 2 decode, 1 labels; 1 sent again before (--waiting leaves them out)" in ran.err
    letters = [json.loads(line) for line in harness.run("dead-letters", "list", "--json").out.splitlines()]
    assert sorted((letter["stage"], letter["sent_again"]) for letter in letters) == [("decode", False)] * 2 + [
        ("labels", True)
    ]
    ran = harness.run("dead-letters", "list", "--waiting")
    assert "B-GHOST" not in ran.out
    assert "2 dead letters: 2 decode; 1 sent again before and left out" in ran.err


def test_a_letter_that_fails_again_can_be_sent_again(harness: CommandHarness) -> None:
    make_dead_letters(harness)
    harness.run("dead-letters", "replay", "--stage", "labels")
    harness.run("worker", "--once")
    ran = harness.run("dead-letters", "replay", "--stage", "labels")
    assert ran.out.startswith("1 dead letter sent to labelwatch.sentences; 1 was sent again before")
    marks = [
        header for header in harness.read_records(TOPICS.sentences)[-1].headers if header[0] == "labelwatch-replay-of"
    ]
    assert marks == [("labelwatch-replay-of", b"labelwatch.dead-letters-0-3")]
