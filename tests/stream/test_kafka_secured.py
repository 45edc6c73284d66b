"""A broker with ACLs: every command works with the rights in docs/operations.md, and the API survives an outage.

These tests have a broker of their own, because they kill it.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from kafka import KafkaAdminClient

from service.log.kafka.admin import create_topics
from service.log.kafka.follower import KafkaFollower
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.kafka.secured_cluster import SecuredCluster, secured_cluster
from tests.support import platform_bodies as bodies
from tests.support.command_harness import CommandHarness, CommandResult, make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAIT = 120.0
NDJSON = {"Content-Type": "application/x-ndjson"}
CONDITIONS = {"api", "audit", "datasets", "draining", "keys", "mirror", "model", "review", "trainings", "webhooks"}
GHOST = {"dataset": "news", "tokens": ["a"], "labels": ["B-GHOST"]}  # the other labels of news have classes


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster(tmp_path_factory.mktemp("secured")) as cluster:
        yield cluster


@pytest.fixture
def harness(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), capfd=capfd)


@pytest.fixture(autouse=True)
def settings(broker: SecuredCluster) -> Iterator[KafkaSettings]:
    """The settings of the administrator. All topics are deleted when the test ends."""
    yield KafkaSettings.for_servers(broker.cluster.bootstrap_servers)
    with KafkaAdminClient(bootstrap_servers=broker.cluster.bootstrap_servers) as admin:
        admin.delete_topics([name for name in admin.list_topics() if not name.startswith("_")])


@contextmanager
def serving(harness: CommandHarness, **variables: str) -> Iterator[httpx.Client]:
    """Runs `labelwatch api` as a process, which must stop cleanly on SIGTERM."""
    quiet = "warning"  # nothing reads its output before it ends
    process = harness.start("api", LABELWATCH_API_PORT="0", LABELWATCH_LOGS_LEVEL=quiet, **variables)
    try:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert address
        with httpx.Client(base_url=address[0], timeout=WAIT) as client:
            yield client
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT)
        assert process.returncode == 0, err
        assert err.endswith("labelwatch has stopped\n")
        assert "Traceback" not in err
    except BaseException:
        process.kill()
        sys.stderr.write(process.communicate()[1][-4000:])
        raise
    finally:
        process.kill()
        process.communicate()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def assert_unavailable(response: httpx.Response) -> None:
    """The response says that the log does not answer and when to retry. It must not look like a success."""
    assert response.status_code == 503, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert int(response.headers["retry-after"]) >= 1
    assert response.json()["status"] == 503
    assert response.json()["detail"]
    assert "ids" not in response.json()


def read_keys(settings: KafkaSettings, topic: str) -> list[str]:
    follower = KafkaFollower(settings, topic)
    keys: list[str] = []
    while not follower.caught_up:
        keys += [(record.key or b"").decode() for record in follower.poll()]
    follower.close()
    return sorted(keys)


def read_metric(client: httpx.Client, name: str) -> float:
    (line,) = (line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} "))
    return float(line.rpartition(" ")[2])


def make_overlapping_event() -> dict[str, Any]:
    both = (bodies.make_region("Mara Quill", "PER"), bodies.make_region("Mara", "ORG"))
    return bodies.make_event(annotation=bodies.make_annotation(*both))


def test_the_rights_in_the_docs_are_sufficient(broker: SecuredCluster, harness: CommandHarness) -> None:
    """Each command runs as its user in the table. A user without a row is refused."""
    one_copy = {"LABELWATCH_TOPICS_REPLICATION": "1", "LABELWATCH_TOPICS_MIN_ISR": "1"}
    worker = {"LABELWATCH_WORKER_ID": "w-0", "LABELWATCH_WORKER_PUBLISH_SCORES": "true"}

    def run(user: str, *arguments: object, **variables: str) -> CommandResult:
        return harness.run(*arguments, **broker.make_login_settings(user), **one_copy, **variables)

    def run_ok(user: str, *arguments: object, **variables: str) -> CommandResult:
        result = run(user, *arguments, **variables)
        assert result.code == 0, (user, arguments, result.err)
        assert "uthorization" not in result.err
        return result

    run_ok("topics-create", "topics", "create")
    run_ok("datasets-set", "datasets", "set", "news", "control_share=0.1")
    file = harness.write_file([{**each, "dataset": "news"} for each in make_sentences(5)])
    with serving(harness, **broker.make_login_settings("API")) as client:
        wait_until(lambda: client.get("/readyz").json()["degraded"] == {})
        run_ok("your-producers", "send", file)
        assert client.post("/v1/sentences", json=GHOST).status_code == 202
        rejected = client.post("/v1/webhooks/label-studio", json=make_overlapping_event())
        assert rejected.status_code == 422, rejected.text  # and stored as a dead letter, otherwise it is a 503
        policy = {"flag_policy": {"kind": "below", "cut": 2.0}}  # every sentence is flagged
        assert client.put("/v1/datasets/news", json=policy).json()["version"] == 2
        assert "6 messages read" in run_ok("worker", "worker", "--once", **worker).err
        wait_until(lambda: len(client.get("/v1/review?dataset=news").json()["items"]) == 5)
        decision = {"dataset": "news", "id": "0-0", "reviewer": "anna", "verdict": "ok"}
        assert client.post("/v1/decisions", json=decision).status_code == 202
        wait_until(lambda: client.get("/v1/overview").json()["counts"]["decided"] == 1)
    run_ok("worker-leave", "worker", "leave", "w-0")
    assert run_ok("tail", "tail", "review").out
    assert len(run_ok("export", "export", "--dataset", "news", "--format", "jsonl").out.splitlines()) == 6
    assert "news" in run_ok("datasets-list", "datasets", "list").out
    assert run_ok("thresholds-show", "thresholds", "show").out
    assert "2 dead letters" in run_ok("dead-letters-list", "dead-letters", "list").err
    run_ok("dead-letters-replay", "dead-letters", "replay")
    assert run_ok("replay", "replay", "--from", "0", "--to-prefix", "v2.", "--model", harness.model).out
    run_ok("thresholds-reset", "thresholds", "reset", "news", "--yes")
    run_ok("datasets-delete", "datasets", "delete", "news", "--yes")
    assert "WRONG" not in run_ok("check", "check").out
    run_ok("topics-describe", "topics", "describe")

    hidden = run("your-producers", "worker", "--once")
    assert (hidden.code, "this user may not see it: grant READ and DESCRIBE" in hidden.err) == (1, True)
    forbidden = run("worker", "send", file)
    assert (forbidden.code, "TopicAuthorizationFailedError" in forbidden.err) == (1, True)


def test_the_api_survives_an_outage_of_the_broker(
    broker: SecuredCluster, settings: KafkaSettings, harness: CommandHarness
) -> None:
    cluster, topics = broker.cluster, Topics()
    create_topics(settings, topics, partitions=2, replication=1, min_isr=1)
    one, *others = make_sentences(5)
    before, lost, late, line, after = (str(each["id"]) for each in (one, *others))
    by_id: dict[str, Any] = {str(each["id"]): each for each in (one, *others)}
    degraded = 'labelwatch_degraded{condition="broker"}'
    failed = 'labelwatch_http_requests_total{method="POST",route="/v1/sentences",status="5xx"}'

    def post(identity: str) -> httpx.Response:
        return client.post("/v1/sentences", json=by_id[identity])

    def read_readiness() -> dict[str, Any]:
        response = client.get("/readyz")
        assert response.status_code == 200, response.text  # with and without a broker
        readiness: dict[str, Any] = response.json()
        return readiness

    with serving(harness, LABELWATCH_API_TIMEOUT_S="6", **broker.make_login_settings("API")) as client:
        wait_until(lambda: read_readiness()["degraded"] == {})
        assert post(before).json()["ids"] == [before]
        judged = client.post("/v1/score", json=one).json()["assessments"]
        assert (read_metric(client, degraded), read_metric(client, failed)) == (0, 0)

        cluster.kill(1)
        assert_unavailable(post(lost))  # whether the API has noticed the outage or not
        wait_until(lambda: "broker" in read_readiness()["degraded"])
        assert broker.servers in read_readiness()["degraded"]["broker"]
        assert read_readiness()["conditions"] == dict.fromkeys(CONDITIONS, "")
        assert_unavailable(post(late))
        assert_unavailable(client.post("/v1/sentences", content=json.dumps(by_id[line]), headers=NDJSON))
        assert_unavailable(client.put("/v1/datasets/news", json={"control_share": 0.5}))
        assert read_metric(client, degraded) == 1
        assert read_metric(client, failed) == 3
        assert read_metric(client, 'labelwatch_ready{condition="datasets"}') == 1

        # Scores need no broker: the same thresholds give the same scores.
        again = client.post("/v1/score", json=one)
        assert again.status_code == 200
        assert [each["score"] for each in again.json()["assessments"]] == [each["score"] for each in judged]
        assert again.json()["assessments"][0]["thresholds"] == judged[0]["thresholds"]
        assert client.get("/v1/review").status_code == 200
        assert client.get("/healthz").status_code == 200

        cluster.start(1)
        cluster.wait_until_ready()
        wait_until(lambda: read_readiness()["degraded"] == {})
        assert read_metric(client, degraded) == 0
        answer = post(after)
        assert (answer.status_code, answer.json()["ids"]) == (202, [after])
    # Accepted messages are there once. Refused ones are not there.
    assert read_keys(settings, topics.sentences) == sorted(f"default/{identity}" for identity in (before, after))
    assert read_keys(settings, topics.datasets) == []
