"""`labelwatch erase`: what it removes from the embedded log, and what it leaves as it is."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from service.contracts import Decision, LabelledSentence
from service.errors import DecodeError
from service.file_lock import FileLock
from service.log.codec import build_dead_letter
from service.log.dead_letters import REPLAY_HEADER
from service.log.protocol import Output, Record
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import get_worker_lock_path
from service.log.topics import Topics
from service.log.waiting_records import build_waiting_message
from service.review.messages import build_decision_message
from tests.support.command_harness import CommandHarness, make_sentences

if TYPE_CHECKING:
    from pathlib import Path

TOPICS, REPLAY = Topics(), Topics("v2.", "labelwatch.sentences")
RARE_WORD = "Xylophonia"
PUBLISH = {"LABELWATCH_WORKER_PUBLISH_SCORES": "true"}


def make_message(sentence_id: str | None, *, key: bytes = b"news/letter", **fields: object) -> Output:
    sentence = {"dataset": "news", "id": sentence_id, "tokens": [RARE_WORD], "labels": ["B-PER"], **fields}
    return Output(TOPICS.sentences, key, json.dumps(sentence).encode())


def list_files_with(folder: Path, text: str) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.is_file() and text.encode() in file.read_bytes())


def read_heads(harness: CommandHarness) -> dict[str, int]:
    with closing(sqlite3.connect(harness.log_path)) as db:
        return dict(db.execute("SELECT topic, next_offset FROM heads"))


def test_a_sentence_with_a_document_is_erased_from_every_topic(harness: CommandHarness) -> None:
    """Its message has the document in the key. Free pages and the queue's file hold it no more, and the service goes on."""
    harness.append_settings(name="news", flag_policy={"kind": "below", "cut": 2.0})
    harness.append(make_message("4711", document="letter", revision=1), make_message("4711", revision=2))
    harness.append(*(make_message(name, tokens=["Oslo"], document="4711", key=b"news/4711") for name in ("1", "2")))
    harness.run("worker", "--once", **PUBLISH)
    decision = Decision(dataset="news", id="4711", reviewer="an/na", verdict="error", note=RARE_WORD)
    harness.append(build_decision_message(TOPICS, decision))
    harness.append(
        Output(TOPICS.webhooks, b"message/wh_1/msg_1", json.dumps({"data": decision.model_dump(mode="json")}).encode()),
        *(Output(topic, b"x", make_message("4711").value) for topic in (REPLAY.review, REPLAY.scores)),
        Output(REPLAY.state, b'["position",0]', b'{"next_offset":2}'),
    )
    (harness.folder / "queue.sqlite").write_text(RARE_WORD)
    (harness.folder / "queue.sqlite-wal").write_text(RARE_WORD)
    heads, state = read_heads(harness), harness.read_records(TOPICS.state)
    assert list_files_with(harness.folder, RARE_WORD)

    ran = harness.run("erase", "news", "4711")
    assert ran.code == 0, ran.err
    removed = {TOPICS.sentences: 2, TOPICS.review: 1, TOPICS.scores: 2, TOPICS.decisions: 1, TOPICS.webhooks: 1}
    for topic, count in {**removed, REPLAY.review: 1, REPLAY.scores: 1}.items():
        assert f"removed: {count} record{'s' if count > 1 else ''} of {topic}\n" in ran.out
    assert f"removed: {harness.folder / 'queue.sqlite'}, which the service builds again" in ran.out
    assert list_files_with(harness.folder, RARE_WORD) == []
    assert [file.name for file in harness.folder.glob("queue.sqlite*")] == ["queue.sqlite.lock"]
    assert [record.offset for record in harness.read_records(TOPICS.sentences)] == [2, 3]
    assert read_heads(harness) == heads
    assert harness.read_records(TOPICS.state) == state
    harness.append(make_message("after", tokens=["Oslo"]))
    assert "1 message read, 1 to review" in harness.run("worker", "--once", **PUBLISH).err
    assert harness.read_records(TOPICS.sentences)[-1].offset == 4
    assert harness.run("check").code == 0


