"""The API on a real Kafka."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from kafka.errors import KafkaTimeoutError

from service.errors import StreamError
from service.log.protocol import Output, PingableFollower
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from service.log.kafka.log import KafkaLog
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

WAIT = 120.0


def test_up_from_a_sentence_to_a_decision(
    tmp_path: Path, kafka_settings: KafkaSettings, kafka_topics: Topics, kafka_log: KafkaLog
) -> None:
    variables = {
        "LABELWATCH_API_PORT": "0",
        "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
        "LABELWATCH_TOPICS_PREFIX": kafka_topics.prefix,
        "LABELWATCH_WORKER_GROUP": f"{kafka_topics.prefix}workers",
    }
    harness = CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), variables, topics=kafka_topics)
    process = harness.start("up")
    try:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert address
        with httpx.Client(base_url=address[0], timeout=WAIT) as client:
            policy = {"flag_policy": {"kind": "below", "cut": 2.0}}  # every sentence is flagged
            assert client.put("/v1/datasets/news", json=policy).json()["version"] == 1
            sent = [{**sentence, "dataset": "news"} for sentence in make_sentences(10)]
            until(lambda: client.post("/v1/score", json=sent[0]).json()["settings"]["news"]["version"] == 1)
            send_until_reviewed(client, sent)
            items = client.get("/v1/review", params={"dataset": "news"}).json()["items"]
            decision = {"dataset": "news", "id": items[0]["id"], "reviewer": "anna", "verdict": "ok"}
            assert client.post("/v1/decisions", json=decision).status_code == 202
            until(lambda: client.get("/v1/overview").json()["counts"]["decided"] == 1)
            assert client.get("/readyz").json()["degraded"] == {}
            fix_a_dead_letter(client, kafka_log, kafka_topics)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.communicate()


def fix_a_dead_letter(client: httpx.Client, log: KafkaLog, topics: Topics) -> None:
    ghost = {"id": "ghost", "dataset": "news", "tokens": ["Oslo"], "labels": ["B-GHOST"]}
    log.append([Output(topics.sentences, b"news/ghost", json.dumps(ghost).encode())])
    until(lambda: client.get("/v1/dead-letters").json()["total"] == 1)
    (item,) = client.get("/v1/dead-letters").json()["items"]
    letter = client.get(f"/v1/dead-letters/{item['id']}").json()
    assert json.loads(letter["value"]["text"]) == ghost
    assert client.get("/v1/dead-letters/0-999").status_code == client.get("/v1/dead-letters/99-0").status_code == 404
    path, fixed = f"/v1/dead-letters/{item['id']}/replay", {**ghost, "labels": ["B-LOC"]}
    assert client.post(path, json={}).status_code == 422
    assert client.post(path, json={"sentence": fixed}).status_code == 200
    assert client.post(path, json={"sentence": fixed}).status_code == 409
    until(lambda: client.get("/v1/review/news/ghost").status_code == 200)
    assert client.get("/v1/dead-letters", params={"replayed": "yes"}).json()["total"] == 1
    assert client.get("/v1/dead-letters").json()["total"] == 0


def send_until_reviewed(client: httpx.Client, sent: list[dict[str, object]]) -> None:
    """Sends again what is missing: the worker may judge the first sentences with the settings before."""
    ids = {sentence["id"] for sentence in sent}

    def is_complete() -> bool:
        items = client.get("/v1/review", params={"dataset": "news"}).json()["items"]
        missing = ids - {item["id"] for item in items}
        if missing:
            again = [sentence for sentence in sent if sentence["id"] in missing]
            assert client.post("/v1/sentences", json={"sentences": again}).status_code == 202
            time.sleep(0.5)
        return not missing

    until(is_complete)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_broker_that_does_not_answer_is_noticed(
    kafka_log: KafkaLog, kafka_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = kafka_log.follow(kafka_topics.datasets)
    assert isinstance(follower, PingableFollower)
    follower.ping()

    def time_out(*_: object, **__: object) -> None:
        raise KafkaTimeoutError("no answer")

    monkeypatch.setattr(follower._ensure_consumer(), "end_offsets", time_out)
    with pytest.raises(StreamError, match="does not answer"):
        follower.ping()
    follower.close()
