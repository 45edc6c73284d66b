"""`labelwatch trainer` on a real Kafka: of two, one trains, and the other takes over when it ends."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from service.log.kafka.group_lease import GroupLease
from tests.support.api_harness import wait_for
from tests.support.command_harness import CommandHarness
from tests.support.tiny_models import make_model
from tests.support.training_data import make_training_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

WAIT_TIMEOUT_S = 120


@pytest.fixture
def harness(
    tmp_path: Path, kafka_settings: KafkaSettings, kafka_topics: Topics, capfd: pytest.CaptureFixture[str]
) -> CommandHarness:
    variables = {
        "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
        "LABELWATCH_KAFKA_SESSION_TIMEOUT_MS": "10000",
        "LABELWATCH_TOPICS_PREFIX": kafka_topics.prefix,
        "LABELWATCH_WORKER_GROUP": f"{kafka_topics.prefix}workers",
        "LABELWATCH_MODELS_PATH": str(tmp_path / "models"),
        "LABELWATCH_TRAINER_ENCODER": "none",
        "LABELWATCH_TRAINER_MIN_SENTENCES": "150",
    }
    return CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), variables, capfd, kafka_topics)


def send(harness: CommandHarness, n: int, *, seed: int) -> None:
    sentences = [
        {"id": f"{seed}-{number}", "dataset": "med", "tokens": each.tokens, "labels": each.labels}
        for number, each in enumerate(make_training_text(n, seed=seed).sentences)
    ]
    assert harness.run("send", harness.write_file(sentences, f"{seed}.jsonl")).code == 0
    assert harness.run("worker", "--once").code == 0


def read_models(harness: CommandHarness) -> dict[str, Any]:
    result = harness.run("datasets", "models", "med", "--json")
    assert result.code == 0, result.err
    models: dict[str, Any] = json.loads(result.out)
    return models


def wait_until(harness: CommandHarness, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while not holds(models := read_models(harness)):
        assert time.monotonic() < deadline, models
        time.sleep(0.5)
    return models


def test_one_trainer_works_and_another_takes_over_when_it_is_killed(harness: CommandHarness) -> None:
    with ExitStack() as stack:
        first = harness.start("trainer")
        stack.callback(first.kill)
        send(harness, 160, seed=1)
        assert read_models(harness)["waiting"] == 160
        models = wait_until(harness, lambda answer: answer["used_since"])
        assert [(each["model"], each["result"]) for each in models["trainings"]] == [("med-v1", "used")]
        assert harness.run("worker", "--once").code == 0
        assert (read_models(harness)["waiting"], read_models(harness)["arrived"]) == (0, 160)

        second = harness.start("trainer")
        stack.callback(second.kill)
        first.kill()
        send(harness, 80, seed=2)
        models = wait_until(
            harness, lambda answer: len(answer["trainings"]) == 2 and answer["trainings"][0]["ended_at"]
        )
        assert models["trainings"][0]["model"] == "med-v2"
        assert models["trainings"][0]["comparison"]["model"] == "med-v1"
        assert sorted(path.name for path in (harness.folder / "models").iterdir()) == ["med-v1", "med-v2"]
        assert "a training of med is requested" in harness.run("datasets", "train", "med").out
        models = wait_until(
            harness, lambda answer: len(answer["trainings"]) == 3 and answer["trainings"][0]["ended_at"]
        )
        assert models["trainings"][0]["request"]
        assert models["requested_at"] is None
        second.terminate()
        _, err = second.communicate(timeout=WAIT_TIMEOUT_S)
        assert second.returncode == 0, err
        assert "training med-v2 from the 240 sentences of dataset med" in err


def test_one_member_of_a_group_holds_the_lease(kafka_settings: KafkaSettings, kafka_topics: Topics) -> None:
    with ExitStack() as stack:

        def join() -> GroupLease:
            lease = GroupLease(kafka_settings, kafka_topics.models, group=f"{kafka_topics.prefix}trainer")
            stack.callback(lease.close)
            return lease

        first = join()
        wait_for(lambda: first.is_held)
        second = join()
        for _ in range(40):  # a member that joins takes nothing away
            assert (first.is_held, second.is_held) == (True, False)
            time.sleep(0.1)
        first.close()
        wait_for(lambda: second.is_held and not first.is_held)
