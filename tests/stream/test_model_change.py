"""The model of a dataset is changed in the same way on both logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient

from tests.stream.model_change_commands import ModelChangeCommands
from tests.support.command_harness import CommandHarness
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings


class TestSqlite(ModelChangeCommands):
    @pytest.fixture
    def harness(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
        return CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), capfd=capfd)


class TestKafka(ModelChangeCommands):
    @pytest.fixture
    def harness(
        self, tmp_path: Path, kafka_settings: KafkaSettings, kafka_topics: Topics, capfd: pytest.CaptureFixture[str]
    ) -> Iterator[CommandHarness]:
        variables = {
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": kafka_settings.bootstrap_servers,
            "LABELWATCH_KAFKA_SESSION_TIMEOUT_MS": "10000",
            "LABELWATCH_TOPICS_PREFIX": kafka_topics.prefix,
            "LABELWATCH_TOPICS_REPLICATION": "1",
            "LABELWATCH_TOPICS_MIN_ISR": "1",
            "LABELWATCH_WORKER_GROUP": f"{kafka_topics.prefix}workers",
        }
        model = make_model(tmp_path / "model", "wordpiece")
        yield CommandHarness(tmp_path, model, variables, capfd, kafka_topics)
        with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
            of_replay = {name for name in admin.list_topics() if name.startswith(f"{kafka_topics.prefix}two.")}
            if of_replay:
                admin.delete_topics(sorted(of_replay))
