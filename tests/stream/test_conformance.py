"""Both logs, one suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.log.kafka.session import KafkaStream
from service.log.protocol import Output
from service.log.sqlite.log import SqliteStream
from service.log.topics import MAX_OUTPUT_BYTES, Topics
from tests.stream.conformance import Conformance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from service.log.protocol import Stream
    from service.settings.kafka import KafkaSettings


class SqliteLogUnderTest:
    def __init__(self, path: Path) -> None:
        self.topics = Topics()
        self.path = path
        self.streams: list[SqliteStream] = []

    def open(self) -> Stream:
        return self._kept(SqliteStream(self.path, self.topics))

    def open_producer(self) -> Stream:
        return self._kept(SqliteStream(self.path, self.topics, worker=False))

    def _kept(self, stream: SqliteStream) -> Stream:
        self.streams.append(stream)
        return stream

    def make_unwritable_output(self) -> Output:
        return Output(self.topics.review, b"key", object())  # type: ignore[arg-type]  # nothing SQLite could hold

    def crash_arguments(self) -> Sequence[str]:
        return ("sqlite", self.topics.prefix, str(self.path))


class KafkaLogUnderTest:
    """All streams have one identity, so that a new one takes over at once."""

    def __init__(self, settings: KafkaSettings, topics: Topics) -> None:
        self.topics = topics
        self.settings = settings
        self.group = f"{topics.prefix}group"
        self.streams: list[KafkaStream] = []

    def open(self) -> Stream:
        self.streams.append(KafkaStream(self.settings, self.topics, group=self.group, worker_id="worker-0"))
        return self.streams[-1]

    def open_producer(self) -> Stream:
        return self.open()  # it joins the group only when it is asked for partitions

    def make_unwritable_output(self) -> Output:
        return Output(self.topics.review, b"key", bytes(MAX_OUTPUT_BYTES + 100_000))

    def crash_arguments(self) -> Sequence[str]:
        settings = self.settings.model_dump_json(exclude_defaults=True)
        return ("kafka", self.topics.prefix, settings, self.group, "worker-0")


class TestSqlite(Conformance):
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[SqliteLogUnderTest]:
        made = SqliteLogUnderTest(tmp_path / "log.sqlite")
        yield made
        for stream in made.streams:
            stream.close()


class TestKafka(Conformance):
    @pytest.fixture
    def log(self, kafka_settings: KafkaSettings, kafka_topics: Topics) -> Iterator[KafkaLogUnderTest]:
        made = KafkaLogUnderTest(kafka_settings, kafka_topics)
        yield made
        for stream in made.streams:
            stream.close()
