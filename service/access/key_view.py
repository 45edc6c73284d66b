"""Follows the keys topic in a thread of its own, so that every API process knows the keys that are valid now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.access.key_records import StoredKeys
from service.log.topic_view import TopicView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.access.key_records import KeyState
    from service.contracts.access.key import StoredKey
    from service.log.protocol import Log, Record


class KeyView(TopicView):
    """The keys of the topic. One thread follows it; any thread may ask.

    If the topic can't be read any more, the keys that were read stay valid.
    """

    subject = "the keys of the API"

    def __init__(self, log: Log, topic: str) -> None:
        super().__init__(log, topic)
        self._keys = StoredKeys()
        self._active: tuple[StoredKey, ...] = ()
        self._has_any = False

    def apply(self, records: Sequence[Record]) -> None:
        self._keys.apply_records(records)
        if records:
            self._active, self._has_any = self._keys.active, self._keys.has_any

    @property
    def active(self) -> tuple[StoredKey, ...]:
        return self._active

    @property
    def has_any(self) -> bool:
        """Whether the topic has ever had a key: then the service needs one, even if all are revoked."""
        return self._has_any

    @property
    def keys(self) -> tuple[StoredKey, ...]:
        with self.lock:
            return self._keys.keys

    def copy_keys(self) -> StoredKeys:
        """The keys as they are now, for a change that builds on them."""
        with self.lock:
            return self._keys.copy()

    def get(self, name: str) -> KeyState:
        with self.lock:
            return self._keys.get(name)

    def describe_unreadable(self) -> str:
        with self.lock:
            unreadable = dict(self._keys.unreadable)
        if not unreadable:
            return ""
        name = min(unreadable)
        more = f" (and {len(unreadable) - 1} more)" if len(unreadable) > 1 else ""
        return f"the stored key of {name!r} can't be read, so it is not valid: {unreadable[name]}{more}"
