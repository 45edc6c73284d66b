"""Who changed what: the records of the audit topic."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field, StrictStr

from service.contracts.base import Message

AuditAction = Literal[
    "decision",
    "withdrawal",
    "settings",
    "training",
    "replay",
    "webhook-added",
    "webhook-removed",
    "webhook-retried",
    "webhook-paused",
    "webhook-resumed",
    "dead-letters",
    "key-created",
    "key-rotated",
    "key-revoked",
]
MAX_ACTOR_CHARS = 128
ActorKind = Literal["key", "user", "command", "anybody"]


class AuditRecord(Message):
    """One change. It refers to what was changed, and holds no text of sentences."""

    at: datetime
    actor: StrictStr | None = Field(
        default=None,
        max_length=MAX_ACTOR_CHARS,
        description="Name of the key, of the proxy's user, or of the operating system's user; null without keys",
    )
    actor_kind: ActorKind = Field(description="`command`: a command of labelwatch; `anybody`: a service without keys")
    action: StrictStr = Field(
        max_length=64,
        description="What was done: `decision`, `settings`, `key-revoked`, …; readers ignore unknown ones",
    )
    dataset: StrictStr | None = Field(default=None, max_length=64)
    subject: StrictStr | None = Field(
        default=None, max_length=512, description="Id of the sentence, or name of the key"
    )
    details: dict[str, StrictStr | int | bool | None] = Field(
        default_factory=dict, description="Such as the verdict of a decision, or the version of settings"
    )
    via: Literal["rest", "command"]
    request_id: StrictStr | None = Field(default=None, max_length=128)
