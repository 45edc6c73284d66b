"""A worker that ends in the middle of a batch as `kill -9` would end it: run as a process by the conformance suite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from service.log.kafka.session import KafkaWorkerSession
from service.log.protocol import Output, WorkerSession
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.stream.steps import list_values, make_batch_result, poll_batch, wait_for_assignment

EXIT_STATUS = 9


def open_stream(kind: str, topics: Topics, *where: str) -> WorkerSession:
    if kind == "sqlite":
        (path,) = where
        return SqliteWorkerSession(Path(path), topics)
    settings, group, worker_id = where
    return KafkaWorkerSession(KafkaSettings.model_validate_json(settings), topics, group=group, worker_id=worker_id)


def main(kind: str, prefix: str, *where: str) -> None:
    topics = Topics(prefix)
    stream = open_stream(kind, topics, *where)
    wait_for_assignment(stream)
    polled = poll_batch(stream, max_records=1)
    (value,) = list_values(polled)
    stream.commit(make_batch_result(polled, [Output(topics.review, value, value)], {b"state": b"of " + (value or b"")}))
    poll_batch(stream, max_records=1)
    os._exit(EXIT_STATUS)


if __name__ == "__main__":
    main(*sys.argv[1:])
