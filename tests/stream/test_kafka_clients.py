"""Topics as an administrator sees them, and clients of other projects."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.errors import StreamError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.codec import UNREAD_BATCH_HEADER, get_header
from service.log.kafka.admin import count_brokers, create_topics, describe_topics
from service.log.kafka.library_fixes.messages.header_keys import NonUtf8HeaderKey
from service.log.protocol import Output
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.stream.steps import iter_records, make_batch_result, poll_batch, read_topic, wait_for_assignment, wait_until
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.kafka.log import KafkaLog
    from service.log.protocol import Record
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings
    from tests.stream.conftest import OpenSession


# -- topics -----------------------------------------------------------------------------------------------------------


def test_topics_are_created_as_required_and_problems_are_described(
    kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    assert count_brokers(kafka_settings) >= 1
    assert create_topics(kafka_settings, kafka_topics, partitions=9, replication=1, min_isr=1) == []
    reports = {report.name: report for report in describe_topics(kafka_settings, kafka_topics)}
    assert {name: report.problems for name, report in reports.items() if report.problems} == {}
    assert reports[kafka_topics.sentences].partitions == reports[kafka_topics.state].partitions == 2
    assert reports[kafka_topics.datasets].partitions == 1
    assert reports[kafka_topics.state].configs["cleanup.policy"] == "compact"
    assert reports[kafka_topics.review].configs["max.message.bytes"] == str(8 * 1024 * 1024)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_topics([kafka_topics.scores, kafka_topics.state])
        wait_until(lambda: kafka_topics.state not in admin.list_topics(), "the topic is deleted")
        admin.create_topics({kafka_topics.state: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([kafka_topics.state])
    reports = {report.name: report for report in describe_topics(kafka_settings, kafka_topics)}
    assert not reports[kafka_topics.scores].exists
    assert "labelwatch topics create" in reports[kafka_topics.scores].problems[0]
    assert [problem.split()[1] for problem in reports[kafka_topics.state].problems] == [
        "cleanup.policy",
        "max.message.bytes",
        "has",
    ]
    with pytest.raises(StreamError, match="can't have 99 replicas on"):
        create_topics(kafka_settings, kafka_topics, partitions=2, replication=99, min_isr=1)
    assert create_topics(kafka_settings, kafka_topics, partitions=2, replication=1, min_isr=1) == [
        kafka_topics.scores,
        f"{kafka_topics.state} (grown to 2 partitions)",
    ]


def test_a_topic_that_is_missing_is_named(kafka_log: KafkaLog) -> None:
    with pytest.raises(StreamError, match=r"no-such-topic does not exist: run `labelwatch topics create`"):
        kafka_log.follow("no-such-topic")


# -- clients of other projects --------------------------------------------------------------------------------------------------


def run_kcat(kafka_settings: KafkaSettings, *arguments: bytes | str, stdin: bytes = b"") -> bytes:
    subprocess.run(["tests/system-packages", "kcat"], check=True)
    command = ["kcat", "-b", kafka_settings.bootstrap_servers, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=300).stdout


def test_header_keys_that_are_not_utf8_and_empty_messages_are_copied_unchanged(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    session = open_session()
    non_utf8_key = b"k\xff\xfe"
    produce = ["-P", "-t", kafka_topics.sentences, "-p", "0"]
    run_kcat(kafka_settings, *produce, "-H", non_utf8_key + b"=v", "-H", "empty", stdin=b"odd\n")
    run_kcat(kafka_settings, *produce, "-Z", "-K", ":", stdin=b":\n")
    wait_for_assignment(session)
    received: list[Record] = []
    while len(received) < 2:
        batch = poll_batch(session, max_records=1)
        received += iter_records(batch)
        outputs = [
            Output(kafka_topics.dead_letters, record.key, record.value, record.headers, 0)
            for record in iter_records(batch)
        ]
        session.commit(make_batch_result(batch, outputs))
    odd, empty = received
    assert isinstance(odd.headers[0][0], NonUtf8HeaderKey)
    assert _get_bytes(odd) == (None, b"odd", [(non_utf8_key, b"v"), (b"empty", b"")])
    assert (empty.key, empty.value) == (None, None)
    dead_letters = read_topic(session, kafka_topics.dead_letters)
    assert list(map(_get_bytes, dead_letters)) == list(map(_get_bytes, received))


def _get_bytes(record: Record) -> tuple[bytes | None, bytes | None, list[tuple[bytes, bytes]]]:
    return record.key, record.value, [(name.encode(), value) for name, value in record.headers]


def test_a_compression_that_is_not_installed_is_named(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client alone would fetch the same batch forever."""
    monkeypatch.setattr("kafka.codec.has_lz4", lambda: False)
    session = open_session()
    lines = b"".join(b"%d " % number * 50 + b"\n" for number in range(20))
    run_kcat(kafka_settings, "-P", "-z", "lz4", "-t", kafka_topics.sentences, "-p", "0", stdin=lines)
    wait_for_assignment(session)
    for _ in range(2):
        with pytest.raises(StreamError, match=r"UnsupportedCodecError.*install kafka-python\[lz4,snappy,zstd\]"):
            poll_batch(session)
        wait_for_assignment(session)


