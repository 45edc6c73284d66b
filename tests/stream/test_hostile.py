"""Hostile messages through a real Kafka and the real worker: each becomes a dead letter with a reason, or is assessed."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from service.contracts import Assessment
from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.protocol import Output
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.chaos.hostile_messages import ASSESSED, DATASETS, KINDS, make_one_of_each
from tests.stream.conftest import PARTITIONS
from tests.stream.steps import read_topic, wait_until
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.kafka.log import KafkaLog
    from service.log.protocol import Record, RecordPosition
    from service.log.topics import Topics
    from tests.chaos.hostile_messages import HostileMessage
    from tests.stream.conftest import OpenSession

ERRORS = "__connect.errors."
ROUNDS = 2


def test_hostile_messages_become_dead_letters_byte_for_byte_and_the_worker_continues(
    open_session: OpenSession, kafka_log: KafkaLog, kafka_topics: Topics, tmp_path: Path
) -> None:
    classifier = Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))
    datasets = DatasetRegistry(make_pool(classifier), min_words=0, prior_words=0)
    processor = BatchProcessor(make_pool(classifier), datasets, kafka_topics, publish_scores=True)
    kafka_log.append(
        [Output(kafka_topics.datasets, one.name.encode(), one.model_dump_json().encode()) for one in DATASETS]
    )
    worker, stop = Worker(open_session(), processor, datasets, kafka_topics), threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    thread.start()
    sent: dict[RecordPosition, HostileMessage] = {}
    for seed in range(ROUNDS):
        for number, message in enumerate(make_one_of_each(seed)):
            partition = number % PARTITIONS
            sent[partition, sum(position[0] == partition for position in sent)] = message
            kafka_log.append([Output(kafka_topics.sentences, message.key, message.value, message.headers, partition)])
    assert len(sent) == ROUNDS * len(KINDS)
    wait_until(lambda: thread.is_alive() and worker.counts.records == len(sent), "all messages are processed")
    stop.set()
    thread.join(120)
    assert worker.counts.refused_batches == 0

    dead_letters = read_topic(kafka_log, kafka_topics.dead_letters)
    fates = {_get_origin(letter): _check(letter, sent[_get_origin(letter)]) for letter in dead_letters}
    assert len(fates) == len(dead_letters)
    scores = read_topic(kafka_log, kafka_topics.scores)
    positions = [Assessment.model_validate_json(record.value or b"").position for record in scores]
    fates |= {(position.partition, position.offset): ASSESSED for position in positions if position is not None}
    assert sorted(fates) == sorted(sent)
    assert len(dead_letters) + len(scores) == len(sent)
    wrong = {
        message.kind: fates[position] for position, message in sent.items() if fates[position] not in message.fates
    }
    assert wrong == {}
    assert set(Counter(fates.values())) == {"decode", "validate", "labels", "too_long", ASSESSED}


def _get_error_headers(letter: Record) -> dict[str, bytes]:
    """The headers that were added behind the message's own, which may have the same names."""
    return dict(letter.headers[-6:])


def _get_origin(letter: Record) -> RecordPosition:
    headers = _get_error_headers(letter)
    return int(headers[f"{ERRORS}partition"]), int(headers[f"{ERRORS}offset"])


def _check(letter: Record, original: HostileMessage) -> str:
    """Checks the copied message and returns the stage of the error."""
    headers = [(key.encode(), value) for key, value in letter.headers[:-6]]
    assert (letter.key, letter.value) == (original.key, original.value), original.kind
    assert headers == [(key.encode(), value) for key, value in original.headers], original.kind
    assert _get_error_headers(letter)[f"{ERRORS}exception.message"], original.kind
    return _get_error_headers(letter)[f"{ERRORS}stage"].decode()
