"""A file's sentences sent one after the other, as if somebody were annotating them: to see the service at work."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.stream.send import FileSource, SentenceOverrides, build_file_message
from service.errors import InvalidInput, StreamError
from service.formats import ReadOptions
from service.log.read import POLL_INTERVAL_S
from service.runtime.open_log import build_topics, open_log

if TYPE_CHECKING:
    import threading

    from service.log.protocol import Log
    from service.settings import Settings

logger = logging.getLogger(__name__)

SAMPLE_DATASET = "sample"
SAMPLE_ANNOTATORS = ("ada", "ben", "caro")  # so that what is shown by annotator has something to show
RETRY_INTERVAL_S = 2.0
DEFAULT_LOG_FOLDER = ".labelwatch"


@dataclass(frozen=True, slots=True)
class FileFeed:
    """A thread for the supervisor; when the file is at its end it waits to be stopped."""

    settings: Settings
    file: str
    per_second: float

    def run(self, stop: threading.Event) -> None:
        topics = build_topics(self.settings)
        source = FileSource([self.file], None, ReadOptions(max_words=self.settings.worker.max_words), None)
        change = SentenceOverrides.from_options(dataset=SAMPLE_DATASET, annotator=None, update=False)
        names = cycle(SAMPLE_ANNOTATORS)
        sent = before = 0
        with closing(open_log(self.settings)) as stream:
            there = self._read_sent_keys_with_retry(stream, topics.sentences, stop)
            for record in source.iter_records():
                if stop.is_set():
                    return
                if record.sentence is not None and _build_record_key(record.sentence.id) in there:
                    before += 1
                    continue
                told = {"annotator": next(names), "annotated_at": datetime.now(UTC)}
                sentence = record.sentence and record.sentence.model_copy(update=told)
                try:
                    message = build_file_message(replace(record, sentence=sentence), change, topics.sentences)
                except InvalidInput as error:
                    logger.warning("skipped %s", error)
                    continue
                while not stop.is_set():
                    try:
                        stream.append([message])
                    except StreamError as error:
                        logger.warning("a sentence of %s was not taken, it is sent again: %s", self.file, error)
                        stop.wait(RETRY_INTERVAL_S)
                    else:
                        break
                if stop.wait(1 / self.per_second):
                    return
                sent += 1
        if sent or not before:
            logger.info("all %d sentences of %s are sent to %s", sent + before, self.file, topics.sentences)
        else:
            logger.info("%s was sent before: %s to start over", self.file, self._describe_start_over())
        stop.wait()

    def _read_sent_keys_with_retry(self, stream: Log, topic: str, stop: threading.Event) -> set[bytes]:
        """Keys of what an earlier start has sent: every message teaches, so none is sent again."""
        while not stop.is_set():
            try:
                return self._read_sent_keys(stream, topic, stop)
            except StreamError as error:
                logger.warning("what was sent of %s before can't be read yet: %s", self.file, error)
                stop.wait(RETRY_INTERVAL_S)
        return set()

    def _read_sent_keys(self, stream: Log, topic: str, stop: threading.Event) -> set[bytes]:
        found: set[bytes] = set()
        prefix = _build_record_key(f"{Path(self.file).name}:")
        with closing(stream.follow(topic)) as follower:
            while not stop.is_set():
                records = follower.poll()
                found.update(record.key for record in records if record.key and record.key.startswith(prefix))
                if follower.caught_up:
                    break
                if not records:
                    stop.wait(POLL_INTERVAL_S)
        return found

    def _describe_start_over(self) -> str:
        if self.settings.kafka is not None:
            return "set another LABELWATCH_TOPICS_PREFIX"
        path = self.settings.log.path
        own = path.parent.name == DEFAULT_LOG_FOLDER  # any other may hold what is not ours
        return f"stop the service and remove {path.parent if own else path}"


def _build_record_key(identity: str | None) -> bytes:
    return f"{SAMPLE_DATASET}/{identity}".encode()
