"""A change of settings, keys or trainings while every broker hangs."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from service.errors import StreamError
from service.log.kafka import compare_and_set
from service.log.kafka.admin import create_topics
from service.log.kafka.clients import create_producer
from service.log.kafka.log import KafkaLog
from service.log.protocol import Output
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.kafka.broker import Cluster
from tests.stream.steps import WAIT_TIMEOUT_S, read_topic, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka import KafkaProducer

    from service.log.protocol import Record


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of these tests: they stop it for a while."""
    with Cluster(tmp_path_factory.mktemp("hung")) as cluster:
        yield cluster


@pytest.fixture
def settings(cluster: Cluster) -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers=cluster.bootstrap_servers, transaction_timeout_ms=6_000, delivery_timeout_ms=5_000
    )


@pytest.fixture
def log(settings: KafkaSettings) -> Iterator[KafkaLog]:
    with closing(KafkaLog(settings)) as log:
        yield log


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> Topics:
    topics = Topics(prefix="hung.")
    create_topics(KafkaSettings.for_servers(cluster.bootstrap_servers), topics, partitions=1, replication=1, min_isr=1)
    return topics


def test_a_commit_that_no_broker_confirms_ends_and_can_be_repeated(
    cluster: Cluster, log: KafkaLog, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages are delivered, then the broker hangs. Whether it commits when it continues is not known."""
    change = Output(topics.datasets, b"default", b"{}")
    errors: list[Exception] = []

    def hang_before_commit(settings: KafkaSettings, *, transactional_id: str) -> KafkaProducer:
        producer = create_producer(settings, transactional_id=transactional_id)
        flush = producer.flush

        def flush_and_hang(timeout: float) -> None:
            flush(timeout=timeout)
            cluster.pause(1)
            producer.flush = flush

        producer.flush = flush_and_hang
        return producer

    def write() -> None:
        try:
            log.append_if_unchanged(change, None, timeout=120)
        except StreamError as error:
            errors.append(error)

    writing = threading.Thread(target=write, daemon=True)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(compare_and_set, "create_producer", hang_before_commit)
            writing.start()
            writing.join(WAIT_TIMEOUT_S)
        assert not writing.is_alive(), "the thread waits for as long as the broker hangs"
    finally:
        cluster.resume(1)
    (error,) = errors
    assert str(error) == (
        "Kafka did not confirm the change of hung.datasets in time, and may have made it or not: look at it when Kafka answers"
        " again, and repeat the change if it is missing"
    )

    def repeat() -> bool:
        try:
            log.append_if_unchanged(change, None)
        except StreamError:
            return False
        return True

    wait_until(repeat, "the change is made, by the first attempt or by the second")
    assert [record.value for record in read_topic(log, topics.datasets)] == [b"{}"]


def test_a_change_that_has_no_time_left_is_not_committed(
    log: KafkaLog, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped_s = [0.0]
    find_last_record = compare_and_set._find_last_record

    def find_slowly(settings: KafkaSettings, output: Output, deadline: float) -> Record | None:
        found = find_last_record(settings, output, deadline)
        skipped_s[0] += 3_600
        return found

    with monkeypatch.context() as patched:
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + skipped_s[0], sleep=time.sleep)
        patched.setattr(compare_and_set, "time", clock)
        patched.setattr(compare_and_set, "_find_last_record", find_slowly)
        with pytest.raises(StreamError, match="Kafka did not accept the message"):
            log.append_if_unchanged(Output(topics.keys, b"ann", b"never"), None, timeout=600)
    log.append_if_unchanged(Output(topics.keys, b"ann", b"{}"), None)
    assert [record.value for record in read_topic(log, topics.keys)] == [b"{}"]