def test_dead_letters_and_stored_sentences_are_erased(harness: CommandHarness) -> None:
    """One is known by its id, one by its key, one by the message it became; a sentence without an id by its position."""
    broken = f'{{"dataset": "news", "tokens": ["{RARE_WORD}"'.encode()
    message = make_message("4711")
    harness.append(
        Output(TOPICS.sentences, b"news/4711", broken),
        Output(TOPICS.sentences, None, broken),  # dead letter 1, which is sent again below
        Output(message.topic, message.key, message.value, ((REPLAY_HEADER, f"{TOPICS.dead_letters}-0-1".encode()),)),
        make_message(None),
    )
    harness.run("worker", "--once")
    record = Record(TOPICS.sentences, 0, 2, message.key, message.value)
    error = DecodeError("wrong")
    harness.append(
        build_dead_letter(TOPICS.dead_letters, record, error),
        build_dead_letter(TOPICS.dead_letters, Record("elsewhere", 0, 8, None, broken + b'"4711"'), error),
        build_waiting_message(TOPICS.waiting, record, LabelledSentence.model_validate_json(message.value or b"")),
    )
    assert len(harness.read_records(TOPICS.dead_letters)) == 4
    ran = harness.run("erase", "news", "4711")
    assert ran.code == 0
    assert f"removed: 3 records of {TOPICS.dead_letters}" in ran.out  # by key, by the message it became, by its id
    assert harness.read_records(TOPICS.waiting) == []
    assert f"kept: {TOPICS.dead_letters}-0-3 is no sentence that can be read, and may mention it" in ran.out
    assert [record.offset for record in harness.read_records(TOPICS.dead_letters)] == [3]
    ran = harness.run("erase", "news", f"{TOPICS.sentences}-0-3")
    assert ran.code == 0
    assert harness.read_records(TOPICS.sentences) == []
    assert "0 messages read" in harness.run("worker", "--once").err


def test_a_deletion_without_words_stays_so_that_an_older_revision_opens_nothing(harness: CommandHarness) -> None:
    harness.append(make_message("4711"))
    harness.run("worker", "--once")
    harness.append(Output(TOPICS.sentences, None, b'{"dataset": "news", "id": "4711", "deleted": true, "revision": 1}'))
    harness.run("worker", "--once")
    ran = harness.run("erase", "news", "4711")
    assert ran.code == 0
    assert f"kept: {TOPICS.review}-0-" in ran.out
    assert [each.reason for each in harness.read_assessments()] == ["deleted"]
    assert list_files_with(harness.folder, RARE_WORD) == []


def test_what_is_out_of_reach_is_named(harness: CommandHarness) -> None:
    harness.append(make_message("4711"))
    harness.run("worker", "--once")
    backup = harness.folder / "monday.sqlite"
    harness.run("backup", backup)
    harness.run("restore", backup, "--replace")
    (replaced,) = harness.folder.glob("log.sqlite.replaced-*")
    ran = harness.run("erase", "news", "4711")
    assert list_files_with(harness.folder, RARE_WORD) == sorted([replaced.name, "monday.sqlite"])
    for other in (backup, replaced):
        assert f"not reached: {other}: delete it, or erase there too: LABELWATCH_LOG_PATH={other}" in ran.err
    assert "not reached: backups, exports and other copies elsewhere" in ran.err
    assert harness.run("erase", "news", "4711", LABELWATCH_LOG_PATH=str(replaced)).code == 0
    backup.unlink()
    assert list_files_with(harness.folder, RARE_WORD) == []


def test_mistakes_are_answered_before_anything_changes(harness: CommandHarness) -> None:
    assert "there is no log at" in harness.run("erase", "news", "4711").err
    on_kafka = harness.run("erase", "news", "1", LABELWATCH_KAFKA_BOOTSTRAP_SERVERS="localhost:1")
    assert "the log is on Kafka, and this command erases from embedded logs: see Erasing a sentence in" in on_kafka.err
    harness.append(make_message("4711"))
    ran = harness.run("erase", "news", "4711")
    assert ran.code == 1
    assert "is not judged yet: run `labelwatch worker --once`, then erase it" in ran.err
    harness.run("worker", "--once")
    with closing(SqliteLog(harness.log_path, TOPICS)) as log:
        log.append([make_message("other")])
        assert "is in use" in harness.run("erase", "news", "4711").err
    harness.run("worker", "--once")
    with FileLock(get_worker_lock_path(harness.log_path)):
        assert "a worker is running on" in harness.run("erase", "news", "4711").err
    with FileLock(harness.folder / "queue.sqlite.lock"):
        assert "a process uses the review queue at" in harness.run("erase", "news", "4711").err
    ran = harness.run("erase", "sports", "4711")
    assert ran.code == 1
    assert f"{harness.log_path} holds nothing of sports/4711: check dataset and id" in ran.err
    assert len(harness.read_records(TOPICS.sentences)) == 2


def test_sentences_are_judged_after_an_erasure_as_without_it(harness: CommandHarness) -> None:
    def judge(sentences: list[dict[str, object]]) -> list[tuple[object, ...]]:
        harness.run("send", harness.write_file(sentences))
        harness.run("worker", "--once")
        return [(each.id, each.score, each.thresholds) for each in harness.read_assessments() if each.id != "0-3"]

    judge(make_sentences(20))
    backup = harness.folder / "backup.sqlite"
    harness.run("backup", backup)
    expected = judge(make_sentences(20, seed=1))
    harness.run("restore", backup, "--replace")
    harness.run("erase", "default", "0-3")
    assert judge(make_sentences(20, seed=1)) == expected
