"""A worker that ends in the middle of a batch as `kill -9` would end it: run as a process by the conformance suite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from service.log.kafka.session import KafkaStream
from service.log.kafka.settings import KafkaSettings
from service.log.protocol import Output, Stream
from service.log.sqlite.log import SqliteStream
from service.log.topics import Topics
from tests.stream.steps import batch, gain, values, work

STATUS = 9


def opened(kind: str, topics: Topics, *where: str) -> Stream:
    if kind == "sqlite":
        (path,) = where
        return SqliteStream(Path(path), topics)
    settings, group, worker_id = where
    return KafkaStream(KafkaSettings.model_validate_json(settings), topics, group=group, worker_id=worker_id)


def main(kind: str, prefix: str, *where: str) -> None:
    topics = Topics(prefix)
    stream = opened(kind, topics, *where)
    gain(stream)
    polled = batch(stream, max_records=1)
    (value,) = values(polled)
    stream.commit(work(polled, [Output(topics.review, value, value)], {b"state": b"of " + (value or b"")}))
    batch(stream, max_records=1)
    os._exit(STATUS)


if __name__ == "__main__":
    main(*sys.argv[1:])
