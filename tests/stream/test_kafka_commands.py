"""The stream commands on a real Kafka."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient

from service.log.topics import Topics
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.settings.kafka import KafkaSettings


@pytest.fixture
def harness(
    tmp_path: Path, kafka_settings: KafkaSettings, kafka_topics: Topics, capfd: pytest.CaptureFixture[str]
) -> CommandHarness:
    variables = {
        "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
        "LABELWATCH_KAFKA_SESSION_TIMEOUT_MS": "10000",
        "LABELWATCH_TOPICS_PREFIX": kafka_topics.prefix,
        "LABELWATCH_TOPICS_REPLICATION": "1",
        "LABELWATCH_TOPICS_MIN_ISR": "1",
        "LABELWATCH_WORKER_GROUP": f"{kafka_topics.prefix}workers",
    }
    return CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), variables, capfd, kafka_topics)


def test_topics_send_worker_tail_thresholds_and_dead_letters(harness: CommandHarness, kafka_topics: Topics) -> None:
    assert "nothing to create: all topics exist" in harness.run("topics", "create").out
    result = harness.run("check")
    assert result.code == 0, result.out
    assert f"{kafka_topics.state}: 2 partitions, 1 replica (use one replica only for a trial)" in result.out
    sentences: list[dict[str, Any]] = [*make_sentences(60), {"id": "ghost", "tokens": ["a"], "labels": ["B-GHOST"]}]
    assert harness.run("send", harness.write_file(sentences)).out == f"61 sentences sent to {kafka_topics.sentences}\n"
    result = harness.run("worker", "--once")
    assert result.code == 0, result.err
    assert "61 messages read" in result.err
    shown = harness.run("tail", "review", "--last", 100, "--json").out.splitlines()
    ids = [json.loads(line)["id"] for line in shown]
    assert ids
    assert len(set(ids)) == len(ids)
    [view] = json.loads(harness.run("thresholds", "show", "--json").out)["datasets"]
    labels = [label for sentence in sentences[:-1] for label in sentence["labels"]]
    assert {row["name"]: row["own_words"] for row in view["classes"]} == {
        row["name"]: labels.count(row["name"]) for row in view["classes"]
    }
    assert "1 dead letter: 1 labels" in harness.run("dead-letters", "list").err
    assert harness.run("dead-letters", "replay").out.startswith("1 dead letter sent")
    assert harness.run("dead-letters", "replay").out.startswith("0 dead letters sent")
    assert "1 message read" in harness.run("worker", "--once").err


def test_a_replay_beside_the_live_topics_and_a_reset(
    harness: CommandHarness, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    harness.run("send", harness.write_file(make_sentences(40)))
    harness.run("worker", "--once")
    other = make_model(harness.folder / "other", "wordpiece", seed=5)
    trial = Topics(f"{kafka_topics.prefix}trial.")
    live = harness.run("tail", "review", "--last", 100, "--json").out
    command = ["replay", "--from", "0", "--to-prefix", trial.prefix, "--model", other]
    result = harness.run(*command)
    assert result.code == 0, result.err
    assert "40 messages assessed with other" in result.out
    assert "of 40 messages read by both" in result.out
    assert "0 messages assessed" in harness.run(*command).out
    assert harness.run("tail", "review", "--last", 100, "--json").out == live
    assert "epoch 1 (settings version 1)" in harness.run("thresholds", "reset", "default", "--yes").out
    [view] = json.loads(harness.run("thresholds", "show", "--json").out)["datasets"]
    assert (view["epoch"], view["sentences"]) == (1, 0)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_topics([spec.name for spec in trial.list_specs() if spec.name != trial.sentences])


def test_missing_members_topics_and_offsets_are_named(harness: CommandHarness, kafka_topics: Topics) -> None:
    result = harness.run("worker", "leave", "unknown")
    assert result.code == 1
    assert f"no member of the group {kafka_topics.prefix}workers" in result.err
    absent = {"LABELWATCH_TOPICS_PREFIX": f"{kafka_topics.prefix}absent."}
    assert "run `labelwatch topics create`" in harness.run("tail", "review", **absent).err
    result = harness.run("topics", "describe", **absent)
    assert result.code == 1
    assert "it does not exist" in result.out
    result = harness.run("replay", "--from", "1:9", "--to-prefix", "trial.")
    assert result.code == 1
    assert f"past the end of {kafka_topics.sentences}" in result.err