def test_a_batch_that_unpacks_to_too_much_does_not_stop_its_partition(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.log.kafka.library_fixes.messages.packed_batches.MAX_UNPACKED_BYTES", 1_000_000)
    producer = KafkaProducer(
        bootstrap_servers=kafka_settings.servers, compression_type="gzip", max_request_size=10_000_000
    )
    for value in (b"before", b" " * 5_000_000, b"after"):
        producer.send(kafka_topics.sentences, value, partition=0).get(timeout=60)
    producer.close()
    session = open_session()
    wait_for_assignment(session)
    received: list[Record] = []
    while len(received) < 3:
        batch = poll_batch(session, max_records=1)
        received += iter_records(batch)
        session.commit(make_batch_result(batch))
    before, unread, after = received
    assert (before.value, unread.offset, after.value) == (b"before", 1, b"after")
    reason = "the compressed batch with the 1 record at offset 1 unpacks to more than 1,000,000 bytes"
    assert (get_header(unread.headers, UNREAD_BATCH_HEADER) or "").startswith(reason)


def test_kcat_sends_bare_json_and_reads_what_is_flagged(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics, tmp_path: Path
) -> None:
    """The real worker with a tiny model runs between a producer and a consumer of another project."""
    classifier = Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))
    settings = DatasetSettings(name="default", control_share=1.0)
    session = open_session()
    session.append([Output(kafka_topics.datasets, b"default", settings.model_dump_json().encode())])
    datasets = DatasetRegistry(make_pool(classifier), min_words=0, prior_words=0)
    processor = BatchProcessor(make_pool(classifier), datasets, kafka_topics)
    worker, stop = Worker(session, processor, datasets, kafka_topics), threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    thread.start()
    label = classifier.folder.labels[0]
    lines = [json.dumps({"tokens": ["the", "fox", str(n)], "labels": [label] * 3}) for n in range(20)]
    messages = "\n".join([*lines, "not JSON"]).encode() + b"\n"
    run_kcat(kafka_settings, "-P", "-t", kafka_topics.sentences, stdin=messages)
    wait_until(lambda: thread.is_alive() and worker.counts.records == 21, "all messages are assessed")
    stop.set()
    thread.join(120)
    review = run_kcat(
        kafka_settings,
        *("-C", "-e", "-q", "-t", kafka_topics.review),
        *("-X", "isolation.level=read_committed", "-f", "%k\t%s\n"),
    )
    assessments = [json.loads(line.split("\t")[1]) for line in review.decode().splitlines()]
    assert len(assessments) == 20
    assert sorted(assessment["tokens"][2] for assessment in assessments) == sorted(str(number) for number in range(20))
    assert {assessment["reason"] for assessment in assessments} <= {"control", "flagged"}
    dead_letters = run_kcat(kafka_settings, "-C", "-e", "-q", "-t", kafka_topics.dead_letters, "-f", "%s\t%h\n")
    value, headers = dead_letters.decode().strip().split("\t")
    assert value == "not JSON"
    assert "__connect.errors.stage=decode" in headers
