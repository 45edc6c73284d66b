"""A file's sentences sent one after the other, as if somebody were annotating them: to see the service at work."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from typing import TYPE_CHECKING

from service.commands.send import Change, Source, message_of
from service.commands.streams import open_stream, topics_of
from service.errors import InvalidInput, StreamError
from service.formats import Options

if TYPE_CHECKING:
    import threading

    from service.settings import Settings

log = logging.getLogger(__name__)

DATASET = "sample"
ANNOTATORS = ("ada", "ben", "caro")  # so that what is shown by annotator has something to show
RETRY_PAUSE = 2.0


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
        sent = 0
        with closing(open_stream(self.settings, topics=topics)) as stream:
            for record in source.records():
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
            log.info("all %d sentences of %s are sent to %s", sent, self.file, topics.sentences)
        stop.wait()
