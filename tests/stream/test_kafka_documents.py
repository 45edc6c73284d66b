"""Documents on a real broker: each stays in one partition, in order, and revisions count wherever they are."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from service.contracts import LabelledSentence, read_sentence
from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.codec import build_sentence_message
from service.review.queue.queue import ReviewQueue
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.stream.steps import read_topic, wait_until
from tests.support.model_pools import make_pool
from tests.support.review_queue import QueueHarness
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from service.log.kafka.log import KafkaLog
    from service.log.topics import Topics
    from tests.stream.conftest import OpenSession

DOCUMENTS = [f"report {number}" for number in range(8)]


def make_sentence(identity: str, **fields: object) -> LabelledSentence:
    return read_sentence({"id": identity, "tokens": ["the", "fox"], "labels": ["O", "O"], **fields})


def append(log: KafkaLog, topics: Topics, sentences: Iterable[LabelledSentence]) -> None:
    log.append([build_sentence_message(topics.sentences, sentence) for sentence in sentences])


def find_positions(log: KafkaLog, topics: Topics) -> dict[str, list[tuple[int, int, str]]]:
    """By document: partition, offset and id of its sentences."""
    positions: dict[str, list[tuple[int, int, str]]] = {}
    for record in read_topic(log, topics.sentences):
        sentence = read_sentence(record.value or b"")
        positions.setdefault(str(sentence.document), []).append((*record.position, str(sentence.id)))
    return positions


def wait_for_records(worker: Worker, count: int) -> None:
    def has_read() -> bool:
        time.sleep(0.05)
        return worker.counts.records == count

    wait_until(has_read, f"{count} records are judged")


def test_a_document_stays_in_one_partition_in_order(kafka_log: KafkaLog, kafka_topics: Topics) -> None:
    for number in range(6):  # sentences of all documents arrive in turns, as from several annotators
        append(
            kafka_log,
            kafka_topics,
            [make_sentence(f"{document}:{number}", document=document) for document in DOCUMENTS],
        )
    positions = find_positions(kafka_log, kafka_topics)
    assert {partition for found in positions.values() for partition, _, _ in found} == {0, 1}
    for document in DOCUMENTS:
        found = positions[document]
        assert len({partition for partition, _, _ in found}) == 1
        assert [identity for _, _, identity in sorted(found)] == [f"{document}:{number}" for number in range(6)]


@pytest.mark.parametrize("newest", ["an update", "a deletion"])
def test_of_revisions_in_two_partitions_the_highest_counts_in_any_order(
    kafka_log: KafkaLog, kafka_topics: Topics, open_session: OpenSession, tmp_path: Path, newest: str
) -> None:
    append(kafka_log, kafka_topics, [make_sentence(document, document=document) for document in DOCUMENTS])
    positions = find_positions(kafka_log, kafka_topics)
    in_first, in_second = (
        next(name for name, [(partition, _, _)] in positions.items() if partition == p) for p in (0, 1)
    )
    classifier = Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))
    datasets = DatasetRegistry(make_pool(classifier), max_datasets=4, min_words=1, prior_words=0)
    processor = BatchProcessor(make_pool(classifier), datasets, kafka_topics, max_words=50)
    worker = Worker(open_session(), processor, datasets, kafka_topics, batch_records=16, poll_timeout=0.1)
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    thread.start()

    # The sentence moved to another document, and the worker reads the partition of its newer revision first.
    deleted = newest == "a deletion"
    moved = make_sentence("s", document=in_second, revision=2, update=not deleted, deleted=deleted)
    for number, sentence in enumerate([moved, make_sentence("s", document=in_first, revision=1, update=True)], 1):
        append(kafka_log, kafka_topics, [sentence])
        wait_for_records(worker, len(DOCUMENTS) + number)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()

    live = QueueHarness(kafka_log, ReviewQueue(tmp_path / "queue.sqlite"), kafka_topics)
    live.catch_up()
    item = live.get_item("s")
    assert (item.revision, item.document) == (2, in_second)
    assert (item.state, item.closed_by) == ("closed", "deleted" if deleted else "update")
    live.close()
