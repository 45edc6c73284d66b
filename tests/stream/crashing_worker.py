"""A worker that ends in the middle of a batch, as after `kill -9`. The conformance suite runs it as a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from service.log.kafka.worker.session import KafkaWorkerSession
from service.log.protocol import Output, WorkerSession
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.settings.kafka import KafkaSettings
from tests.stream.steps import list_values, make_batch_result, poll_batch, wait_for_assignment

EXIT_STATUS = 9


def open_session(kind: str, topics: Topics, *arguments: str) -> WorkerSession:
    if kind == "sqlite":
        (path,) = arguments
        return SqliteWorkerSession(Path(path), topics)
    settings, group, worker_id = arguments
    return KafkaWorkerSession(KafkaSettings.model_validate_json(settings), topics, group=group, worker_id=worker_id)


def main(kind: str, prefix: str, *arguments: str) -> None:
    topics = Topics(prefix)
    session = open_session(kind, topics, *arguments)
    wait_for_assignment(session)
    batch = poll_batch(session, max_records=1)
    (value,) = list_values(batch)
    session.commit(make_batch_result(batch, [Output(topics.review, value, value)], {b"state": b"of " + (value or b"")}))
    poll_batch(session, max_records=1)
    os._exit(EXIT_STATUS)


if __name__ == "__main__":
    main(*sys.argv[1:])
