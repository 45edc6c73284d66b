"""The audit trail: builds its records, and keeps the newest in memory for the API."""

from __future__ import annotations

import getpass
import os
import uuid
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import ValidationError

from service.contracts.access.audit import MAX_ACTOR_CHARS, AuditRecord
from service.log.codec import build_event_headers
from service.log.protocol import Output
from service.log.topic_view import TopicView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from service.contracts.access.audit import ActorKind, AuditAction
    from service.log.protocol import Log, Record

AUDIT_EVENT_TYPE: Final = "labelwatch.audit.v1"
MAX_RECORDS_IN_MEMORY: Final = 10_000
MAX_FIELDS_CHARS: Final = 1_000


def join_fields(names: Iterable[str]) -> str:
    """The names of changed settings as a detail of a record."""
    return ", ".join(sorted(names))[:MAX_FIELDS_CHARS]


class Actor(NamedTuple):
    """Who makes a change, and how."""

    name: str | None
    kind: ActorKind
    request_id: str | None = None

    def build_message(
        self,
        topic: str,
        action: AuditAction,
        *,
        dataset: str | None = None,
        subject: str | None = None,
        **details: Any,  # noqa: ANN401 - text, numbers and truth values
    ) -> Output:
        """The message that goes into the log together with the change."""
        now = datetime.now(UTC)
        record = AuditRecord(
            at=now,
            actor=self.name,
            actor_kind=self.kind,
            action=action,
            dataset=dataset,
            subject=subject,
            details=details,
            via="command" if self.kind == "command" else "rest",
            request_id=self.request_id,
        )
        headers = build_event_headers(AUDIT_EVENT_TYPE, event_id=str(uuid.uuid4()), at=now, request_id=self.request_id)
        return Output(topic, None, record.model_dump_json(exclude_none=True).encode(), headers)


def get_command_user() -> str:
    """The operating system's user who runs a command. In a container the number of the user may have no name."""
    try:
        return getpass.getuser()[:MAX_ACTOR_CHARS]
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return f"uid {os.getuid()}"


def get_command_actor() -> Actor:
    return Actor(get_command_user(), "command")


class AuditEntry(NamedTuple):
    """A record and its offset, which grows with time."""

    offset: int
    record: AuditRecord


class AuditFilter(NamedTuple):
    """Selects records; a field that is None selects all."""

    actor: str | None = None
    action: str | None = None
    dataset: str | None = None

    def matches(self, record: AuditRecord) -> bool:
        return all(
            wanted is None or wanted == value
            for wanted, value in zip(self, (record.actor, record.action, record.dataset), strict=True)
        )


def read_entries(records: Iterable[Record]) -> Iterator[AuditEntry]:
    """The records of the topic. Those that can't be read are skipped."""
    for record in records:
        try:
            yield AuditEntry(record.offset, AuditRecord.model_validate_json(record.value or b""))
        except ValidationError:
            continue


class AuditView(TopicView):
    """The newest records of the audit topic."""

    subject = "the audit trail"

    def __init__(self, log: Log, topic: str) -> None:
        super().__init__(log, topic)
        self._entries: deque[AuditEntry] = deque(maxlen=MAX_RECORDS_IN_MEMORY)

    def apply(self, records: Sequence[Record]) -> None:
        self._entries.extend(read_entries(records))

    def list_newest_first(self, selected: AuditFilter, *, before: int | None, limit: int) -> list[AuditEntry]:
        """At most `limit` entries with an offset below `before`."""
        with self.lock:
            entries = list(self._entries)
        found = (
            entry
            for entry in reversed(entries)
            if (before is None or entry.offset < before) and selected.matches(entry.record)
        )
        return [entry for entry, _ in zip(found, range(limit), strict=False)]
