"""A real Kafka for the tests: the broker named in KAFKA_BOOTSTRAP_SERVERS, else one of our own."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Protocol

import pytest
from kafka import KafkaAdminClient

from service.log.kafka.admin import create_topics
from service.log.kafka.clients import create_producer
from service.log.kafka.session import KafkaWorkerSession
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.kafka.broker import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka import KafkaProducer

    from service.log.kafka.library_fixes.watchdog import Watchdog

PARTITIONS = 2

pytest.register_assert_rewrite("tests.stream.conformance", "tests.stream.runner", "tests.stream.steps")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker listens."""
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if named:
        yield named
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
    """Topics that no other test has; gone afterwards."""
    topics = Topics(prefix=f"test-{uuid.uuid4().hex[:12]}.")
    create_topics(kafka_settings, topics, partitions=PARTITIONS, replication=1, min_isr=1)
    yield topics
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_topics([spec.name for spec in topics.list_specs()])


class OpenStream(Protocol):
    """Opens a worker's stream on the test's topics; all are closed in the end."""

    def __call__(
        self,
        worker_id: str | None = None,
        *,
        settings: KafkaSettings | None = None,
        watchdog: Watchdog | None = None,
        patience: float = 30.0,
    ) -> KafkaWorkerSession: ...


@pytest.fixture
def group(kafka_topics: Topics) -> str:
    return f"{kafka_topics.prefix}workers"


@pytest.fixture
def opened(kafka_settings: KafkaSettings, kafka_topics: Topics, group: str) -> Iterator[OpenStream]:
    streams: list[KafkaWorkerSession] = []

    def made(
        worker_id: str | None = None,
        *,
        settings: KafkaSettings | None = None,
        watchdog: Watchdog | None = None,
        patience: float = 30.0,
    ) -> KafkaWorkerSession:
        streams.append(
            KafkaWorkerSession(
                settings or kafka_settings,
                kafka_topics,
                group=group,
                worker_id=worker_id,
                watchdog=watchdog,
                restore_grace_s=patience,
            )
        )
        return streams[-1]

    yield made
    for stream in streams:
        stream.close()


@pytest.fixture
def stranger(kafka_settings: KafkaSettings) -> Iterator[KafkaProducer]:
    """Somebody else's transactional producer."""
    producer = create_producer(kafka_settings, transactional_id="stranger")
    producer.init_transactions()
    yield producer
    producer.close(timeout=10)
