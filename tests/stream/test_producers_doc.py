"""The producers and readers in docs/producers.md run unchanged against a real Kafka."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from service.inference.model.default import find_default_model
from tests.support.command_harness import CommandHarness
from tests.support.docs_pages import read_code_blocks

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

READ = "KafkaConsumer(", "kcat -C"


def test_the_examples_of_the_page_work(
    tmp_path: Path,
    kafka_settings: KafkaSettings,
    kafka_topics: Topics,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def adapt(text: str) -> str:
        return text.replace("localhost:9092", kafka_settings.servers[0]).replace(
            '"labelwatch.', f'"{kafka_topics.prefix}'
        )

    def run(kind: str, block: str) -> str:
        if kind == "python":
            capfd.readouterr()
            exec(adapt(block), {})  # noqa: S102 - the text of the page
            return capfd.readouterr().out
        script = adapt(block).replace(" labelwatch.", f" {kafka_topics.prefix}")
        result = subprocess.run(["sh", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{script}\n{result.stderr}"
        return result.stdout

    runnable = [(kind, block) for kind, block in read_code_blocks("producers.md") if kind in ("python", "sh")]
    writing = [(kind, block) for kind, block in runnable if not any(mark in block for mark in READ)]
    reading = [example for example in runnable if example not in writing]
    assert (len(writing), len(reading)) == (5, 2)
    for kind, block in writing:
        run(kind, block)

    variables = {
        "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
        "LABELWATCH_TOPICS_PREFIX": kafka_topics.prefix,
        "LABELWATCH_WORKER_GROUP": f"{kafka_topics.prefix}workers",
    }
    harness = CommandHarness(tmp_path, find_default_model(), variables, capfd, kafka_topics)
    result = harness.run("worker", "--once")
    assert result.code == 0, result.err
    assert "7 messages read" in result.err
    assert "1 dead letter: 1 validate" in harness.run("dead-letters", "list").err

    by_python, by_kcat = (run(kind, block) for kind, block in reading)
    assessments = [json.loads(line) for line in by_kcat.splitlines()]
    last = {assessment["id"]: (assessment["reason"], assessment["revision"]) for assessment in assessments}
    assert last["4711"] == ("update", 2)
    assert last["4712"] == ("deleted", 2)
    assert len(by_python.splitlines()) == len(assessments)
    # Both messages have the same key. So every producer sends them to one partition, and they stay in order.
    reasons = [assessment["reason"] for assessment in assessments if assessment["id"] == "4711"]
    assert reasons == ["flagged", "update"]
