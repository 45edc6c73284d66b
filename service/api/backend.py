"""The parts that the routes work with: built once at start, given to the app, never replaced."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from starlette.requests import HTTPConnection

from service.api.ingest.webhook_deliveries import WebhookDeliveries
from service.contracts import MAX_WORDS
from service.contracts.defaults import MIN_TRAINING_SENTENCES

if TYPE_CHECKING:
    from service.api.batching.batcher import MicroBatcher
    from service.api.ingest.log_appender import LogAppender
    from service.datasets.training_view import TrainingView
    from service.inference.model.pool import ModelPool
    from service.log.topics import Topics
    from service.review.projection.projector import ReviewProjector
    from service.review.queue.queue import ReviewQueue
    from service.settings import ApiSettings
    from service.stream.state.view import StateView
    from service.telemetry import Telemetry
    from service.telemetry.readiness import Conditions


# Converting records of platforms takes CPU, and threads share one interpreter: more of them would slow all other requests.
CONVERSION_THREADS = 2


def _create_conversion_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CONVERSION_THREADS, thread_name_prefix="conversion")


@dataclass(frozen=True)
class Backend:
    """`conditions`: by name why the service is not ready (empty: the condition holds); `degraded`: what does not work."""

    settings: ApiSettings
    state_view: StateView
    training_view: TrainingView
    batcher: MicroBatcher
    queue: ReviewQueue
    projector: ReviewProjector
    appender: LogAppender
    topics: Topics
    models: ModelPool
    telemetry: Telemetry
    max_words: int = MAX_WORDS
    auto_train: bool = False  # whether datasets that don't say so themselves are trained if no model fits them
    min_training_sentences: int = MIN_TRAINING_SENTENCES
    open_metrics: bool = False
    conditions: Conditions = dict
    degraded: Conditions = dict
    draining: threading.Event = field(default_factory=threading.Event)
    deliveries: WebhookDeliveries = field(default_factory=WebhookDeliveries)
    conversions: ThreadPoolExecutor = field(default_factory=_create_conversion_threads)


def get_backend(connection: HTTPConnection) -> Backend:
    return cast("Backend", connection.app.state.backend)


def get_request_id(connection: HTTPConnection) -> str:
    """The id of the request in its response, its log lines and the messages that it appends."""
    return cast("str", connection.state.request_id)
