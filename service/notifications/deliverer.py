"""Turns events into notifications and delivers them, at least once. One process of an installation does, by a lease.

A notification is first written to the webhooks topic, together with the positions that were read, then it is sent. It is
deleted from the topic when it is delivered. So a crash loses nothing, and a notification that is sent again has the same id.
"""

from __future__ import annotations

import logging
import random
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from service.errors import StreamError
from service.notifications.attempts import Attempt, update_status
from service.notifications.events import (
    LASTING_PROBLEMS,
    build_digest,
    count_new_items,
    find_decision_event,
    list_conditions,
    select_events,
)
from service.notifications.messages import build_body, build_headers, derive_secret
from service.notifications.sources import SourceTopics
from service.notifications.state import (
    NotificationState,
    build_condition_record,
    build_message_record,
    build_positions_record,
    build_status_record,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from service.contracts.notification import Notification, WebhookEndpoint
    from service.log.protocol import Follower, Log, Output, Record
    from service.log.topics import Topics
    from service.notifications.client import DeliveryResult, WebhookClient
    from service.notifications.events import BatchReader, DatasetView, Event

logger = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 1.0
RETRY_INTERVAL_S: Final = 5.0
MAX_PENDING: Final = 1_000  # of an endpoint; the oldest fail to make room
MAX_FAILED: Final = 1_000  # of an endpoint; the oldest are dropped
MAX_NEW: Final = MAX_PENDING + MAX_FAILED  # of an endpoint at once
MAX_SENT_AT_ONCE: Final = 100
THREADS: Final = 4
BACKOFF_S: Final = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200)  # about 28 hours in all
JITTER: Final = 0.2
QUEUE_FULL: Final = f"{MAX_PENDING} later notifications wait for this endpoint"


class Lease(Protocol):
    """Which process delivers."""

    @property
    def is_held(self) -> bool: ...
    def close(self) -> None: ...


