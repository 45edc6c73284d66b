"""The producers and readers that docs/producers.md shows, run against a real Kafka as they stand."""

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


def test_what_the_page_shows_works(
    tmp_path: Path,
    kafka_settings: KafkaSettings,
    kafka_topics: Topics,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def here(text: str) -> str:
        return text.replace("localhost:9092", kafka_settings.servers[0]).replace(
            '"labelwatch.', f'"{kafka_topics.prefix}'
        )

    def run(kind: str, block: str) -> str:
        if kind == "python":
            capfd.readouterr()
            exec(here(block), {})  # noqa: S102 - our own text
            return capfd.readouterr().out
        told = here(block).replace(" labelwatch.", f" {kafka_topics.prefix}")
        done = subprocess.run(["sh", "-ec", told], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{told}\n{done.stderr}"
        return done.stdout

    runnable = [(kind, block) for kind, block in read_code_blocks("producers.md") if kind in ("python", "sh")]
    writing = [each for each in runnable if not any(mark in each[1] for mark in READ)]
    reading = [each for each in runnable if each not in writing]
    assert (len(writing), len(reading)) == (5, 2)
    for kind, block in writing:
        run(kind, block)

    variables = {
        "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
        "LABELWATCH_TOPICS_PREFIX": kafka_topics.prefix,
        "LABELWATCH_WORKER_GROUP": f"{kafka_topics.prefix}workers",
    }
    desk = CommandHarness(tmp_path, find_default_model(), variables, capfd, kafka_topics)
    done = desk.run("worker", "--once")
    assert done.code == 0, done.err
    assert "7 messages read" in done.err
    assert "1 dead letter: 1 validate" in desk.run("dead-letters", "list").err

    by_python, by_kcat = (run(kind, block) for kind, block in reading)
    seen = [json.loads(line) for line in by_kcat.splitlines()]
    last = {one["id"]: (one["reason"], one["revision"]) for one in seen}
    assert last["4711"] == ("update", 2)
    assert last["4712"] == ("deleted", 2)
    assert len(by_python.splitlines()) == len(seen)
    # The doubt and its correction lie in one partition, whoever sent them: so they come in their order.
    assert [one["reason"] for one in seen if one["id"] == "4711"] == ["flagged", "update"]
