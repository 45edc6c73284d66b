"""Deletes old records of the topics that are not compacted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.log.sqlite.database import LogDatabase
    from service.log.topics import Topics

PRUNE_DIVISOR = 10


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of the topics that are not compacted. The audit trail has an age of its own, and does not count as large. Records that the worker has not read are never deleted."""

    max_bytes: int | None = None
    max_age_ms: int | None = None
    max_audit_age_ms: int | None = None


def prune(database: LogDatabase, topics: Topics, retention: Retention, *, consumed_offset: int) -> None:
    """Deletes records past their age and, while the file is too large, the oldest tenth of every topic.

    Of the input it deletes only records before `consumed_offset`.
    """
    names = [spec.name for spec in topics.list_specs() if spec.cleanup_policy == "delete"]
    with database.write_transaction(frees_space=True):
        for name in names:
            next_offset = database.fetch_next_offset(name)
            limit = consumed_offset if name == topics.sentences else next_offset
            is_audit = name == topics.audit
            max_age_ms = retention.max_audit_age_ms if is_audit else retention.max_age_ms
            if max_age_ms is not None:
                oldest_ms = time.time_ns() // 1_000_000 - max_age_ms
                database.delete_before(name, limit, timestamp_ms=oldest_ms)
            if is_audit:
                continue
            if retention.max_bytes is not None and database.fetch_size_bytes() > retention.max_bytes:
                first_offset = database.fetch_first_offset(name)
                cut = first_offset + max(1, (next_offset - first_offset) // PRUNE_DIVISOR)
                database.delete_before(name, min(limit, cut))
    database.vacuum()
