"""A team on a real Kafka with two API processes, each with its own projection: claims and overlap hold."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx

from tests.stream.test_kafka_api import WAIT, send_until_reviewed, until
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

ITEMS = 12
REVIEWERS = ("ann", "bob", "cyd", "dan")


def test_items_are_handed_out_by_two_processes_and_decided_twice(
    tmp_path: Path, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    model = make_model(tmp_path / "model", "wordpiece")
    with ExitStack() as stack:

        def start(name: str, command: str) -> str:
            folder = tmp_path / name
            folder.mkdir()
            variables = {
                "LABELWATCH_API_PORT": "0",
                "LABELWATCH_API_QUEUE_PATH": str(folder / "queue.sqlite"),
                "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
                "LABELWATCH_TOPICS_PREFIX": kafka_topics.prefix,
                "LABELWATCH_WORKER_GROUP": f"{kafka_topics.prefix}workers",
            }
            process = CommandHarness(folder, model, variables, topics=kafka_topics).start(command)
            stack.callback(process.communicate)
            stack.callback(process.terminate)
            assert process.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert address, process.stderr
            return address[0]

        clients = [
            stack.enter_context(httpx.Client(base_url=start(name, command), timeout=WAIT))
            for name, command in (("first", "up"), ("second", "api"))
        ]
        settings = {"flag_policy": {"kind": "below", "cut": 2.0}, "overlap": 2}
        assert clients[0].put("/v1/datasets/news", json=settings).status_code < 300
        sent = [{**sentence, "dataset": "news"} for sentence in make_sentences(ITEMS)]
        until(lambda: clients[0].post("/v1/score", json=sent[0]).json()["settings"]["news"]["version"] == 1)
        send_until_reviewed(clients[0], sent)
        until(lambda: count_states(clients[1])["open"] == ITEMS)

        lock = threading.Lock()
        held: dict[str, str] = {}
        decided: dict[str, list[str]] = {name: [] for name in REVIEWERS}
        conflicts: list[str] = []

        def work(name: str) -> None:
            client = clients[REVIEWERS.index(name) % 2]
            while count_states(client)["open"]:
                answer = client.post("/v1/review/next", json={"reviewer": name, "dataset": "news"})
                assert answer.status_code == 200, answer.text
                item = answer.json()["item"]
                if item is None:
                    continue
                with lock:
                    if item["id"] in held and answer.json()["confirmed"]:
                        conflicts.append(f"{name} and {held[item['id']]} have {item['id']}")
                    held[item["id"]] = name
                verdict = "error" if name == "dan" else "ok"
                with lock:
                    held.pop(item["id"], None)  # the claim ends with the decision
                body = {"dataset": "news", "id": item["id"], "reviewer": name, "verdict": verdict}
                assert client.post("/v1/decisions", json=body).status_code == 202
                decided[name].append(item["id"])

        with ThreadPoolExecutor(len(REVIEWERS)) as threads:
            list(threads.map(work, REVIEWERS))

        assert conflicts == []
        for name, ids in decided.items():
            assert len(set(ids)) == len(ids), f"{name} decided one twice"
        for client in clients:
            wait_until_decided(client)
            items = client.get("/v1/review", params={"dataset": "news", "state": "all", "limit": 200}).json()["items"]
            assert {item["id"] for item in items} == {sentence["id"] for sentence in sent}
            for item in items:
                deciders = {decision["reviewer"] for decision in item["decisions"]}
                assert len(deciders) == item["decision_count"] == 2, item["decisions"]
                assert item["state"] == ("adjudication" if "dan" in deciders else "decided")
        first, second = (list_states(client) for client in clients)
        assert first == second


def count_states(client: httpx.Client) -> dict[str, int]:
    counts: dict[str, int] = client.get("/v1/overview", params={"dataset": "news"}).json()["counts"]
    return counts


def list_states(client: httpx.Client) -> list[tuple[Any, ...]]:
    items = client.get("/v1/review", params={"dataset": "news", "state": "all", "limit": 200}).json()["items"]
    return [(item["id"], item["state"], item["decisions"]) for item in items]


def wait_until_decided(client: httpx.Client) -> None:
    until(lambda: count_states(client)["open"] == 0)
