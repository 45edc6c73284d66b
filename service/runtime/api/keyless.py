"""Whether the API may start without keys.

Without keys everybody who reaches the service may do everything. That is meant for one machine: on an address that others
reach, the service does not start without keys.
"""

from __future__ import annotations

import ipaddress
import logging
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from service.access.audit_log import Actor
from service.access.key_changes import create_key, write_key_change
from service.access.key_records import StoredKeys
from service.contracts.access.roles import CREATE_ADMIN_KEY
from service.errors import ConflictError, SettingsError, StreamError
from service.log.read import read_topic
from service.runtime.open_log import open_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.log.topics import Topics
    from service.settings import Settings

logger = logging.getLogger(__name__)

FIRST_KEY_NAME: Final = "admin"
FIRST_KEY_AUTHOR: Final = "labelwatch"


def prepare_keyless_start(settings: Settings, topics: Topics, address: str, announce: Callable[[str], None]) -> None:
    """Does nothing if there are keys or a proxy. Otherwise warns, creates a first key, or raises `SettingsError`.

    `address` is the one that the API listens on. `announce` gets the line with the first key.
    """
    api = settings.api
    if api.known_keys or api.proxy_networks:
        return
    is_local = ipaddress.ip_address(address).is_loopback
    if api.keyless == "generate":
        _ensure_first_key(settings, topics, announce)
    elif not is_local and api.keyless == "refuse":
        if not _has_stored_keys(settings, topics):
            raise SettingsError(
                f"LABELWATCH_API_HOST: everybody who reaches {api.host} could do everything, because there are no keys: "
                f"{CREATE_ADMIN_KEY}, or listen on 127.0.0.1, or set LABELWATCH_API_KEYLESS=allow if something else protects "
                "the service"
            )
    else:
        _warn_if_keyless(
            settings, topics, "everybody on this machine" if is_local else f"everybody who reaches {api.host}"
        )


def _warn_if_keyless(settings: Settings, topics: Topics, reach: str) -> None:
    """Looks into an embedded log. Kafka may take long to answer, and a log that can't be read is reported later."""
    state = "LABELWATCH_API_KEYS is empty: unless the log has keys,"
    if settings.kafka is None:
        with suppress(StreamError):
            if settings.log.path.exists() and _has_stored_keys(settings, topics):
                return
            state = "there are no keys:"
    logger.warning("%s %s may do everything; %s", state, reach, CREATE_ADMIN_KEY)


def _has_stored_keys(settings: Settings, topics: Topics) -> bool:
    with closing(open_log(settings)) as log:
        return StoredKeys(read_topic(log, topics.keys)).has_any


def _ensure_first_key(settings: Settings, topics: Topics, announce: Callable[[str], None]) -> None:
    with closing(open_log(settings)) as log:
        keys = StoredKeys(read_topic(log, topics.keys))
        if keys.has_any:
            return
        change = create_key(keys, name=FIRST_KEY_NAME, role="admin", by=FIRST_KEY_AUTHOR)
        try:
            write_key_change(log, topics, change, Actor(FIRST_KEY_AUTHOR, "command"))
        except ConflictError:  # another process that starts now has created it
            return
    announce(
        f"the first key, of an admin: {change.text} (it is shown only this once; create others with `labelwatch key new`, "
        f"then revoke it with `labelwatch key revoke --name {FIRST_KEY_NAME}`)"
    )
