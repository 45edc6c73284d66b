"""What the routes work with: made once by the command, handed to the app, never changed.

The parts are named by what the API asks of them, so that a test can put its own in their place.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from starlette.requests import HTTPConnection

from service.api.ingest.append_pool import Writers
from service.api.ingest.webhook_deliveries import Deliveries
from service.contracts import MAX_WORDS
from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.errors import InferenceError
    from service.inference.classifier import Classifier, WordProbs
    from service.inference.pooling import Pooling
    from service.log.protocol import Output, Spot
    from service.log.topics import Topics
    from service.review.items import ReviewItem
    from service.review.queue.overview import Overview
    from service.review.queue.queue import Page, QueueFilter
    from service.settings import ApiSettings
    from service.stream.state.view import Mirror
    from service.telemetry import Telemetry


APPEND_SHARE = 0.5  # of the time for an answer: who asks is told that the log does not answer, not that it took long


@dataclass(frozen=True, slots=True)
class Timing:
    """Where a request's time went, in seconds."""

    queue: float
    tokenize: float
    inference: float


@dataclass(frozen=True, slots=True)
class Inferred:
    """One answer a sentence, in the order they were given."""

    words: Sequence[WordProbs | InferenceError]
    timing: Timing


class Batcher(Protocol):
    """Runs the model for all requests together, on its own thread."""

    def run(self, stop: threading.Event) -> None: ...

    async def infer(
        self, sentences: Sequence[Sequence[str]], *, pooling: Pooling | None = None, wait: bool = False
    ) -> Inferred:
        """Raises `OverloadedError` where the queue is full, or with `wait` waits for room.

        Raises `DrainingError` where the service is about to stop.
        """

    @property
    def trouble(self) -> str:
        """Why the model can't be asked at this moment; empty where it can."""

    @property
    def waiting(self) -> int:
        """Sentences in the queue."""


class Queue(Protocol):
    """The review queue: a projection of topics. Read from any thread; `version` grows with every change."""

    version: int

    def page(self, filter: QueueFilter, *, limit: int, after: str | None = None) -> Page: ...  # noqa: A002 - as it is
    def item(self, dataset: str, id: str) -> ReviewItem | None: ...  # noqa: A002 - as the messages call it
    def of_task(self, dataset: str, platform: str, task: str) -> list[str]: ...
    def revisions(self, dataset: str, ids: Iterable[str]) -> Mapping[str, int]: ...
    def counts(self, dataset: str | None = None) -> Mapping[str, int]: ...
    def overview(self, dataset: str | None = None) -> Overview: ...


class Projector(Protocol):
    """Keeps the queue up with its topics, on its own thread."""

    def run(self, stop: threading.Event) -> None: ...

    @property
    def caught_up(self) -> bool: ...


class Appender(Protocol):
    """The part of a `Stream` that any thread may use."""

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None: ...
    def append_after(self, output: Output, seen: Spot | None, *, timeout: float = 30.0) -> None: ...


class GuardedLog:
    """The log for writers: while it is known not to answer, nobody is kept waiting for it."""

    def __init__(self, stream: Appender, mirror: Mirror) -> None:
        self._stream = stream
        self._mirror = mirror

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        self._check()
        self._stream.append(outputs, timeout=timeout)

    def append_after(self, output: Output, seen: Spot | None, *, timeout: float = 30.0) -> None:
        self._check()
        self._stream.append_after(output, seen, timeout=timeout)

    def _check(self) -> None:
        trouble = self._mirror.broker_trouble
        if trouble is not None:
            raise StreamError(trouble)


def _none() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Backend:
    """`conditions` says by name why the service is not ready (empty: it holds), `degraded` what it does without."""

    settings: ApiSettings
    mirror: Mirror
    batcher: Batcher
    queue: Queue
    projector: Projector
    stream: Appender
    topics: Topics
    classifier: Classifier
    telemetry: Telemetry
    max_words: int = MAX_WORDS
    open_metrics: bool = False
    conditions: Callable[[], Mapping[str, str]] = _none
    degraded: Callable[[], Mapping[str, str]] = _none
    draining: threading.Event = field(default_factory=threading.Event)
    writers: Writers = field(default_factory=Writers)
    deliveries: Deliveries = field(default_factory=Deliveries)

    async def append(self, outputs: Sequence[Output]) -> None:
        """The way from a request to the log."""
        await self._write(lambda left: self.stream.append(outputs, timeout=left))

    async def append_after(self, output: Output, seen: Spot | None) -> None:
        """The same for what must not be overtaken."""
        await self._write(lambda left: self.stream.append_after(output, seen, timeout=left))

    async def _write(self, write: Callable[[float], None]) -> None:
        await self.writers.run(write, timeout=APPEND_SHARE * self.settings.timeout_s)


def request_id_of(connection: HTTPConnection) -> str:
    """The request's own name: in its answer, its log lines and the messages that come of it."""
    return cast("str", connection.state.request_id)


def backend_of(connection: HTTPConnection) -> Backend:
    return cast("Backend", connection.app.state.backend)


async def backend_dependency(connection: HTTPConnection) -> Backend:
    """The same for routes. Not a plain function: those are called in threads, which may all be taken."""
    return backend_of(connection)
