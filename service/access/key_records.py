"""Records of the keys topic: the newest record of a name counts."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import ValidationError

from service.contracts.access.key import StoredKey
from service.contracts.validation import to_invalid_input
from service.errors import InvalidInput
from service.log.codec import build_event_headers
from service.log.protocol import Output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.log.protocol import Record, RecordPosition

KEY_EVENT_TYPE: Final = "labelwatch.key.v1"


class KeyState(NamedTuple):
    """The key of a name, and the position of its record, on which the next change builds."""

    key: StoredKey | None = None
    position: RecordPosition | None = None


class StoredKeys:
    """The keys of the topic. A record that can't be read makes its key invalid: it may be a revocation."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._by_name: dict[str, KeyState] = {}
        self.unreadable: dict[str, str] = {}  # why, by name
        self.apply_records(records)

    def apply_records(self, records: Iterable[Record]) -> None:
        for record in records:
            name = (record.key or b"").decode(errors="replace")
            self.unreadable.pop(name, None)
            key: StoredKey | None = None
            if record.value is not None:
                try:
                    key = _read_key(record, name)
                except InvalidInput as error:
                    self.unreadable[name] = str(error)
            self._by_name[name] = KeyState(key, record.position)

    def copy(self) -> StoredKeys:
        other = StoredKeys()
        other._by_name, other.unreadable = dict(self._by_name), dict(self.unreadable)
        return other

    def get(self, name: str) -> KeyState:
        return self._by_name.get(name, KeyState())

    @property
    def keys(self) -> tuple[StoredKey, ...]:
        """All that can be read, also revoked ones, by name."""
        return tuple(state.key for _, state in sorted(self._by_name.items()) if state.key is not None)

    @property
    def active(self) -> tuple[StoredKey, ...]:
        return tuple(key for key in self.keys if key.is_active)

    @property
    def has_any(self) -> bool:
        """Whether the topic has ever had a key: then the service needs one, even if all are revoked."""
        return bool(self.keys or self.unreadable)


def _read_key(record: Record, name: str) -> StoredKey:
    try:
        key = StoredKey.model_validate_json(record.value or b"")
    except ValidationError as error:
        raise to_invalid_input(error) from None
    if key.name != name:
        raise InvalidInput(f"the record's key is {name!r}, its name is {key.name!r}")
    return key


def build_key_message(topic: str, key: StoredKey, *, request_id: str | None = None) -> Output:
    headers = build_event_headers(
        KEY_EVENT_TYPE, event_id=str(uuid.uuid4()), at=datetime.now(UTC), request_id=request_id
    )
    return Output(topic, key.name.encode(), key.model_dump_json(exclude_none=True).encode(), headers)
