"""A file's sentences sent one after the other, as if somebody were annotating them: to see the service at work."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.stream.send import Change, Source, message_of
from service.errors import InvalidInput, StreamError
from service.formats import Options
from service.runtime.open_log import PAUSE, open_stream, topics_of

if TYPE_CHECKING:
    import threading

    from service.log.protocol import Stream
    from service.settings import Settings

log = logging.getLogger(__name__)

DATASET = "sample"
ANNOTATORS = ("ada", "ben", "caro")  # so that what is shown by annotator has something to show
RETRY_PAUSE = 2.0
OWN_FOLDER = ".labelwatch"


@dataclass(frozen=True, slots=True)
class Feed:
    """A thread for the supervisor; when the file is at its end it waits to be stopped."""

    settings: Settings
    file: str
    per_second: float

    def run(self, stop: threading.Event) -> None:
        topics = topics_of(self.settings)
        source = Source([self.file], None, Options(max_words=self.settings.worker.max_words), None)
        change = Change.of(dataset=DATASET, annotator=None, update=False)
        names = cycle(ANNOTATORS)
        sent = before = 0
        with closing(open_stream(self.settings, topics=topics)) as stream:
            there = self._there(stream, topics.sentences, stop)
            for record in source.records():
                if stop.is_set():
                    return
                if record.sentence is not None and _key(record.sentence.id) in there:
                    before += 1
                    continue
                told = {"annotator": next(names), "annotated_at": datetime.now(UTC)}
                sentence = record.sentence and record.sentence.model_copy(update=told)
                try:
                    message = message_of(replace(record, sentence=sentence), change, topics.sentences)
                except InvalidInput as error:
                    log.warning("skipped %s", error)
                    continue
                while not stop.is_set():
                    try:
                        stream.append([message])
                    except StreamError as error:
                        log.warning("a sentence of %s was not taken, it is sent again: %s", self.file, error)
                        stop.wait(RETRY_PAUSE)
                    else:
                        break
                if stop.wait(1 / self.per_second):
                    return
                sent += 1
        if sent or not before:
            log.info("all %d sentences of %s are sent to %s", sent + before, self.file, topics.sentences)
        else:
            log.info("%s was sent before: %s to start over", self.file, self._start_over())
        stop.wait()

    def _there(self, stream: Stream, topic: str, stop: threading.Event) -> set[bytes]:
        """Keys of what an earlier start has sent: every message teaches, so none is sent again."""
        while not stop.is_set():
            try:
                return self._keys(stream, topic, stop)
            except StreamError as error:
                log.warning("what was sent of %s before can't be read yet: %s", self.file, error)
                stop.wait(RETRY_PAUSE)
        return set()

    def _keys(self, stream: Stream, topic: str, stop: threading.Event) -> set[bytes]:
        found: set[bytes] = set()
        prefix = _key(f"{Path(self.file).name}:")
        with closing(stream.follow(topic)) as follower:
            while not stop.is_set():
                records = follower.poll()
                found.update(record.key for record in records if record.key and record.key.startswith(prefix))
                if follower.caught_up:
                    break
                if not records:
                    stop.wait(PAUSE)
        return found

    def _start_over(self) -> str:
        if self.settings.kafka is not None:
            return "set another LABELWATCH_TOPICS_PREFIX"
        path = self.settings.log.path
        own = path.parent.name == OWN_FOLDER  # any other may hold what is not ours
        return f"stop the service and remove {path.parent if own else path}"


def _key(identity: str | None) -> bytes:
    return f"{DATASET}/{identity}".encode()
