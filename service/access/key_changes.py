"""Creates, rotates and revokes keys, under REST and command line alike."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from service.access.key_records import StoredKeys, build_key_message
from service.access.key_text import generate_key, hash_key
from service.contracts.access.key import StoredKey
from service.contracts.access.roles import ADDRESS_ROLES, KEY_NAME_PATTERN, KEY_NAME_RULE
from service.contracts.base import DATASET_NAME_RULE, is_dataset_name
from service.errors import ConflictError, InvalidInput
from service.log.protocol import VersionConflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.access.audit_log import Actor
    from service.contracts.access.audit import AuditAction
    from service.contracts.access.roles import Role
    from service.log.protocol import Log, Output, RecordPosition
    from service.log.topics import Topics

MAX_KEYS: Final = 10_000
MAX_DATASETS_PER_KEY: Final = 100


class KeyChange(NamedTuple):
    """A change that is not written yet. `text`: the key itself, which is stored nowhere; none for a revocation."""

    key: StoredKey
    expected: RecordPosition | None
    text: str | None = None
    action: AuditAction = "key-created"


def create_key(keys: StoredKeys, *, name: str, role: Role, datasets: Sequence[str] = (), by: str) -> KeyChange:
    """A new key. The name must not have one that is valid. Raises `InvalidInput` or `ConflictError`."""
    check_key_fields(name, role, datasets)
    state = keys.get(name)
    if state.key is not None and state.key.is_active:
        raise ConflictError(f"{name} has a key already: rotate or revoke it, or choose another name", field="name")
    if len(keys.active) >= MAX_KEYS:
        raise ConflictError(f"there are {MAX_KEYS:,} keys already: revoke some first")
    text = generate_key()
    key = StoredKey(
        name=name,
        role=role,
        digest=hash_key(text),
        datasets=tuple(dict.fromkeys(datasets)),
        created_at=datetime.now(UTC),
        created_by=by,
    )
    return KeyChange(key, state.position, text)


def rotate_key(keys: StoredKeys, name: str, *, by: str) -> KeyChange:
    """A new key with the same name, role and datasets. The old one stops working."""
    old, position = _require_active(keys, name)
    text = generate_key()
    update = {"digest": hash_key(text), "created_at": datetime.now(UTC), "created_by": by}
    return KeyChange(old.model_copy(update=update), position, text, "key-rotated")


def revoke_key(keys: StoredKeys, name: str, *, by: str) -> KeyChange:
    """The key stops working. Its record stays."""
    old, position = _require_active(keys, name)
    return KeyChange(
        old.model_copy(update={"revoked_at": datetime.now(UTC), "revoked_by": by}), position, None, "key-revoked"
    )


def write_key_change(
    log: Log, topics: Topics, change: KeyChange, actor: Actor, *, audited: bool = True, timeout: float = 30.0
) -> None:
    """Writes the change, with its record of the audit trail.

    Raises `ConflictError` if somebody else has changed the key of this name in the meantime.
    """
    message = build_key_message(topics.keys, change.key, request_id=actor.request_id)
    try:
        log.append_if_unchanged(
            message,
            change.expected,
            also=[_build_audit_message(topics, change, actor)] if audited else [],
            timeout=timeout,
        )
    except VersionConflict:
        raise ConflictError(f"the key of {change.key.name} was changed by somebody else: look at it again") from None


def _build_audit_message(topics: Topics, change: KeyChange, actor: Actor) -> Output:
    key = change.key
    datasets = ", ".join(key.datasets) or None
    return actor.build_message(topics.audit, change.action, subject=key.name, role=key.role, datasets=datasets)


def check_key_fields(name: str, role: Role, datasets: Sequence[str]) -> None:
    if not re.fullmatch(KEY_NAME_PATTERN, name):
        raise InvalidInput(KEY_NAME_RULE, field="name")
    for dataset in datasets:
        if not is_dataset_name(dataset):
            raise InvalidInput(f"{dataset[:80]!r} can't be a dataset: {DATASET_NAME_RULE}", field="datasets")
    if len(datasets) > MAX_DATASETS_PER_KEY:
        raise InvalidInput(f"{len(datasets)} datasets, the limit is {MAX_DATASETS_PER_KEY}", field="datasets")
    if role in ADDRESS_ROLES and len(datasets) != 1:
        raise InvalidInput(f"name the one dataset of a key with the role `{role}`", field="datasets")


def _require_active(keys: StoredKeys, name: str) -> tuple[StoredKey, RecordPosition | None]:
    state = keys.get(name)
    if state.key is None or not state.key.is_active:
        raise InvalidInput(
            f"there is no valid key of the name {name[:64]!r}: `labelwatch key list` and GET /v1/keys show all",
            field="name",
        )
    return state.key, state.position
