"""Builds what sends and manages outgoing webhooks from the settings."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from service.errors import SettingsError
from service.notifications.admin import WebhookAdmin
from service.notifications.client import WebhookClient
from service.notifications.deliverer import Deliverer
from service.notifications.messages import NO_KEY
from service.notifications.state import read_notification_state
from service.notifications.unsent import describe_unsent
from service.runtime.lifecycle.lease import open_lease
from service.runtime.open_log import open_log

if TYPE_CHECKING:
    import threading

    from service.api.backend import Backend
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.settings import Settings


def build_client(settings: Settings, *, settings_owner: str = "the service") -> WebhookClient:
    return WebhookClient(
        allowed_hosts=settings.webhooks.hosts, timeout_s=settings.webhooks.timeout_s, settings_owner=settings_owner
    )


def check_key(settings: Settings) -> None:
    if not settings.webhooks.key.get_secret_value():
        raise SettingsError(NO_KEY)


def build_admin(settings: Settings, log: Log, topics: Topics, *, settings_owner: str = "the service") -> WebhookAdmin:
    """Without a key it does everything that needs no signature. `settings_owner`: whose settings errors speak of."""
    client = build_client(settings, settings_owner=settings_owner)
    return WebhookAdmin(log, topics.webhooks, client, settings.webhooks.key.get_secret_value())


def describe_unsent_webhooks(settings: Settings, log: Log, topics: Topics) -> str:
    """Why endpoints in the log get nothing; empty if they do, or if there are none."""
    if settings.webhooks.key.get_secret_value():
        return ""
    return describe_unsent(read_notification_state(log, topics.webhooks))


def run_webhooks(settings: Settings, backend: Backend, stop: threading.Event) -> None:
    """The thread `webhooks`: delivers if this process holds the lease, waits for it otherwise.

    Without a key it only looks whether there are endpoints that get nothing. On Kafka another process may send to them.
    """
    topics = backend.topics
    with closing(open_log(settings)) as log:
        if backend.webhooks is None:
            if settings.kafka is None:
                backend.unsent_webhooks.run(log, topics.webhooks, stop)
            stop.wait()
            return
        deliverer = Deliverer(
            log,
            topics,
            build_client(settings),
            master_key=settings.webhooks.key.get_secret_value(),
            view=backend.state_view,
            queue=backend.queue,
            is_queue_complete=lambda: backend.projector.caught_up,
            digest_s=settings.webhooks.digest_s,
            on_outcome=backend.telemetry.count_delivery,
        )
        deliverer.run(stop, open_lease(settings, topics.webhooks, name="webhooks"))
