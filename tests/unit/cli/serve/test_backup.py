"""`labelwatch backup` and `labelwatch restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.command_harness import make_sentences

if TYPE_CHECKING:
    from tests.support.command_harness import CommandHarness


def judge(harness: CommandHarness, *sentences: dict[str, object]) -> list[tuple[object, ...]]:
    harness.run("send", harness.write_file(sentences))
    harness.run("worker", "--once")
    return [(each.id, each.score, each.priority, each.thresholds) for each in harness.read_assessments()]


def test_a_restored_service_judges_as_the_one_that_was_backed_up(harness: CommandHarness) -> None:
    judge(harness, *make_sentences(30))
    backup = harness.folder / "monday.sqlite"
    ran = harness.run("backup", backup)
    assert (ran.code, ran.out) == (0, "")
    assert "monday.sqlite: " in ran.err
    assert " records, " in ran.err
    later = make_sentences(20, seed=1)
    expected = judge(harness, *later)
    harness.run("send", harness.write_file(make_sentences(5, seed=2)))

    assert "exists: use --replace" in harness.run("restore", backup).err
    ran = harness.run("restore", backup, "--replace")
    assert ran.code == 0
    assert "the log that was there is" in ran.err
    assert judge(harness, *later) == expected
    assert harness.run("check").code == 0


def test_a_restore_says_that_revoked_keys_are_valid_again(harness: CommandHarness) -> None:
    backup, without_keys = harness.folder / "monday.sqlite", harness.folder / "sunday.sqlite"
    harness.run("send", harness.write_file(make_sentences(1)))
    harness.run("backup", without_keys)
    harness.run("key", "new", "--name", "dana", "--role", "reviewer")
    harness.run("backup", backup)
    harness.run("key", "revoke", "--name", "dana")
    ran = harness.run("restore", backup, "--replace")
    assert ran.code == 0
    assert "keys that were revoked or rotated since then are valid again" in ran.err
    assert "revoked" not in harness.run("restore", without_keys, "--replace").err


def test_a_new_machine_starts_from_a_backup(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(3)))
    harness.run("backup", harness.folder / "copy.sqlite")
    elsewhere = str(harness.folder / "elsewhere" / "log.sqlite")
    assert harness.run("restore", harness.folder / "copy.sqlite", LABELWATCH_LOG_PATH=elsewhere).code == 0
    assert "3 records" in harness.run("check", LABELWATCH_LOG_PATH=elsewhere).out


def test_mistakes_are_answered_before_anything_changes(harness: CommandHarness) -> None:
    assert "there is no log at" in harness.run("backup", harness.folder / "a.sqlite").err
    harness.run("send", harness.write_file(make_sentences(1)))
    harness.run("backup", harness.folder / "a.sqlite")
    assert "a.sqlite exists: choose another name" in harness.run("backup", harness.folder / "a.sqlite").err
    missing = harness.run("backup", harness.folder / "unmounted" / "a.sqlite")
    assert missing.code == 1
    assert f"there is no folder {harness.folder / 'unmounted'}: create it first" in missing.err
    assert not (harness.folder / "unmounted").exists()
    assert "there is no backup" in harness.run("restore", harness.folder / "b.sqlite").err
    assert "is the log itself" in harness.run("restore", harness.log_path, "--replace").err
    assert "can't write" in harness.run("backup", harness.folder / "a.sqlite" / "b.sqlite").err
    on_kafka = harness.run("backup", harness.folder / "c.sqlite", LABELWATCH_KAFKA_BOOTSTRAP_SERVERS="localhost:1")
    assert on_kafka.code == 1
    assert "the log is on Kafka" in on_kafka.err