class Deliverer:
    """One thread runs it."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        client: WebhookClient,
        *,
        master_key: str,
        view: DatasetView,
        queue: BatchReader,
        is_queue_complete: Callable[[], bool] = lambda: True,
        digest_s: float = 300.0,
        backoff_s: Sequence[float] = BACKOFF_S,
        on_outcome: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._log = log
        self._topics = topics
        self._client = client
        self._master_key = master_key
        self._view = view
        self._queue = queue
        self._is_queue_complete = is_queue_complete
        self._digest_interval = timedelta(seconds=digest_s)
        self._backoff_s = backoff_s
        self._on_outcome = on_outcome
        self._now = now
        self._state = NotificationState()
        self._follower: Follower | None = None
        self._sources = SourceTopics(log)
        self._last_digest_at: datetime | None = None
        self._running: dict[str, Future[list[Attempt]]] = {}
        self._not_before: dict[str, datetime] = {}  # endpoints that did not answer
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook")
        self.error: str | None = None

    # -- the thread ------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event, lease: Lease) -> None:
        try:
            while not stop.is_set():
                try:
                    if lease.is_held:
                        self.step()
                    else:
                        self.release()
                    self.error = None
                except StreamError as error:
                    if self.error is None:
                        logger.warning("notifications wait for the log: %s", error)
                    self.error = str(error)
                    self.release()
                    stop.wait(RETRY_INTERVAL_S)
                    continue
                stop.wait(POLL_INTERVAL_S)
        finally:
            lease.close()
            self.release()
            self._pool.shutdown(wait=True, cancel_futures=True)

    def release(self) -> None:
        """Forgets everything: another process may have gone on in the meantime."""
        follower, self._follower, self._state = self._follower, None, NotificationState()
        self._sources.close()
        if follower is not None:
            with suppress(StreamError):
                follower.close()

    def step(self) -> None:
        """Reads what is new, writes notifications for it, and starts deliveries that are due."""
        self._read_state()
        self._collect_attempts()
        if not self._state.list_active():
            self._forget_sources()
            return
        if self._view.caught_up:  # whether decisions are hidden depends on the settings
            self._read_decisions()
            self._digest()
        self._start_deliveries()

    def _read_state(self, *, is_newest_needed: bool = False) -> None:
        """`is_newest_needed`: reads what other processes have written until now, which on Kafka takes a request."""
        if self._follower is None:
            self._follower = self._log.follow(self._topics.webhooks)
        elif is_newest_needed:
            self._follower.renew_end()
        while True:
            records = self._follower.poll()
            for record in records:
                self._state.apply(record)
            if not records and self._follower.caught_up:
                return

    def _write(self, outputs: Iterable[Output]) -> None:
        written = list(outputs)
        if written:
            self._log.append(written)
            for output in written:
                self._state.apply(output)

    # -- events ----------------------------------------------------------------------------------------------------

    def _forget_sources(self) -> None:
        """Without an endpoint nothing is notified later: the next one starts with what comes after it."""
        topic, state = self._topics.webhooks, self._state
        self._write(build_positions_record(topic, name, None) for name in list(state.positions))
        self._write(build_condition_record(topic, name, None) for name in list(state.conditions))
        self._last_digest_at = None
        self._sources.close()

    def _read_source(self, topic: str) -> tuple[list[Record], dict[int, int]]:
        """The new records, and the positions after them."""
        # Without positions: an endpoint may be older than the first step that finds it.
        added_ms = min(map(self._state.get_start_ms, self._state.list_active()), default=0)
        return self._sources.read_new(topic, self._state.positions.get(topic), since_ms=added_ms)

    def _read_decisions(self) -> None:
        records, positions = self._read_source(self._topics.decisions)
        get_settings = self._view.get_settings
        events = [event for record in records if (event := find_decision_event(record, get_settings)) is not None]
        self._store(events, self._topics.decisions, positions)

    def _digest(self) -> None:
        """Notifies once per interval about new items and about conditions that have changed."""
        now = self._now()
        if self._last_digest_at is not None and now - self._last_digest_at < self._digest_interval:
            return
        is_first, is_queue_complete = self._topics.review not in self._state.positions, self._is_queue_complete()
        if is_first and not is_queue_complete:
            return  # whether a verdict is older than the endpoint is only known with a complete queue
        self._last_digest_at = now
        self._read_new_items()
        self._check_conditions(is_first=is_first, with_batches=is_queue_complete)

    def _read_new_items(self) -> None:
        records, positions = self._read_source(self._topics.review)
        self._store(build_digest(count_new_items(records), positions), self._topics.review, positions)

    def _store(self, events: Sequence[Event], topic: str, positions: dict[int, int]) -> None:
        """Notifications first, then the positions: after a crash between them the same notifications are written again."""
        if positions != self._state.positions.get(topic):
            outputs = [*self._notify(events), build_positions_record(self._topics.webhooks, topic, positions)]
            self._write(outputs)

    def _check_conditions(self, *, is_first: bool, with_batches: bool) -> None:
        """The first check after an endpoint was added learns what the conditions are: only a problem that lasts is news."""
        for condition in list_conditions(self._view, self._queue, self._state.conditions, with_batches=with_batches):
            event = condition.event
            is_news = event is not None and (not is_first or event.type in LASTING_PROBLEMS)
            outputs = self._notify([event] if event is not None and is_news else [])
            self._write([*outputs, build_condition_record(self._topics.webhooks, condition.name, condition.value)])

    def _notify(self, events: Sequence[Event]) -> list[Output]:
        """Notifications of the events for each endpoint, without those that would be dropped at once."""
        now = self._now()
        return [
            build_message_record(self._topics.webhooks, event.to_notification(endpoint, now))
            for endpoint in self._state.list_active()
            for event in select_events(events, endpoint, self._state.get_start_ms(endpoint))[-MAX_NEW:]
        ]

    # -- deliveries ------------------------------------------------------------------------------------------------

    def _start_deliveries(self) -> None:
        if any(self._list_due(endpoint) for endpoint in self._list_ready()):
            # An endpoint that was paused before an event must not get it, even if both came in this step.
            self._read_state(is_newest_needed=True)
        for endpoint in self._list_ready():
            self._limit_pending(endpoint.id)
            due = self._list_due(endpoint)
            if due:
                self._running[endpoint.id] = self._pool.submit(self._send_all, endpoint, due[:MAX_SENT_AT_ONCE])

    def _list_ready(self) -> list[WebhookEndpoint]:
        """Active endpoints that no delivery is under way to, and that are not waited for."""
        now = self._now()
        return [
            endpoint
            for endpoint in self._state.list_active()
            if endpoint.id not in self._running and now >= self._not_before.get(endpoint.id, now)
        ]

    def _list_due(self, endpoint: WebhookEndpoint) -> list[Notification]:
        if endpoint.paused:
            return []
        now = self._now()
        pending = self._state.list_messages(endpoint.id, failed=False)
        return [each for each in pending if each.next_attempt_at is None or each.next_attempt_at <= now]

    def _limit_pending(self, endpoint_id: str) -> None:
        self._fail(self._state.list_messages(endpoint_id, failed=False)[:-MAX_PENDING], QUEUE_FULL)

    def _send_all(self, endpoint: WebhookEndpoint, due: Sequence[Notification]) -> list[Attempt]:
        """In a thread of the pool. Without an answer the rest would wait for nothing too: it is tried later."""
        attempts = []
        for notification in due:
            attempts.append(Attempt(notification, self.send(endpoint, notification)))
            if attempts[-1].result.status is None:
                break
        return attempts

    def send(self, endpoint: WebhookEndpoint, notification: Notification) -> DeliveryResult:
        body = build_body(endpoint, notification)
        secret = derive_secret(self._master_key, endpoint.id)
        headers = build_headers(secret, notification.id, body, now=self._now())
        return self._client.send(endpoint.url, headers, body)

    def _collect_attempts(self) -> None:
        for endpoint_id, future in list(self._running.items()):
            if future.done():
                del self._running[endpoint_id]
                self._record(endpoint_id, future.result())

    def _record(self, endpoint_id: str, attempts: Sequence[Attempt]) -> None:
        if endpoint_id not in self._state.endpoints:
            return  # removed in the meantime
        for attempt in attempts:
            if attempt.result.is_delivered:
                self._on_outcome("delivered")
                self._write([build_message_record(self._topics.webhooks, attempt.notification, delivered=True)])
            else:
                self._postpone(attempt)
        self._update_status(endpoint_id, attempts)

    def _postpone(self, attempt: Attempt) -> None:
        notification, problem = attempt.notification, str(attempt.result.problem)
        tried = notification.attempts + 1
        if tried > len(self._backoff_s):
            self._fail([notification.model_copy(update={"attempts": tried})], problem)
            return
        self._on_outcome("retried")
        wait = self._backoff_s[tried - 1] * random.uniform(1 - JITTER, 1 + JITTER)
        next_attempt_at = self._now() + timedelta(seconds=wait)
        if attempt.result.status is None:
            self._not_before[notification.endpoint] = next_attempt_at
        update = {"attempts": tried, "last_error": problem, "next_attempt_at": next_attempt_at}
        self._write([build_message_record(self._topics.webhooks, notification.model_copy(update=update))])

    def _fail(self, notifications: Sequence[Notification], problem: str) -> None:
        """Moves notifications of an endpoint to the failed ones, of which the oldest are dropped."""
        if not notifications:
            return
        update = {"failed_at": self._now(), "last_error": problem, "next_attempt_at": None}
        failed = [each.model_copy(update=update) for each in notifications]
        for _ in failed:
            self._on_outcome("failed")
        before = self._state.list_messages(failed[0].endpoint, failed=True)
        dropped = [*before, *failed][:-MAX_FAILED]
        self._write(
            [
                *(build_message_record(self._topics.webhooks, each) for each in failed),
                *(build_message_record(self._topics.webhooks, each, delivered=True) for each in dropped),
            ]
        )

    def _update_status(self, endpoint_id: str, attempts: Sequence[Attempt]) -> None:
        before = self._state.get_status(endpoint_id)
        status = update_status(before, [attempt.result for attempt in attempts], self._now())
        if status.disabled_at is not None:
            waiting = self._state.list_messages(endpoint_id, failed=False)
            logger.error(
                "the webhook %s is disabled: %s. %d notifications failed; `labelwatch webhooks retry %s` enables it again",
                endpoint_id,
                status.last_error,
                len(waiting),
                endpoint_id,
            )
            self._fail(waiting, f"the endpoint is disabled: {status.last_error}")
        if status != before:
            self._write([build_status_record(self._topics.webhooks, endpoint_id, status)])
