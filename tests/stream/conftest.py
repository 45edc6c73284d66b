"""A real Kafka for the tests: the broker in KAFKA_BOOTSTRAP_SERVERS, or else one that the tests start."""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

import pytest
from kafka import KafkaAdminClient

from service.log.kafka.admin import create_topics
from service.log.kafka.clients import create_producer
from service.log.kafka.log import KafkaLog
from service.log.kafka.worker.session import KafkaWorkerSession
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.kafka.broker import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka import KafkaProducer

    from service.log.kafka.library_fixes.transactions.watchdog import Watchdog

PARTITIONS = 2

pytest.register_assert_rewrite(
    "tests.stream.conformance",
    "tests.stream.model_change_commands",
    "tests.stream.model_conformance",
    "tests.stream.runner",
    "tests.stream.steps",
)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the broker."""
    bootstrap_servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if bootstrap_servers:
        yield bootstrap_servers
        return
    with Cluster(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def kafka_settings(kafka: str) -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers=kafka,
        session_timeout_ms=10_000,
        max_poll_interval_ms=40_000,
        transaction_timeout_ms=12_000,
        delivery_timeout_ms=10_000,
    )


@pytest.fixture
def kafka_topics(kafka_settings: KafkaSettings) -> Iterator[Topics]:
    """Topics of this test only. They are deleted when it ends."""
    topics = Topics(prefix=f"test-{uuid.uuid4().hex[:12]}.")
    create_topics(kafka_settings, topics, partitions=PARTITIONS, replication=1, min_isr=1)
    yield topics
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_topics([spec.name for spec in topics.list_specs()])


class OpenSession(Protocol):
    """Opens a worker's session on the test's topics. It is closed when the test ends."""

    def __call__(
        self,
        worker_id: str | None = None,
        *,
        settings: KafkaSettings | None = None,
        watchdog: Watchdog | None = None,
        restore_grace_s: float = 30.0,
    ) -> KafkaWorkerSession: ...


@pytest.fixture
def group(kafka_topics: Topics) -> str:
    return f"{kafka_topics.prefix}workers"


@pytest.fixture
def open_session(kafka_settings: KafkaSettings, kafka_topics: Topics, group: str) -> Iterator[OpenSession]:
    sessions: list[KafkaWorkerSession] = []

    def open_one(
        worker_id: str | None = None,
        *,
        settings: KafkaSettings | None = None,
        watchdog: Watchdog | None = None,
        restore_grace_s: float = 30.0,
    ) -> KafkaWorkerSession:
        sessions.append(
            KafkaWorkerSession(
                settings or kafka_settings,
                kafka_topics,
                group=group,
                worker_id=worker_id,
                watchdog=watchdog,
                restore_grace_s=restore_grace_s,
            )
        )
        return sessions[-1]

    yield open_one
    for session in sessions:
        session.close()


@pytest.fixture
def kafka_log(kafka_settings: KafkaSettings) -> Iterator[KafkaLog]:
    """The log as the API and the commands open it."""
    with closing(KafkaLog(kafka_settings)) as log:
        yield log


@pytest.fixture
def foreign_producer(kafka_settings: KafkaSettings) -> Iterator[KafkaProducer]:
    """A transactional producer that is not the worker's."""
    producer = create_producer(kafka_settings, transactional_id="foreign")
    producer.init_transactions()
    yield producer
    producer.close(timeout=10)
