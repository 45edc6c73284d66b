"""Sentences with labels that the tiny models have no class for, and workers that read a log to its end."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from service.contracts import Assessment
from service.datasets.registry import DatasetRegistry
from service.datasets.settings_records import build_settings_message
from service.log.protocol import Output
from service.runtime.worker import RunToEndWorker
from service.stream.worker.batch_processor import BatchProcessor
from tests.support.model_pools import make_pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.inference.classifier import Classifier
    from service.log.protocol import Log, Record, WorkerSession
    from service.log.topics import Topics

DRUG_LABELS = ("O", "B-DRUG", "I-DRUG", "B-DOSE")
LABEL_MAP = {"DRUG": "MISC", "DOSE": "ORG"}
WORDS = ("the", "quick", "fox", "in", "Oslo")


def make_drug_sentences(n: int, *, start: int = 0, dataset: str = "med") -> list[dict[str, Any]]:
    """Every fifth sentence has no entity."""
    return [
        {
            "tokens": [WORDS[(number + word) % len(WORDS)] for word in range(4)],
            "labels": [DRUG_LABELS[(number + word) % len(DRUG_LABELS)] if number % 5 else "O" for word in range(4)],
            "dataset": dataset,
            "id": str(number),
        }
        for number in range(start, start + n)
    ]


def send(
    log: Log, topics: Topics, sentences: Iterable[dict[str, Any]], *, partitions: int = 1, first_partition: int = 0
) -> None:
    log.append(
        [
            Output(
                topics.sentences,
                str(number).encode(),
                json.dumps(sentence).encode(),
                partition=first_partition + number % partitions,
            )
            for number, sentence in enumerate(sentences)
        ]
    )


def put_settings(log: Log, topics: Topics, **fields: object) -> None:
    log.append([build_settings_message(topics.datasets, {"name": "med", "version": 1, **fields})])


def run_worker(
    session: WorkerSession, topics: Topics, classifier: Classifier, *, batch_records: int = 16
) -> RunToEndWorker:
    """Runs a worker on the session until everything is read and released. It publishes all scores."""
    datasets = DatasetRegistry(make_pool(classifier), min_words=1, prior_words=0)
    processor = BatchProcessor(make_pool(classifier), datasets, topics, publish_scores=True)
    worker = RunToEndWorker(session, processor, datasets, topics, batch_records=batch_records, poll_timeout=0.1)
    worker.run(threading.Event())
    return worker


def parse_assessments(records: Sequence[Record]) -> list[Assessment]:
    """In their order, without the times at which they were written."""
    assessments = [Assessment.model_validate_json(record.value or b"") for record in records]
    return [assessment.model_copy(update={"scored_at": None}) for assessment in assessments]
