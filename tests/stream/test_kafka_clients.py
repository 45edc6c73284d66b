"""Topics as an administrator sees them, and clients that know nothing of us."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient

from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.errors import StreamError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.kafka.admin import (
    count_brokers,
    create_topics,
    describe_topics,
)
from service.log.kafka.library_fixes.header_keys import NonUtf8HeaderKey
from service.log.protocol import Output
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.stream.steps import iter_records, make_batch_result, poll_batch, read_topic, wait_for_assignment, wait_until
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.protocol import Record
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings
    from tests.stream.conftest import OpenStream


# -- topics -----------------------------------------------------------------------------------------------------------


def test_topics_are_made_as_they_must_be_and_what_is_wrong_with_one_is_told(
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
        wait_until(lambda: kafka_topics.state not in admin.list_topics(), "the topic is gone")
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


def test_a_topic_that_is_missing_is_named(opened: OpenStream) -> None:
    stream = opened()
    with pytest.raises(StreamError, match=r"no-such-topic does not exist: run `labelwatch topics create`"):
        stream.follow("no-such-topic")


# -- others' clients --------------------------------------------------------------------------------------------------


def kcat(kafka_settings: KafkaSettings, *arguments: bytes | str, given: bytes = b"") -> bytes:
    subprocess.run(["tests/system-packages", "kcat"], check=True)
    command = ["kcat", "-b", kafka_settings.bootstrap_servers, *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True, timeout=300).stdout


def test_header_keys_that_are_not_text_and_messages_without_anything_come_and_go_as_they_are(
    opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    stream = opened()
    odd = b"k\xff\xfe"
    place = ["-P", "-t", kafka_topics.sentences, "-p", "0"]
    kcat(kafka_settings, *place, "-H", odd + b"=v", "-H", "empty", given=b"odd\n")
    kcat(kafka_settings, *place, "-Z", "-K", ":", given=b":\n")
    wait_for_assignment(stream)
    got: list[Record] = []
    while len(got) < 2:
        polled = poll_batch(stream, max_records=1)
        got += iter_records(polled)
        outputs = [
            Output(kafka_topics.dead_letters, one.key, one.value, one.headers, 0) for one in iter_records(polled)
        ]
        stream.commit(make_batch_result(polled, outputs))
    assert isinstance(got[0].headers[0][0], NonUtf8HeaderKey)
    assert [(key.encode(), value) for key, value in got[0].headers] == [(odd, b"v"), (b"empty", b"")]
    assert (got[0].value, got[1].key, got[1].value) == (b"odd", None, None)
    dead = [
        (r.key, r.value, [(k.encode(), v) for k, v in r.headers]) for r in read_topic(stream, kafka_topics.dead_letters)
    ]
    assert dead == [(r.key, r.value, [(k.encode(), v) for k, v in r.headers]) for r in got]


def test_messages_compressed_by_what_is_not_installed_are_told_of(
    opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left alone, the client would go round in circles."""
    monkeypatch.setattr("kafka.codec.has_lz4", lambda: False)
    stream = opened()
    given = b"".join(b"%d " % n * 50 + b"\n" for n in range(20))
    kcat(kafka_settings, "-P", "-z", "lz4", "-t", kafka_topics.sentences, "-p", "0", given=given)
    wait_for_assignment(stream)
    for _ in range(2):
        with pytest.raises(StreamError, match=r"UnsupportedCodecError.*install kafka-python\[lz4,snappy,zstd\]"):
            poll_batch(stream)
        wait_for_assignment(stream)


def test_kcat_sends_bare_json_and_reads_what_is_flagged(
    opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics, tmp_path: Path
) -> None:
    """The real worker with a tiny model between a producer and a consumer that know nothing of us."""
    classifier = Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))
    every = DatasetSettings(name="default", control_share=1.0)
    stream = opened()
    stream.append([Output(kafka_topics.datasets, b"default", every.model_dump_json().encode())])
    datasets = DatasetRegistry(classifier.folder, min_words=0, prior_words=0)
    assessor = BatchProcessor(classifier, datasets, kafka_topics)
    worker, stop = Worker(stream, assessor, datasets, kafka_topics), threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    thread.start()
    label = classifier.folder.labels[0]
    lines = [json.dumps({"tokens": ["the", "fox", str(n)], "labels": [label] * 3}) for n in range(20)]
    given = "\n".join([*lines, "not JSON"]).encode() + b"\n"
    kcat(kafka_settings, "-P", "-t", kafka_topics.sentences, given=given)
    wait_until(lambda: thread.is_alive() and worker.counts.records == 21, "all are assessed")
    stop.set()
    thread.join(120)
    told = kcat(
        kafka_settings,
        *("-C", "-e", "-q", "-t", kafka_topics.review),
        *("-X", "isolation.level=read_committed", "-f", "%k\t%s\n"),
    )
    seen = dict(line.split("\t") for line in told.decode().splitlines())
    assert len(seen) == 20
    assert sorted(json.loads(value)["tokens"][2] for value in seen.values()) == sorted(str(n) for n in range(20))
    assert {json.loads(value)["reason"] for value in seen.values()} <= {"control", "flagged"}
    dead = kcat(kafka_settings, "-C", "-e", "-q", "-t", kafka_topics.dead_letters, "-f", "%s\t%h\n")
    value, headers = dead.decode().strip().split("\t")
    assert value == "not JSON"
    assert "__connect.errors.stage=decode" in headers
