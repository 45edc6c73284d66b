"""Both logs pass one suite."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from service.log.kafka.log import KafkaLog
from service.log.kafka.worker.session import KafkaWorkerSession
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import MAX_OUTPUT_BYTES, Topics
from tests.stream.conformance import LogConformance, SessionConformance, WaitingConformance
from tests.stream.conftest import PARTITIONS
from tests.stream.model_conformance import ModelConformance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from service.log.protocol import Log, WorkerSession
    from service.settings.kafka import KafkaSettings


class SqliteLogUnderTest:
    partitions = 1

    def __init__(self, path: Path, exit_stack: ExitStack) -> None:
        self.topics = Topics()
        self.path = path
        self._exit_stack = exit_stack

    def open_session(self) -> WorkerSession:
        return self._exit_stack.enter_context(closing(SqliteWorkerSession(self.path, self.topics)))

    def open_log(self) -> Log:
        return self._exit_stack.enter_context(closing(SqliteLog(self.path, self.topics)))

    def make_unwritable_output(self) -> Output:
        return Output(self.topics.review, b"key", object())  # type: ignore[arg-type]  # nothing SQLite could hold

    def crash_arguments(self) -> Sequence[str]:
        return ("sqlite", self.topics.prefix, str(self.path))


class KafkaLogUnderTest:
    """All sessions have the same identity, so that a new one takes over at once."""

    partitions = PARTITIONS

    def __init__(self, settings: KafkaSettings, topics: Topics, exit_stack: ExitStack) -> None:
        self.topics = topics
        self.settings = settings
        self.group = f"{topics.prefix}group"
        self._exit_stack = exit_stack

    def open_session(self) -> WorkerSession:
        session = KafkaWorkerSession(self.settings, self.topics, group=self.group, worker_id="worker-0")
        return self._exit_stack.enter_context(closing(session))

    def open_log(self) -> Log:
        return self._exit_stack.enter_context(closing(KafkaLog(self.settings)))

    def make_unwritable_output(self) -> Output:
        return Output(self.topics.review, b"key", bytes(MAX_OUTPUT_BYTES + 100_000))

    def crash_arguments(self) -> Sequence[str]:
        settings = self.settings.model_dump_json(exclude_defaults=True)
        return ("kafka", self.topics.prefix, settings, self.group, "worker-0")


class TestSqlite(LogConformance, SessionConformance, WaitingConformance, ModelConformance):
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[SqliteLogUnderTest]:
        with ExitStack() as exit_stack:
            yield SqliteLogUnderTest(tmp_path / "log.sqlite", exit_stack)


class TestKafka(LogConformance, SessionConformance, WaitingConformance, ModelConformance):
    @pytest.fixture
    def log(self, kafka_settings: KafkaSettings, kafka_topics: Topics) -> Iterator[KafkaLogUnderTest]:
        with ExitStack() as exit_stack:
            yield KafkaLogUnderTest(kafka_settings, kafka_topics, exit_stack)
