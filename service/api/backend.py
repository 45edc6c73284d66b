"""What the routes work with: made once by the command, handed to the app, never changed.

The parts are named by what the API asks of them, so that a test can put its own in their place.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from starlette.requests import HTTPConnection

from service.api.ingest.append_pool import AppendPool
from service.api.ingest.webhook_deliveries import WebhookDeliveries
from service.contracts import MAX_WORDS
from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.errors import InferenceError
    from service.inference.classifier import Classifier, WordProbs
    from service.inference.pooling import Pooling
    from service.log.protocol import Output, RecordPosition
    from service.log.topics import Topics
    from service.review.items import ReviewItem
    from service.review.queue.overview import Overview
    from service.review.queue.queue import QueueFilter, QueuePage
    from service.settings import ApiSettings
    from service.stream.state.view import StateView
    from service.telemetry import Telemetry


APPEND_TIMEOUT_SHARE = (
    0.5  # of the time for an answer: who asks is told that the log does not answer, not that it took long
)


@dataclass(frozen=True, slots=True)
class Timing:
    """Where a request's time went, in seconds."""

    queue: float
    tokenize: float
    inference: float


@dataclass(frozen=True, slots=True)
class BatchedInference:
    """One answer a sentence, in the order they were given."""

    answers: Sequence[WordProbs | InferenceError]
    timing: Timing


class Batcher(Protocol):
    """Runs the model for all requests together, on its own thread."""

    def run(self, stop: threading.Event) -> None: ...

    async def infer(
        self, sentences: Sequence[Sequence[str]], *, pooling: Pooling | None = None, wait: bool = False
    ) -> BatchedInference:
        """Raises `OverloadedError` where the queue is full, or with `wait` waits for room.

        Raises `DrainingError` where the service is about to stop.
        """

    @property
    def unavailable_reason(self) -> str:
        """Why the model can't be asked at this moment; empty where it can."""

    @property
    def waiting(self) -> int:
        """Sentences in the queue."""


class QueueReader(Protocol):
    """The review queue: a projection of topics. Read from any thread; `version` grows with every change."""

    version: int

    def get_page(self, filter: QueueFilter, *, limit: int, after: str | None = None) -> QueuePage: ...  # noqa: A002 - as it is
    def get_item(self, dataset: str, id: str) -> ReviewItem | None: ...  # noqa: A002 - as the messages call it
    def find_task_item_ids(self, dataset: str, platform: str, task: str) -> list[str]: ...
    def get_revisions(self, dataset: str, ids: Iterable[str]) -> Mapping[str, int]: ...
    def count_items(self, dataset: str | None = None) -> Mapping[str, int]: ...
    def build_overview(self, dataset: str | None = None) -> Overview: ...


class ProjectionRunner(Protocol):
    """Keeps the queue up with its topics, on its own thread."""

    def run(self, stop: threading.Event) -> None: ...

    @property
    def caught_up(self) -> bool: ...


class LogWriter(Protocol):
    """The part of a `Log` that any thread may use."""

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None: ...
    def append_if_unchanged(
        self, output: Output, expected: RecordPosition | None, *, timeout: float = 30.0
    ) -> None: ...


class FailFastLog:
    """The log for writers: while it is known not to answer, nobody is kept waiting for it."""

    def __init__(self, stream: LogWriter, state_view: StateView) -> None:
        self._stream = stream
        self._state_view = state_view

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        self._check_available()
        self._stream.append(outputs, timeout=timeout)

    def append_if_unchanged(self, output: Output, expected: RecordPosition | None, *, timeout: float = 30.0) -> None:
        self._check_available()
        self._stream.append_if_unchanged(output, expected, timeout=timeout)

    def _check_available(self) -> None:
        trouble = self._state_view.broker_error
        if trouble is not None:
            raise StreamError(trouble)


def _no_conditions() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Backend:
    """`conditions` says by name why the service is not ready (empty: it holds), `degraded` what it does without."""

    settings: ApiSettings
    state_view: StateView
    batcher: Batcher
    queue: QueueReader
    projector: ProjectionRunner
    stream: LogWriter
    topics: Topics
    classifier: Classifier
    telemetry: Telemetry
    max_words: int = MAX_WORDS
    open_metrics: bool = False
    conditions: Callable[[], Mapping[str, str]] = _no_conditions
    degraded: Callable[[], Mapping[str, str]] = _no_conditions
    draining: threading.Event = field(default_factory=threading.Event)
    append_pool: AppendPool = field(default_factory=AppendPool)
    deliveries: WebhookDeliveries = field(default_factory=WebhookDeliveries)

    async def append(self, outputs: Sequence[Output]) -> None:
        """The way from a request to the log."""
        await self._run_append(lambda left: self.stream.append(outputs, timeout=left))

    async def append_if_unchanged(self, output: Output, expected: RecordPosition | None) -> None:
        """The same for what must not be overtaken."""
        await self._run_append(lambda left: self.stream.append_if_unchanged(output, expected, timeout=left))

    async def _run_append(self, write: Callable[[float], None]) -> None:
        await self.append_pool.run(write, timeout=APPEND_TIMEOUT_SHARE * self.settings.timeout_s)


def get_request_id(connection: HTTPConnection) -> str:
    """The request's own name: in its answer, its log lines and the messages that come of it."""
    return cast("str", connection.state.request_id)


def get_backend(connection: HTTPConnection) -> Backend:
    return cast("Backend", connection.app.state.backend)


async def provide_backend(connection: HTTPConnection) -> Backend:
    """The same for routes. Not a plain function: those are called in threads, which may all be taken."""
    return get_backend(connection)
