"""The parts that the routes work with: built once at start, given to the app, never replaced."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from starlette.requests import HTTPConnection

from service.api.claims import PendingClaims
from service.api.ingest.webhook_deliveries import WebhookDeliveries
from service.api.reviewer_limit import AcceptedReviewers
from service.api.withdrawals import RecentDecisions
from service.contracts import MAX_WORDS
from service.contracts.defaults import MIN_TRAINING_SENTENCES
from service.notifications.unsent import UnsentWebhooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.access.audit_log import AuditView
    from service.access.key_view import KeyView
    from service.api.batching.batcher import MicroBatcher
    from service.api.ingest.log_appender import LogAppender
    from service.datasets.training_view import TrainingView
    from service.inference.model.pool import ModelPool
    from service.log.dead_letter_index import DeadLetterIndex
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.notifications.admin import WebhookAdmin
    from service.review.projection.projector import ReviewProjector
    from service.review.queue.queue import ReviewQueue
    from service.settings import ApiSettings
    from service.stream.state.view import StateView
    from service.telemetry import Telemetry
    from service.telemetry.readiness import Conditions
    from service.telemetry.tracing import Tracing


SMALL_BODY_THREADS: Final = 2


class ParsingThreads:
    """Threads that parse the bodies of requests.

    Parsing takes CPU, and threads share one interpreter: more of them would slow all other requests. Large bodies have a
    thread of their own, so that others do not wait for them.
    """

    def __init__(self) -> None:
        self.small = ThreadPoolExecutor(SMALL_BODY_THREADS, thread_name_prefix="parsing")
        self.large = ThreadPoolExecutor(1, thread_name_prefix="parsing-large")


@dataclass(frozen=True, kw_only=True)
class ScoringBackend:
    """What `POST /v1/score` works with: all that a scoring process has."""

    settings: ApiSettings
    state_view: StateView
    key_view: KeyView
    batcher: MicroBatcher
    models: ModelPool
    telemetry: Telemetry
    tracing: Tracing | None = None  # none: off
    max_words: int = MAX_WORDS
    open_metrics: bool = False
    draining: threading.Event = field(default_factory=threading.Event)
    parsing_threads: ParsingThreads = field(default_factory=ParsingThreads)


@dataclass(frozen=True, kw_only=True)
class Backend(ScoringBackend):
    """`conditions`: by name why the service is not ready (empty: the condition holds); `degraded`: what does not work."""

    training_view: TrainingView
    audit_view: AuditView
    queue: ReviewQueue
    projector: ReviewProjector
    appender: LogAppender
    dead_letters: DeadLetterIndex
    open_log: Callable[[], Log]  # for reading much: a log of its own, which the caller closes
    topics: Topics
    webhooks: WebhookAdmin | None = None  # none: outgoing webhooks are off
    unsent_webhooks: UnsentWebhooks = field(default_factory=UnsentWebhooks)
    auto_train: bool = False  # whether datasets that don't say so themselves are trained if no model fits them
    min_training_sentences: int = MIN_TRAINING_SENTENCES
    conditions: Conditions = dict
    degraded: Conditions = dict
    export_slot: threading.Semaphore = field(default_factory=threading.Semaphore)
    deliveries: WebhookDeliveries = field(default_factory=WebhookDeliveries)
    pending_claims: PendingClaims = field(default_factory=PendingClaims)
    recent_decisions: RecentDecisions = field(default_factory=RecentDecisions)
    accepted_reviewers: AcceptedReviewers = field(default_factory=AcceptedReviewers)

    @property
    def is_audited(self) -> bool:
        """Whether changes get a record of the audit trail. An installation that was upgraded may lack the topic."""
        return self.audit_view.caught_up or self.audit_view.error is None


def get_backend(connection: HTTPConnection) -> Backend:
    return cast("Backend", connection.app.state.backend)


def get_scoring_backend(connection: HTTPConnection) -> ScoringBackend:
    return cast("ScoringBackend", connection.app.state.backend)


def get_request_id(connection: HTTPConnection) -> str:
    """The id of the request in its response, its log lines and the messages that it appends."""
    return cast("str", connection.state.request_id)
