"""Probabilities sent over a real broker: judged without the model, and learned apart from the model's."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from service.contracts import Assessment, LabelledSentence, WordProbabilities
from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.judging.class_source import is_external_key
from service.log.codec import build_sentence_message
from service.stream.state.reader import read_state
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from tests.stream.steps import read_topic, wait_until
from tests.support.model_pools import make_pool
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.log.kafka.log import KafkaLog
    from service.log.topics import Topics
    from tests.stream.conftest import OpenSession

CLASSES = ("O", "B-DRUG", "I-DRUG")
SURE_OF_DRUG, SURE_OF_O = (0.02, 0.97, 0.01), (0.98, 0.01, 0.01)
N_SENTENCES = 30


def make_sentence(identity: str, labels: tuple[str, str]) -> LabelledSentence:
    """The producer's tagger is sure that the first word is a drug."""
    probabilities = WordProbabilities(classes=CLASSES, words=(SURE_OF_DRUG, SURE_OF_O))
    return LabelledSentence(
        id=identity, dataset="med", tokens=("Aspirin", "helps"), labels=labels, probabilities=probabilities
    )


def test_sent_probabilities_are_judged_and_learned_apart(
    kafka_log: KafkaLog, kafka_topics: Topics, open_session: OpenSession, tmp_path: Path
) -> None:
    plain = [
        LabelledSentence(id=f"plain-{n}", dataset="med", tokens=("the", "fox"), labels=("O", "B-PER"))
        for n in range(N_SENTENCES)
    ]
    right = [make_sentence(f"right-{n}", ("B-DRUG", "O")) for n in range(N_SENTENCES)]
    sentences = [
        *(each for pair in zip(plain, right, strict=True) for each in pair),
        make_sentence("wrong", ("O", "O")),
    ]
    kafka_log.append([build_sentence_message(kafka_topics.sentences, each) for each in sentences[:-1]])
    models = make_pool(Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece"))))
    datasets = DatasetRegistry(models, max_datasets=4, min_words=1, prior_words=0)
    worker = Worker(
        open_session(), BatchProcessor(models, datasets, kafka_topics), datasets, kafka_topics, poll_timeout=0.1
    )
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    thread.start()
    wait_until(lambda: worker.counts.records == len(sentences) - 1, "the first sentences are judged")
    kafka_log.append([build_sentence_message(kafka_topics.sentences, sentences[-1])])
    wait_until(lambda: worker.counts.records == len(sentences), "the last sentence is judged")
    stop.set()
    thread.join(60)
    assert not thread.is_alive()

    assert read_topic(kafka_log, kafka_topics.dead_letters) == []
    assessments = {
        each.id: each
        for record in read_topic(kafka_log, kafka_topics.review)
        for each in [Assessment.model_validate_json(record.value or b"")]
    }
    wrong = assessments["wrong"]
    assert [(flag.index, flag.suggested) for flag in wrong.flags] == [(0, "B-DRUG")]
    assert wrong.model.name == "external"
    assert set(wrong.thresholds) == set(CLASSES)
    assert wrong.thresholds["B-DRUG"] is not None
    assert not any(identity.startswith("right") for identity in assessments if identity is not None)

    snapshot = read_state(kafka_log, kafka_topics).snapshot
    totals = {is_external_key(key.stats_key): stats.get_total(None) for key, stats in snapshot.by_key.items()}
    assert totals[True].get_total().counts == (N_SENTENCES + 2, N_SENTENCES, 0)
    assert sum(totals[False].get_total().counts) == 2 * N_SENTENCES
    assert totals[False].n_classes == len(models.get_folder(None).labels)
