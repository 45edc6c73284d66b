"""Writes changes of settings by commands, with their record of the audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.access.audit_log import get_command_actor, join_fields
from service.datasets.changes import write_change

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.datasets.changes import SettingsChange
    from service.log.protocol import Log
    from service.log.topics import Topics


def write_audited_change(log: Log, topics: Topics, change: SettingsChange, fields: Iterable[str]) -> None:
    """`fields`: the settings that the command changes."""
    settings = change.settings
    audit = get_command_actor().build_message(
        topics.audit,
        "settings",
        dataset=settings.name,
        version=settings.version,
        epoch=settings.epoch,
        fields=join_fields(fields),
    )
    write_change(log, topics.datasets, change, also=[audit])
