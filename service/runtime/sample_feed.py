"""Sends the sentences of a file one after the other, as if somebody were annotating them: a demo of the service."""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from typing import TYPE_CHECKING

from service.contracts import read_sentence
from service.errors import InvalidInput, StreamError
from service.formats import ReadOptions
from service.log.read import POLL_INTERVAL_S
from service.runtime.open_log import build_topics, open_log
from service.runtime.sentence_files import FileSource, SentenceOverrides, build_file_message

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator

    from service.log.protocol import Log, Output, Record
    from service.settings import Settings

logger = logging.getLogger(__name__)

SAMPLE_DATASET = "sample"
SAMPLE_ANNOTATORS = ("ada", "ben", "caro")  # several, so that figures by annotator have something to compare
RETRY_INTERVAL_S = 2.0
DEFAULT_LOG_FOLDER = ".labelwatch"
_SAMPLE_KEY_PREFIX = f"{SAMPLE_DATASET}/".encode()


@dataclass(frozen=True, slots=True)
class FileFeed:
    """A thread for the supervisor. At the end of the file it waits until it is stopped."""

    settings: Settings
    file: str
    per_second: float

    def run(self, stop: threading.Event) -> None:
        topics = build_topics(self.settings)
        source = FileSource([self.file], ReadOptions(max_words=self.settings.worker.max_words))
        overrides = SentenceOverrides({"dataset": SAMPLE_DATASET})
        annotators = cycle(SAMPLE_ANNOTATORS)
        sent = sent_before = 0
        with closing(open_log(self.settings)) as log:
            known_ids = self._read_sent_ids_with_retry(log, topics.sentences, stop)
            for record in source.iter_records():
                if stop.is_set():
                    return
                if record.sentence is not None and record.sentence.id in known_ids:
                    sent_before += 1
                    continue
                annotation = {"annotator": next(annotators), "annotated_at": datetime.now(UTC)}
                sentence = record.sentence and record.sentence.model_copy(update=annotation)
                try:
                    message = build_file_message(replace(record, sentence=sentence), overrides, topics.sentences)
                except InvalidInput as error:
                    logger.warning("skipped %s", error)
                    continue
                self._append_with_retry(log, message, stop)
                if stop.wait(1 / self.per_second):
                    return
                sent += 1
        if sent or not sent_before:
            logger.info("all %d sentences of %s are sent to %s", sent + sent_before, self.file, topics.sentences)
        else:
            logger.info("%s was sent before: to start over, %s", self.file, self._describe_start_over())
        stop.wait()

    def _append_with_retry(self, log: Log, message: Output, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                log.append([message])
            except StreamError as error:
                logger.warning("can't send a sentence of %s, trying again: %s", self.file, error)
                stop.wait(RETRY_INTERVAL_S)
            else:
                return

    def _read_sent_ids_with_retry(self, log: Log, topic: str, stop: threading.Event) -> set[str]:
        """Ids of the sentences that an earlier start has sent. Sent again, they would be learned from twice."""
        while not stop.is_set():
            try:
                return self._read_sent_ids(log, topic, stop)
            except StreamError as error:
                logger.warning("can't read yet which sentences of %s were sent before: %s", self.file, error)
                stop.wait(RETRY_INTERVAL_S)
        return set()

    def _read_sent_ids(self, log: Log, topic: str, stop: threading.Event) -> set[str]:
        ids: set[str] = set()
        with closing(log.follow(topic)) as follower:
            while not stop.is_set():
                records = follower.poll()
                ids.update(_iterate_sample_ids(records))
                if follower.caught_up:
                    break
                if not records:
                    stop.wait(POLL_INTERVAL_S)
        return ids

    def _describe_start_over(self) -> str:
        if self.settings.kafka is not None:
            return "set another LABELWATCH_TOPICS_PREFIX"
        path = self.settings.log.path
        is_default_folder = path.parent.name == DEFAULT_LOG_FOLDER  # another folder may hold other files too
        return f"stop the service and remove {path.parent if is_default_folder else path}"


def _iterate_sample_ids(records: Iterable[Record]) -> Iterator[str]:
    """Ids of the sample's sentences. The key names the dataset, and the document instead of the id where there is one."""
    for record in records:
        if record.key is None or record.value is None or not record.key.startswith(_SAMPLE_KEY_PREFIX):
            continue
        with suppress(InvalidInput):
            sentence = read_sentence(record.value)
            if sentence.id is not None:
                yield sentence.id
