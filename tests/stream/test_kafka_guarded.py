"""On a broker of their own: everybody with the rights of docs/operations.md only, and what an outage does to the API.

The others' broker must not be killed, and asks nobody who he is.
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
CONDITIONS = {"api", "datasets", "draining", "mirror", "model", "review"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster(tmp_path_factory.mktemp("guarded")) as made:
        yield made


@pytest.fixture
def desk(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), capfd=capfd)


@pytest.fixture(autouse=True)
def settings(broker: SecuredCluster) -> Iterator[KafkaSettings]:
    """The administrator's, who leaves no topic to the next."""
    yield KafkaSettings.for_servers(broker.cluster.bootstrap_servers)
    with KafkaAdminClient(bootstrap_servers=broker.cluster.bootstrap_servers) as admin:
        admin.delete_topics([name for name in admin.list_topics() if not name.startswith("_")])


@contextmanager
def serving(desk: CommandHarness, **variables: str) -> Iterator[httpx.Client]:
    """`labelwatch api` as a process of its own, which ends well when it is told to."""
    quiet = "warning"  # nobody reads what it says before it ends
    process = desk.start("api", LABELWATCH_API_PORT="0", LABELWATCH_LOGS_LEVEL=quiet, **variables)
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
        assert "Traceback" not in err
    except BaseException:
        process.kill()
        sys.stderr.write(process.communicate()[1][-4000:])
        raise
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


def overlapping() -> dict[str, Any]:
    both = (bodies.make_region("Mara Quill", "PER"), bodies.make_region("Mara", "ORG"))
    return bodies.make_event(annotation=bodies.make_annotation(*both))


def test_what_the_page_grants_is_enough(broker: SecuredCluster, desk: CommandHarness) -> None:
    """Each command as the user that the table has for it; who is not in a line of it is refused."""
    one_copy = {"LABELWATCH_TOPICS_REPLICATION": "1", "LABELWATCH_TOPICS_MIN_ISR": "1"}
    worker = {"LABELWATCH_WORKER_ID": "w-0", "LABELWATCH_WORKER_PUBLISH_SCORES": "true"}

    def run(user: str, *arguments: object, **variables: str) -> CommandResult:
        return desk.run(*arguments, **broker.make_login_settings(user), **one_copy, **variables)

    def well(user: str, *arguments: object, **variables: str) -> CommandResult:
        done = run(user, *arguments, **variables)
        assert done.code == 0, (user, arguments, done.err)
        assert "uthorization" not in done.err
        return done

    well("topics-create", "topics", "create")
    well("datasets-set", "datasets", "set", "news", "control_share=0.1")
    file = desk.write_file([{**each, "dataset": "news"} for each in make_sentences(5)])
    with serving(desk, **broker.make_login_settings("API")) as client:
        until(lambda: client.get("/readyz").json()["degraded"] == {})
        well("your-producers", "send", file)
        assert client.post("/v1/sentences", json={"tokens": ["a"], "labels": ["B-GHOST"]}).status_code == 202
        refused = client.post("/v1/webhooks/label-studio", json=overlapping())
        assert refused.status_code == 422, refused.text  # and kept as a dead letter, or it were a 503
        policy = {"flag_policy": {"kind": "below", "cut": 2.0}}  # so that each sentence comes to review
        assert client.put("/v1/datasets/news", json=policy).json()["version"] == 2
        assert "6 messages read" in well("worker", "worker", "--once", **worker).err
        until(lambda: len(client.get("/v1/review?dataset=news").json()["items"]) == 5)
        decision = {"dataset": "news", "id": "0-0", "reviewer": "anna", "verdict": "ok"}
        assert client.post("/v1/decisions", json=decision).status_code == 202
        until(lambda: client.get("/v1/overview").json()["counts"]["decided"] == 1)
    well("worker-leave", "worker", "leave", "w-0")
    assert well("tail", "tail", "review").out
    assert len(well("export", "export", "--dataset", "news", "--format", "jsonl").out.splitlines()) == 5
    assert "news" in well("datasets-list", "datasets", "list").out
    assert well("thresholds-show", "thresholds", "show").out
    assert "2 dead letters" in well("dead-letters-list", "dead-letters", "list").err
    well("dead-letters-replay", "dead-letters", "replay")
    assert well("replay", "replay", "--from", "0", "--to-prefix", "v2.", "--model", desk.model).out
    well("thresholds-reset", "thresholds", "reset", "news", "--yes")
    well("datasets-delete", "datasets", "delete", "news", "--yes")
    assert "WRONG" not in well("check", "check").out
    well("topics-describe", "topics", "describe")

    hidden = run("your-producers", "worker", "--once")
    assert (hidden.code, "this user may not see it: grant READ and DESCRIBE" in hidden.err) == (1, True)
    forbidden = run("worker", "send", file)
    assert (forbidden.code, "TopicAuthorizationFailedError" in forbidden.err) == (1, True)


def test_a_broker_that_goes_and_comes_back(
    broker: SecuredCluster, settings: KafkaSettings, desk: CommandHarness
) -> None:
    cluster, topics = broker.cluster, Topics()
    create_topics(settings, topics, partitions=2, replication=1, min_isr=1)
    one, *others = make_sentences(5)
    before, lost, late, line, after = (str(each["id"]) for each in (one, *others))
    by_id: dict[str, Any] = {str(each["id"]): each for each in (one, *others)}
    away = 'labelwatch_degraded{condition="broker"}'
    failed = 'labelwatch_http_requests_total{method="POST",route="/v1/sentences",status="5xx"}'

    def post(identity: str) -> httpx.Response:
        return client.post("/v1/sentences", json=by_id[identity])

    def readiness() -> dict[str, Any]:
        answer = client.get("/readyz")
        assert answer.status_code == 200, answer.text  # whether the broker is there or not
        found: dict[str, Any] = answer.json()
        return found

    with serving(desk, LABELWATCH_API_TIMEOUT_S="6", **broker.make_login_settings("API")) as client:
        until(lambda: readiness()["degraded"] == {})
        assert post(before).json()["ids"] == [before]
        judged = client.post("/v1/score", json=one).json()["assessments"]
        assert (metric(client, away), metric(client, failed)) == (0, 0)

        cluster.kill(1)
        refused(post(lost))  # before the API knows, or when it does: no other answer is true
        until(lambda: "broker" in readiness()["degraded"])
        assert broker.servers in readiness()["degraded"]["broker"]
        assert readiness()["conditions"] == dict.fromkeys(CONDITIONS, "")
        refused(post(late))
        refused(client.post("/v1/sentences", content=json.dumps(by_id[line]), headers=NDJSON))
        refused(client.put("/v1/datasets/news", json={"control_share": 0.5}))
        assert metric(client, away) == 1
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
        cluster.wait_until_ready()
        until(lambda: readiness()["degraded"] == {})
        assert metric(client, away) == 0
        answer = post(after)
        assert (answer.status_code, answer.json()["ids"]) == (202, [after])
    # Once each what was accepted, and nothing that was refused.
    assert keys_in(settings, topics.sentences) == sorted(f"default/{identity}" for identity in (before, after))
    assert keys_in(settings, topics.datasets) == []
