"""Builds what sends and manages outgoing webhooks from the settings."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from service.errors import SettingsError
from service.notifications.admin import WebhookAdmin
from service.notifications.client import WebhookClient
from service.notifications.deliverer import Deliverer
from service.runtime.lifecycle.lease import open_lease
from service.runtime.open_log import open_log

if TYPE_CHECKING:
    import threading

    from service.api.backend import Backend
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.settings import Settings

NO_KEY = (
    "LABELWATCH_WEBHOOKS_KEY: outgoing webhooks need it: set it to at least 32 random characters, such as those of "
    "`openssl rand -base64 32`, for every process"
)


def build_client(settings: Settings) -> WebhookClient:
    return WebhookClient(allowed_hosts=settings.webhooks.hosts, timeout_s=settings.webhooks.timeout_s)


def build_admin(settings: Settings, log: Log, topics: Topics) -> WebhookAdmin:
    key = settings.webhooks.key.get_secret_value()
    if not key:
        raise SettingsError(NO_KEY)
    return WebhookAdmin(log, topics.webhooks, build_client(settings), key)


def run_deliverer(settings: Settings, backend: Backend, stop: threading.Event) -> None:
    """The thread `webhooks`: delivers if this process holds the lease, waits for it otherwise."""
    topics = backend.topics
    with closing(open_log(settings)) as log:
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
