"""A real Kafka for the tests: the broker named in KAFKA_BOOTSTRAP_SERVERS, else one of our own."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient

from service.stream.kafka_admin import create_topics
from service.stream.kafka_settings import KafkaSettings
from service.stream.topics import Topics
from tests.kafka.broker import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 2

pytest.register_assert_rewrite("tests.stream.conformance", "tests.stream.steps")


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
        admin.delete_topics([spec.name for spec in topics.specs()])
