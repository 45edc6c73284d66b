"""The commands for backup and erasure in docs/operations.md run unchanged against a real Kafka and the embedded log."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient

from service.contracts import Claim, Decision
from service.log.kafka.admin import COMPACTED_TOPIC_CONFIG, create_topics
from service.log.kafka.follower import KafkaFollower
from service.log.protocol import Output, Record
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.review.messages import build_claim_message, build_decision_message
from tests.support.command_harness import CommandHarness
from tests.support.docs_pages import DOCS, read_code_blocks
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from service.log.kafka.log import KafkaLog
    from service.settings.kafka import KafkaSettings

PAGE = (DOCS / "operations.md").read_text()
SHOWN = [block for kind, block in read_code_blocks("operations.md") if kind == "sh"]
BACKUP, RESTORE_BACKUP, SAVE, RESTORE, FORGET, ERASE = SHOWN
RARE_WORD = "Xylophonia"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run_shell(text: str, folder: Path) -> None:
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{text}\n{result.stdout}{result.stderr}"


def read_newest(settings: KafkaSettings, topic: str) -> dict[tuple[int, bytes], bytes | None]:
    """The last value by partition and key, as compaction leaves it."""
    with closing(KafkaFollower(settings, topic)) as follower:
        records: list[Record] = []
        while not follower.caught_up:
            records += follower.poll()
    return {(record.partition, record.key or b""): record.value for record in records}


def make_decision(number: int, reviewer: str = "anna") -> Decision:
    return Decision(dataset="news", id=str(number), reviewer=reviewer, verdict="ok", decided_at=NOW)


def test_decisions_and_settings_are_saved_and_restored(
    tmp_path: Path, kafka_log: KafkaLog, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    def adapt(text: str, topics: Topics) -> str:
        return text.replace("kafka-1:9092", kafka_settings.servers[0]).replace("labelwatch.", topics.prefix)

    claim = Claim(dataset="news", id="4711", reviewer="anna", until=NOW + timedelta(hours=1))
    settings = [
        Output(kafka_topics.datasets, b"news", json.dumps({"name": "news", "version": n}).encode()) for n in (1, 2)
    ]
    decisions = [build_decision_message(kafka_topics, make_decision(4700 + number)) for number in range(20)]
    odd = build_decision_message(kafka_topics, make_decision(1, reviewer="an/na 100%"))
    kafka_log.append([*settings, *decisions, odd, build_claim_message(kafka_topics, claim)])
    run_shell(adapt(SAVE, kafka_topics), tmp_path)

    others = Topics(prefix=f"{kafka_topics.prefix}back.")
    create_topics(kafka_settings, others, partitions=2, replication=1, min_isr=1)
    run_shell(adapt(RESTORE, others), tmp_path)
    before, after = (read_newest(kafka_settings, topics.decisions) for topics in (kafka_topics, others))
    assert {key: value for key, value in before.items() if not key[1].endswith(b"/claim")} == after
    assert len(after) == 21
    assert len({partition for partition, _ in after}) == 2, "every producer chooses the same partition for a key"
    assert read_newest(kafka_settings, others.datasets) == read_newest(kafka_settings, kafka_topics.datasets)

    run_shell(adapt(FORGET, others), tmp_path)
    erased = read_newest(kafka_settings, others.decisions)
    assert [key for (_, key), value in erased.items() if value is None] == [b"news/4711/anna"]
    assert erased.keys() == after.keys()
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_topics([spec.name for spec in others.list_specs()])


def test_a_sentence_is_erased_from_the_embedded_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ".labelwatch"
    folder.mkdir()
    harness = CommandHarness(folder, make_model(tmp_path / "model", "wordpiece"), capfd=capfd)
    topics = harness.topics

    def process(*messages: dict[str, object]) -> str:
        harness.append(
            *(
                Output(
                    topics.sentences,
                    f"news/{message['id']}".encode(),
                    json.dumps({"dataset": "news", **message}).encode(),
                )
                for message in messages
            )
        )
        return harness.run("worker", "--once", LABELWATCH_WORKER_PUBLISH_SCORES="true").err

    harness.append_settings(name="news", flag_policy={"kind": "below", "cut": 2.0})
    others: list[dict[str, object]] = [
        {"id": str(number), "tokens": ["Oslo"], "labels": ["B-LOC"]} for number in range(3)
    ]
    process({"id": "4711", "tokens": [RARE_WORD, "ran"], "labels": ["B-PER", "O"]}, *others)
    harness.append(build_decision_message(topics, make_decision(4711)))
    (folder / "queue.sqlite").write_text("a queue")
    assert RARE_WORD.encode() in harness.log_path.read_bytes()
    process({"id": "4711", "deleted": True, "revision": 1})

    run_commands(tmp_path, harness, ERASE)
    assert not [path.name for path in folder.iterdir() if RARE_WORD.encode() in path.read_bytes()]
    assert not (folder / "queue.sqlite").exists()
    assert harness.read_records(topics.decisions) == []
    assert [assessment.reason for assessment in harness.read_assessments() if assessment.id == "4711"] == ["deleted"]
    assert "1 message read, 1 to review" in process({"id": "after", "tokens": ["Oslo"], "labels": ["B-LOC"]})


def test_the_table_describes_the_topics() -> None:
    rows = [
        [cell.strip(" *`") for cell in row.strip("|").split("|")]
        for row in PAGE.splitlines()
        if row.startswith("| `labelwatch.")
    ]
    documented = {name: rest for name, *rest in rows if len(rest) == 3}
    assert documented.keys() == {spec.name for spec in Topics().list_specs()}
    for spec in Topics().list_specs():
        partitions, cleanup, largest = documented[spec.name]
        fixed = "as many as the input" if spec.per_source_partition else str(spec.partitions or "as you like")
        assert (partitions, cleanup.split("`")[0], int(largest)) == (fixed, spec.cleanup_policy, spec.max_message_bytes)
    assert all(f"`{name}={value}`" in PAGE for name, value in COMPACTED_TOPIC_CONFIG.items())


def test_the_embedded_log_is_backed_up_while_it_is_open_and_restored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    harness = CommandHarness(tmp_path, tmp_path, capfd=capfd)
    with closing(SqliteLog(harness.log_path, harness.topics)) as log:
        log.append([Output(harness.topics.decisions, b"a/1/x", b"{}")])
        run_commands(tmp_path, harness, BACKUP)
        log.append([Output(harness.topics.decisions, b"a/2/x", b"{}")])
    run_commands(tmp_path, harness, RESTORE_BACKUP.partition("labelwatch check")[0])
    assert [record.key for record in harness.read_records(harness.topics.decisions)] == [b"a/1/x"]


def run_commands(folder: Path, harness: CommandHarness, commands: str) -> None:
    with contextlib.chdir(folder):
        for command in commands.splitlines():
            assert harness.run(*shlex.split(command)[1:]).code == 0
