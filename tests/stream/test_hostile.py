"""Messages that mean harm, through a real Kafka and the real worker: each is a dead letter with a reason, or assessed."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from service.contracts import Assessment, DatasetSettings
from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.protocol import Output
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.chaos.hostile_messages import ASSESSED, KINDS, make_one_of_each
from tests.stream.conftest import PARTITIONS
from tests.stream.steps import read_topic, wait_until
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.protocol import Record
    from service.log.topics import Topics
    from tests.chaos.hostile_messages import HostileMessage
    from tests.stream.conftest import OpenStream

ERRORS = "__connect.errors."
ROUNDS = 2
Place = tuple[int, int]


def test_hostile_messages_become_dead_letters_byte_for_byte_and_the_worker_lives(
    opened: OpenStream, kafka_topics: Topics, tmp_path: Path
) -> None:
    classifier = Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))
    datasets = DatasetRegistry(classifier.folder, min_words=0, prior_words=0)
    assessor = BatchProcessor(classifier, datasets, kafka_topics, publish_scores=True)
    stream = opened()
    forgets = DatasetSettings(name="forgets", version=1, forget_after_days=1)
    stream.append([Output(kafka_topics.datasets, b"forgets", forgets.model_dump_json().encode())])
    worker, stop = Worker(stream, assessor, datasets, kafka_topics), threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    thread.start()
    sent: dict[Place, HostileMessage] = {}
    for seed in range(ROUNDS):
        for number, one in enumerate(make_one_of_each(seed)):
            partition = number % PARTITIONS
            sent[partition, sum(place[0] == partition for place in sent)] = one
            stream.append([Output(kafka_topics.sentences, one.key, one.value, one.headers, partition)])
    assert len(sent) == ROUNDS * len(KINDS)
    wait_until(lambda: thread.is_alive() and worker.counts.records == len(sent), "all are worked on")
    stop.set()
    thread.join(120)
    assert worker.counts.refused_batches == 0

    reader = opened()
    letters = read_topic(reader, kafka_topics.dead_letters)
    fates = {_origin(letter): _check(letter, sent[_origin(letter)]) for letter in letters}
    assert len(fates) == len(letters)
    scores = read_topic(reader, kafka_topics.scores)
    said = [Assessment.model_validate_json(record.value or b"").position for record in scores]
    fates |= {(at.partition, at.offset): ASSESSED for at in said if at is not None}
    assert sorted(fates) == sorted(sent)
    assert len(letters) + len(scores) == len(sent)
    wrong = {one.kind: fates[place] for place, one in sent.items() if fates[place] not in one.fates}
    assert wrong == {}
    assert set(Counter(fates.values())) == {"decode", "validate", "labels", "too_long", ASSESSED}


def _added(letter: Record) -> dict[str, bytes]:
    """What was put behind the message's own headers, which may look the same."""
    return dict(letter.headers[-6:])


def _origin(letter: Record) -> Place:
    added = _added(letter)
    return int(added[f"{ERRORS}partition"]), int(added[f"{ERRORS}offset"])


def _check(letter: Record, original: HostileMessage) -> str:
    """The stage, if all else is as it must be."""
    kept = [(key.encode(), value) for key, value in letter.headers[:-6]]
    assert (letter.key, letter.value) == (original.key, original.value), original.kind
    assert kept == [(key.encode(), value) for key, value in original.headers], original.kind
    assert _added(letter)[f"{ERRORS}exception.message"], original.kind
    return _added(letter)[f"{ERRORS}stage"].decode()
