"""The API while its broker is away: what it refuses, what it goes on with, what it tells, and how it comes back.

On a broker of its own, since the others' must not be killed.
"""

from __future__ import annotations

import json
import re
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.stream.kafka_admin import create_topics
from service.stream.kafka_follow import KafkaFollower
from service.stream.kafka_settings import KafkaSettings
from service.stream.topics import Topics
from tests.kafka.broker import Cluster
from tests.stream_desk import Desk, sentences
from tests.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAIT = 120.0
NDJSON = {"Content-Type": "application/x-ndjson"}
CONDITIONS = {"api", "datasets", "draining", "mirror", "model", "review"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    # A broker that was killed may only come back once the controller has given up on its former self.
    quick = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    with Cluster(tmp_path / "kafka", settings=quick) as made:
        yield made


@contextmanager
def serving(desk: Desk) -> Iterator[httpx.Client]:
    """`labelwatch api` as a process of its own, which ends well when it is told to."""
    process = desk.start("api")
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found
        with httpx.Client(base_url=found[0], timeout=WAIT) as client:
            yield client
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT)
        assert process.returncode == 0, err
        assert err.endswith("labelwatch has stopped\n")
    finally:
        process.kill()
        process.communicate()


def until(holds: Callable[[], bool]) -> None:
    last = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < last
        time.sleep(0.05)


def refused(answer: httpx.Response) -> None:
    """That the log does not answer, as a problem that says when to come again, and nothing that looks like a yes."""
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["status"] == 503
    assert answer.json()["detail"]
    assert "ids" not in answer.json()


def keys_in(settings: KafkaSettings, topic: str) -> list[str]:
    follower = KafkaFollower(settings, topic)
    found: list[str] = []
    while not follower.caught_up:
        found += [(record.key or b"").decode() for record in follower.poll()]
    follower.close()
    return sorted(found)


def metric(client: httpx.Client, name: str) -> float:
    (line,) = (line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} "))
    return float(line.rpartition(" ")[2])


def test_a_broker_that_goes_and_comes_back(tmp_path: Path, cluster: Cluster) -> None:
    settings, topics = KafkaSettings.at(cluster.bootstrap_servers), Topics()
    create_topics(settings, topics, partitions=2, replication=1, min_isr=1)
    variables = {
        "LABELWATCH_API_PORT": "0",
        "LABELWATCH_API_TIMEOUT_S": "6",
        "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
    }
    desk = Desk(tmp_path, make_model(tmp_path / "model", "wordpiece"), variables)
    one, *others = sentences(5)
    before, lost, late, line, after = (str(each["id"]) for each in (one, *others))
    by_id: dict[str, Any] = {str(each["id"]): each for each in (one, *others)}
    broker = 'labelwatch_degraded{condition="broker"}'
    failed = 'labelwatch_http_requests_total{method="POST",route="/v1/sentences",status="5xx"}'

    def post(identity: str) -> httpx.Response:
        return client.post("/v1/sentences", json=by_id[identity])

    def readiness() -> dict[str, Any]:
        answer = client.get("/readyz")
        assert answer.status_code == 200, answer.text  # whether the broker is there or not
        found: dict[str, Any] = answer.json()
        return found

    with serving(desk) as client:
        until(lambda: readiness()["degraded"] == {})
        assert post(before).json()["ids"] == [before]
        judged = client.post("/v1/score", json=one).json()["assessments"]
        assert (metric(client, broker), metric(client, failed)) == (0, 0)

        cluster.kill(1)
        refused(post(lost))  # before the API knows, or when it does: no other answer is true
        until(lambda: "broker" in readiness()["degraded"])
        assert cluster.bootstrap_servers in readiness()["degraded"]["broker"]
        assert readiness()["conditions"] == dict.fromkeys(CONDITIONS, "")
        refused(post(late))
        refused(client.post("/v1/sentences", content=json.dumps(by_id[line]), headers=NDJSON))
        refused(client.put("/v1/datasets/news", json={"control_share": 0.5}))
        assert metric(client, broker) == 1
        assert metric(client, failed) == 3
        assert metric(client, 'labelwatch_ready{condition="datasets"}') == 1

        # Scores need no broker: the same thresholds give the same answer.
        again = client.post("/v1/score", json=one)
        assert again.status_code == 200
        assert [each["score"] for each in again.json()["assessments"]] == [each["score"] for each in judged]
        assert again.json()["assessments"][0]["thresholds"] == judged[0]["thresholds"]
        assert client.get("/v1/review").status_code == 200
        assert client.get("/healthz").status_code == 200

        cluster.start(1)
        cluster.wait()
        until(lambda: readiness()["degraded"] == {})
        assert metric(client, broker) == 0
        answer = post(after)
        assert (answer.status_code, answer.json()["ids"]) == (202, [after])
    # Once each what was accepted, and nothing that was refused.
    assert keys_in(settings, topics.sentences) == sorted(f"default/{identity}" for identity in (before, after))
    assert keys_in(settings, topics.datasets) == []
