"""Keys and the audit trail on a real Kafka."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.access.audit_log import Actor, read_entries
from service.access.key_changes import create_key, revoke_key, write_key_change
from service.access.key_records import StoredKeys
from service.access.key_view import KeyView
from service.errors import ConflictError
from service.log.kafka.log import KafkaLog
from service.log.read import read_topic

if TYPE_CHECKING:
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

ACTOR = Actor("root", "command")


def follow_until(view: KeyView, count: int) -> None:
    """Until so many keys are valid."""
    while len(view.active) != count:
        view.step()


def test_keys_are_followed_and_changed_once(kafka_settings: KafkaSettings, kafka_topics: Topics) -> None:
    with closing(KafkaLog(kafka_settings)) as log, closing(KeyView(log, kafka_topics.keys)) as view:
        created = create_key(StoredKeys(), name="dana", role="reviewer", datasets=["med"], by="root")
        write_key_change(log, kafka_topics, created, ACTOR)
        with pytest.raises(ConflictError, match="changed by somebody else"):
            write_key_change(log, kafka_topics, create_key(StoredKeys(), name="dana", role="admin", by="x"), ACTOR)
        follow_until(view, 1)
        assert view.active == (created.key,)
        write_key_change(log, kafka_topics, revoke_key(view.copy_keys(), "dana", by="root"), ACTOR)
        follow_until(view, 0)
        assert view.has_any
        entries = read_entries(read_topic(log, kafka_topics.audit))
        # The change that was refused left no record: both are in one transaction.
        assert [(entry.record.action, entry.record.subject) for entry in entries] == [
            ("key-created", "dana"),
            ("key-revoked", "dana"),
        ]
