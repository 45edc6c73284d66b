"""`labelwatch check`: settings, model, log and topics."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from service.log.codec import to_memory_key, to_state_key
from service.log.protocol import Output
from service.log.topics import Topics
from service.stream.state.snapshot import StatsKey
from tests.support.command_harness import CommandHarness, make_sentences

if TYPE_CHECKING:
    import pytest

TOPICS = Topics()


def find_problems(harness: CommandHarness, **variables: str) -> list[str]:
    ran = harness.run("check", **variables)
    lines = [line for line in ran.out.splitlines() if not line.startswith("ok ")]
    assert ran.code == (1 if lines else 0)
    return lines


def test_check_finds_no_problem_in_a_working_setup(harness: CommandHarness) -> None:
    assert find_problems(harness) == []
    assert not harness.log_path.exists()
    harness.run("send", harness.write_file(make_sentences(10)))
    harness.run("worker", "--once")
    assert find_problems(harness) == []
    assert "state: 10 sentences learned from" in harness.run("check").out


def test_check_says_what_to_change(harness: CommandHarness) -> None:
    assert find_problems(harness, LABELWATCH_WRKER_ID="a") == [
        "WRONG settings: LABELWATCH_WRKER_ID is not a setting: correct its name or remove it"
    ]
    assert find_problems(harness, LABELWATCH_WORKER_MAX_WORDS="many")[0].startswith(
        "WRONG settings: LABELWATCH_WORKER_MAX_WORDS: give a whole number"
    )
    assert "nowhere is not a folder" in find_problems(harness, LABELWATCH_MODEL_FOLDER="nowhere")[0]
    assert "did you mean 'light'?" in find_problems(harness, LABELWATCH_MODEL_FOLDER="ligth")[0]
    (harness.folder / "file").write_text("this is not a log" * 100)
    assert "can't be read as a log" in find_problems(harness, LABELWATCH_LOG_PATH=str(harness.folder / "file"))[0]
    assert "can't create" in find_problems(harness, LABELWATCH_LOG_PATH=str(harness.folder / "file" / "log"))[0]


def test_check_continues_after_a_variable_that_cannot_be_used(harness: CommandHarness) -> None:
    ran = harness.run(
        "check",
        LABELWATCH_WORKER_GRUP="g",
        LABELWATCH_API_PORT="none",
        LABELWATCH_KAFKA_BOOTSTRAP_SERVER="here:9092",
        LABELWATCH_MODEL_FOLDER="nowhere",
    )
    assert ran.code == 1
    for line in (
        "WRONG settings: LABELWATCH_WORKER_GRUP: there is no such setting",
        "WRONG settings: LABELWATCH_API_PORT: ",
        "WRONG settings: LABELWATCH_KAFKA_BOOTSTRAP_SERVER: there is no such setting",
        "WRONG model: LABELWATCH_MODEL_FOLDER: nowhere is not a folder",
        "ok    log: embedded",
    ):
        assert line in ran.out
    again = harness.run("check", LABELWATCH_KAFKA_SASL_USERNAME="anna")
    assert "WRONG settings: LABELWATCH_KAFKA_BOOTSTRAP_SERVERS: the other settings of its group need it" in again.out
    assert "ok    model: " in again.out


def test_check_writes_to_the_folder_of_a_log_that_does_not_exist(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("service.cli.serve.check.tempfile.TemporaryFile", refused)
    (line,) = find_problems(harness)
    assert line.endswith(f"{harness.folder} is not writable: Read-only file system")


def test_check_finds_a_log_that_is_gone(harness: CommandHarness) -> None:
    """A start would begin an empty log without keys, so files that an earlier one has left are not `ok`."""
    leftovers = ("queue.sqlite", "deliveries.sqlite", "log.sqlite-wal", "log.sqlite.replaced-20260101T000000")
    for name in leftovers:
        left = harness.folder / name
        sqlite3.connect(left).close()
        (line,) = find_problems(harness)
        assert line == (
            f"WRONG log: {harness.log_path} is missing, and {name} is left beside it: move the file back, or restore a backup "
            "with `labelwatch restore`. To start over with an empty log, without keys and settings, move what is left away "
            "or remove it"
        )
        left.unlink()
    for name in leftovers:
        sqlite3.connect(harness.folder / name).close()
    (line,) = find_problems(harness)
    assert "log.sqlite-wal, queue.sqlite, deliveries.sqlite, log.sqlite.replaced-20260101T000000 are left" in line
    assert not harness.log_path.exists()


def test_check_reads_settings_and_state(harness: CommandHarness) -> None:
    harness.append_settings(name="news", version=1, method="magic")
    [line] = find_problems(harness)
    assert line.startswith("WRONG dataset: the settings of news can't be used")
    assert "magic" in line
    harness.append(Output(TOPICS.state, to_state_key(0, *StatsKey("news", "k")), b"{}"))
    assert any(line.startswith("WRONG state:") for line in find_problems(harness))


def test_check_reads_memories_as_a_worker_does(harness: CommandHarness) -> None:
    harness.append(Output(TOPICS.state, to_memory_key(0, "news", "k/0", "recent"), b'{"version": 9}'))
    (problem,) = find_problems(harness)
    assert problem.startswith("WRONG state: the statistics of dataset news in labelwatch.state need a newer labelwatch")


def test_check_names_a_model_that_cannot_run_once(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(1)))
    (line,) = find_problems(harness, LABELWATCH_MODEL_PROVIDERS="cudda,cpu")
    assert line.startswith("WRONG model: LABELWATCH_MODEL_PROVIDERS: 'cudda' is not one of cpu, cuda")


def test_check_finds_a_full_disk(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(1)))
    (line,) = find_problems(harness, LABELWATCH_LOG_RESERVE_BYTES=str(10**18))
    assert line.startswith(f"WRONG disk: the disk of {harness.folder} has ")
    assert "LABELWATCH_LOG_RESERVE_BYTES" in line


def test_check_of_an_unreachable_broker_prints_no_secret(harness: CommandHarness) -> None:
    lines = find_problems(
        harness,
        LABELWATCH_KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:9",
        LABELWATCH_KAFKA_SECURITY_PROTOCOL="SASL_PLAINTEXT",
        LABELWATCH_KAFKA_SASL_MECHANISM="PLAIN",
        LABELWATCH_KAFKA_SASL_USERNAME="anna",
        LABELWATCH_KAFKA_SASL_PASSWORD="hunter2",
        LABELWATCH_KAFKA_REQUEST_TIMEOUT_MS="1000",
    )
    assert len(lines) == 1
    assert "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS: Kafka at 127.0.0.1:9 does not answer: " in lines[0]
    assert "hunter2" not in lines[0]


def test_check_finds_damage_in_log_and_queue(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(200)))
    queue = harness.folder / "queue.sqlite"
    queue.write_bytes(b"no database" * 1000)
    (line,) = find_problems(harness)
    assert line.startswith(f"WRONG queue: {queue} is damaged: ")
    assert line.endswith("Restart the API: it builds the file again from the topics")
    queue.unlink()
    with harness.log_path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    (line,) = find_problems(harness)
    assert line.startswith(f"WRONG log: {harness.log_path} is damaged: ")
    assert line.endswith("restore a backup with `labelwatch restore`")


def overwrite(harness: CommandHarness, topic: str, offset: int, value: bytes) -> None:
    """Changes a record in the file, as a failing disk does."""
    with closing(sqlite3.connect(harness.log_path)) as db:
        db.execute("UPDATE records SET value = ? WHERE topic = ? AND offset = ?", (value, topic, offset))
        db.commit()


def test_check_reads_each_record_as_its_topic_has_it(harness: CommandHarness) -> None:
    """A message of the input that was never a sentence is a dead letter, and no damage."""
    garbage = Output(TOPICS.sentences, b"x", b"never a sentence")
    harness.append(garbage)
    harness.run("send", harness.write_file(make_sentences(30)))
    harness.run("worker", "--once", LABELWATCH_WORKER_PUBLISH_SCORES="true")
    harness.run("key", "new", "--name", "dana", "--role", "reviewer")
    harness.append(garbage)  # nobody has read it yet
    harness.append(
        Output(TOPICS.models, b"default/m", b'{"result": "from a newer release"}'),
        Output(
            TOPICS.audit, None, b'{"at": "2026-01-01T00:00:00Z", "actor_kind": "robot", "action": "new", "via": "rest"}'
        ),
    )
    overwrite(harness, TOPICS.models, 0, b"{")
    (line,) = find_problems(harness)
    assert line.startswith(f"WRONG records: 1 record of {harness.log_path} can't be read: {TOPICS.models}-0-0: ")
    harness.append(Output(TOPICS.models, b"default/m", None))
    assert find_problems(harness) == []
    harness.append(
        *(Output(topic, b"default/a/b", b"{") for topic in (TOPICS.review, TOPICS.decisions, TOPICS.waiting)),
        Output(TOPICS.webhooks, b"endpoint/wh_0123456789abcdef", b"{"),
    )
    for topic in (TOPICS.sentences, TOPICS.scores, TOPICS.keys, TOPICS.audit):
        offset = harness.read_records(topic)[-2 if topic == TOPICS.sentences else -1].offset
        overwrite(harness, topic, offset, b'{"tokens": ["a"')
    (line,) = find_problems(harness)
    assert line.startswith(f"WRONG records: 8 records of {harness.log_path} can't be read: {TOPICS.sentences}-0-30: ")
    assert "; 3 more. What they hold is missing: restore a backup" in line
    backup = harness.folder / "backup.sqlite"
    assert harness.run("backup", backup).code == 0
    restored = harness.run("restore", backup, "--replace")
    assert restored.code == 0
    assert f"8 records of the backup can't be read: {TOPICS.sentences}-0-30: " in restored.err


def test_check_names_a_row_that_cannot_be_read(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(3)))
    harness.run("worker", "--once")
    with closing(sqlite3.connect(harness.log_path)) as db:
        db.execute("UPDATE records SET headers = '[' WHERE topic = ? AND offset = 1", (TOPICS.sentences,))
        db.commit()
    (line,) = find_problems(harness)
    assert f"{TOPICS.sentences}-0-1: its headers can't be read" in line
