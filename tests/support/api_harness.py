"""The API over a SQLite log and a tiny model. Only the state view has a thread; tests step the worker and the queue."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from starlette.testclient import TestClient

from service.access.audit_log import AuditView
from service.access.key_view import KeyView
from service.api.app import create_app
from service.api.backend import Backend
from service.api.batching.batcher import MicroBatcher
from service.api.ingest.log_appender import MAX_PENDING_APPENDS, LogAppender
from service.datasets.registry import DatasetRegistry
from service.datasets.training_view import TrainingView
from service.log.dead_letter_index import DeadLetterIndex
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import ReviewQueue
from service.settings import ApiSettings
from service.stream.state.view import StateView
from service.stream.worker.batch_processor import BatchProcessor
from service.stream.worker.loop import Worker
from service.telemetry import Telemetry
from tests.support.model_pools import make_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fastapi import FastAPI

    from service.inference.classifier import Classifier

TOPICS = Topics()


@dataclass
class ApiHarness:
    backend: Backend
    log: SqliteWorkerSession
    worker: Worker
    projector: ReviewProjector
    append_to: Any = field(init=False)
    app: FastAPI = field(init=False)
    client: TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.append_to = self.log
        self.serve_with()

    def serve_with(
        self, *, append_to: Any = None, max_pending: int = MAX_PENDING_APPENDS, **changed: Any
    ) -> TestClient:
        """Serves with some parts of the backend changed; `append_to`: what requests append to instead of the log."""
        self.backend = replace(self.backend, **changed)
        if append_to is not None or "settings" in changed:
            self.append_to = append_to or self.append_to
            timeout_s = self.backend.settings.timeout_s
            appender = LogAppender(self.append_to, request_timeout_s=timeout_s, max_pending=max_pending)
            self.backend = replace(self.backend, appender=appender)
        self.app = create_app(self.backend)
        self.client = TestClient(self.app, raise_server_exceptions=False)
        return self.client

    def serve_with_limits(self, **changed: Any) -> TestClient:
        return self.serve_with(settings=ApiSettings(**changed))

    def send(self, *sentences: dict[str, Any]) -> None:
        """Sentences through the stream, up to the queue."""
        self.log.append([Output(TOPICS.sentences, None, json.dumps(sentence).encode()) for sentence in sentences])
        self.worker.apply_rebalance()
        while self.worker.step():
            pass
        self.project()

    def project(self) -> None:
        while self.projector.step():
            pass

    @contextmanager
    def run_projector(self) -> Iterator[None]:
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

    def read_messages(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"null") for record in self.log.read(topic, 0, 10_000)]


@contextmanager
def api_harness(folder: Path, classifier: Classifier, **limits: Any) -> Iterator[ApiHarness]:
    """The registry of models is `folder / "models"`."""
    log = SqliteWorkerSession(folder / "log.sqlite", TOPICS)
    models = make_pool(classifier, folder / "models")

    def datasets() -> DatasetRegistry:
        return DatasetRegistry(models, min_words=1, prior_words=0)

    known = datasets()
    worker = Worker(log, BatchProcessor(models, known, TOPICS), known, TOPICS, poll_timeout=0.0)
    queue = ReviewQueue(folder / "queue.sqlite")
    projector = ReviewProjector(log, TOPICS, queue.file)
    state_view = StateView(log, TOPICS, datasets())
    training_view = TrainingView(log, TOPICS.models)
    key_view, audit_view = KeyView(log, TOPICS.keys), AuditView(log, TOPICS.audit)
    key_view.step()
    settings = ApiSettings(**limits)
    backend = Backend(
        settings=settings,
        state_view=state_view,
        training_view=training_view,
        key_view=key_view,
        audit_view=audit_view,
        batcher=MicroBatcher(classifier),  # its thread does not run here
        queue=queue,
        projector=projector,
        appender=LogAppender(log, request_timeout_s=settings.timeout_s),
        dead_letters=DeadLetterIndex(log, TOPICS),
        open_log=lambda: SqliteLog(folder / "log.sqlite", TOPICS),
        topics=TOPICS,
        models=models,
        telemetry=Telemetry(),
        max_words=50,
    )
    while not state_view.caught_up:
        state_view.step()
    projector.step()
    stop = threading.Event()
    threads = [threading.Thread(target=view.run, args=(stop,)) for view in (state_view, key_view, audit_view)]
    for thread in threads:
        thread.start()
    try:
        yield ApiHarness(backend, log, worker, projector)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        backend.dead_letters.close()
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
