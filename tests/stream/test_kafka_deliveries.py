"""A delivery on a real Kafka from its sentences to the verdict, and notifications about it from one of two API processes."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx

from service.notifications.state import read_notification_state
from tests.stream.test_kafka_api import WAIT, send_until_reviewed, until
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.tiny_models import make_model
from tests.support.webhook_receiver import WebhookReceiver

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    import pytest

    from service.log.kafka.log import KafkaLog
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

SENTENCES = 12
# Nothing is flagged and everything is in the control sample: the verdict rests on all decisions.
SETTINGS = {"flag_policy": {"kind": "below", "cut": 0.0}, "control_share": 1.0, "max_error_rate": 0.2}


def test_a_delivery_is_judged_decided_accepted_and_notified(
    tmp_path: Path,
    kafka_settings: KafkaSettings,
    kafka_topics: Topics,
    kafka_log: KafkaLog,
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = make_model(tmp_path / "model", "wordpiece")
    with ExitStack() as stack:
        receiver = stack.enter_context(WebhookReceiver())

        def configure(name: str) -> CommandHarness:
            folder = tmp_path / name
            folder.mkdir()
            variables = {
                "LABELWATCH_API_PORT": "0",
                "LABELWATCH_API_QUEUE_PATH": str(folder / "queue.sqlite"),
                "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
                "LABELWATCH_TOPICS_PREFIX": kafka_topics.prefix,
                "LABELWATCH_WORKER_GROUP": f"{kafka_topics.prefix}workers",
                "LABELWATCH_WEBHOOKS_KEY": "k" * 32,
                "LABELWATCH_WEBHOOKS_ALLOWED_HOSTS": "127.0.0.1",
                "LABELWATCH_WEBHOOKS_DIGEST_S": "1",
            }
            return CommandHarness(folder, model, variables, capfd=capfd, topics=kafka_topics)

        def start(name: str, command: str) -> tuple[httpx.Client, subprocess.Popen[str]]:
            process = configure(name).start(command)
            stack.callback(process.communicate)
            stack.callback(process.terminate)
            assert process.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert address, process.stderr
            return stack.enter_context(httpx.Client(base_url=address[0], timeout=WAIT)), process

        first, first_process = start("first", "up")
        second, _ = start("second", "api")
        assert first.put("/v1/datasets/news", json=SETTINGS).status_code < 300
        # Once the worker has these settings, the delivery is judged with them from its first sentence.
        probes = [{**each, "dataset": "news", "id": f"probe-{each['id']}"} for each in make_sentences(1, seed=5)]
        send_until_reviewed(first, probes)
        endpoint = first.post("/v1/webhook-endpoints", json={"url": receiver.url}).json()["id"]
        read_topics = {kafka_topics.decisions, kafka_topics.review}
        until(lambda: set(read_notification_state(kafka_log, kafka_topics.webhooks).positions) == read_topics)

        sentences = [{**each, "dataset": "news", "batch": "7"} for each in make_sentences(SENTENCES)]
        assert first.post("/v1/sentences", json={"sentences": sentences}).status_code == 202
        for client in (first, second):
            until(lambda client=client: read_batch(client).get("open") == SENTENCES)  # type: ignore[misc]
            report = read_batch(client)
            assert (report["sentences"], report["controls"], report["verdict"]) == (SENTENCES, SENTENCES, "review")

        ids = [str(each["id"]) for each in sentences]
        decide(first, *ids[:-1])
        until(lambda: {each["data"]["id"] for each in list_bodies(receiver, "item.decided")} == set(ids[:-1]))
        assert len(list_bodies(receiver, "item.decided")) == SENTENCES - 1, (
            "two processes run, and one of them delivers"
        )
        until(lambda: sum(each["data"]["items"] for each in list_bodies(receiver, "items.flagged")) == SENTENCES)
        until(lambda: [each["data"]["verdict"] for each in list_bodies(receiver, "batch.verdict")] == ["accept"])

        # What one process could not deliver, the other does.
        receiver.behaviour = "fail"
        decide(first, ids[-1])
        until(lambda: bool(get_failing_since(second, endpoint)))
        first_process.terminate()
        first_process.wait(WAIT)
        receiver.behaviour = "ok"
        until(lambda: second.get("/v1/webhook-endpoints").json()["endpoints"][0]["pending"] == 0)
        attempts = [
            headers["webhook-id"]
            for headers, body in receiver.requests
            if (content := json.loads(body))["type"] == "item.decided" and content["data"]["id"] == ids[-1]
        ]
        assert len(attempts) > 1
        assert len(set(attempts)) == 1, "the same id at every attempt"
        assert second.get(f"/v1/webhook-endpoints/{endpoint}/failed").json() == {"notifications": []}

        until(lambda: read_batch(second)["controls_decided"] == SENTENCES)
        accepted = configure("command").run("accept", "--dataset", "news", "--batch", "7", "--json")
        assert (accepted.code, json.loads(accepted.out)["verdict"]) == (0, "accept"), accepted.err
        assert json.loads(accepted.out) == read_batch(second)


def read_batch(client: httpx.Client) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/v1/datasets/news/batches/7").json()
    return answer


def decide(client: httpx.Client, *ids: str) -> None:
    decisions = [{"dataset": "news", "id": each, "reviewer": "ann", "verdict": "ok"} for each in ids]
    assert client.post("/v1/decisions", json={"decisions": decisions}).status_code == 202


def list_bodies(receiver: WebhookReceiver, event: str) -> list[dict[str, Any]]:
    """Each notification once: it may be delivered more than once, with the same id."""
    by_id = {headers["webhook-id"]: json.loads(body) for headers, body in list(receiver.requests)}
    return [body for body in by_id.values() if body["type"] == event]


def get_failing_since(client: httpx.Client, endpoint: str) -> str | None:
    found = client.get("/v1/webhook-endpoints").json()["endpoints"]
    return next((each["status"]["failing_since"] for each in found if each["id"] == endpoint), None)
