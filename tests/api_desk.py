"""The API over a log in a folder and a tiny model: worker and queue are stepped by the test, only the mirror runs."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.backend import Backend
from service.api.batching.batcher import Batcher
from service.datasets.registry import Datasets
from service.log.protocol import Output
from service.log.sqlite.log import SqliteStream
from service.log.topics import Topics
from service.review.projection.projector import Projector
from service.review.queue.queue import Queue
from service.settings import ApiSettings
from service.stream.state.view import Mirror
from service.stream.worker.batch_processor import Assessor
from service.stream.worker.loop import Worker
from service.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fastapi import FastAPI

    from service.inference.classifier import Classifier

TOPICS = Topics()


@dataclass
class ApiDesk:
    backend: Backend
    log: SqliteStream
    worker: Worker
    projector: Projector
    app: FastAPI = field(init=False)
    client: TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.use()

    def use(self, **changed: Any) -> TestClient:
        """Serves with some parts of the backend changed."""
        self.backend = replace(self.backend, **changed)
        self.app = create_app(self.backend)
        self.client = TestClient(self.app, raise_server_exceptions=False)
        return self.client

    def limits(self, **changed: Any) -> TestClient:
        return self.use(settings=ApiSettings(**changed))

    def send(self, *sentences: dict[str, Any]) -> None:
        """Sentences through the stream, up to the queue."""
        self.log.append([Output(TOPICS.sentences, None, json.dumps(one).encode()) for one in sentences])
        self.worker.take_changes()
        while self.worker.step():
            pass
        self.project()

    def project(self) -> None:
        while self.projector.step():
            pass

    @contextmanager
    def projecting(self) -> Iterator[None]:
        """The queue keeps up by itself, as in the service; `project` is not for this time."""
        stop = threading.Event()

        def run() -> None:
            while not stop.is_set():
                self.projector.step()
                stop.wait(0.005)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def messages(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"null") for record in self.log.read(topic, 0, 10_000)]


@contextmanager
def api_desk(folder: Path, classifier: Classifier, **limits: Any) -> Iterator[ApiDesk]:
    log = SqliteStream(folder / "log.sqlite", TOPICS)

    def datasets() -> Datasets:
        return Datasets(classifier.folder, min_words=1, prior_words=0)

    known = datasets()
    worker = Worker(log, Assessor(classifier, known, TOPICS), known, TOPICS, poll_timeout=0.0)
    queue = Queue(folder / "queue.sqlite")
    projector = Projector(log, TOPICS, queue)
    mirror = Mirror(log, TOPICS, datasets())
    backend = Backend(
        settings=ApiSettings(**limits),
        mirror=mirror,
        batcher=Batcher(classifier),  # nobody asks it here
        queue=queue,
        projector=projector,
        stream=log,
        topics=TOPICS,
        classifier=classifier,
        telemetry=Telemetry(),
        max_words=50,
    )
    while not mirror.caught_up:
        mirror.step()
    projector.step()
    stop = threading.Event()
    thread = threading.Thread(target=mirror.run, args=(stop,))
    thread.start()
    try:
        yield ApiDesk(backend, log, worker, projector)
    finally:
        stop.set()
        thread.join()
        projector.close()
        queue.close()
        log.close()


def wait_for(condition: Callable[[], bool]) -> None:
    """Until a thread beside us has done what it must; only a hang takes as long as the limit."""
    waiting = threading.Event()
    for _ in range(3_000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not come true")
