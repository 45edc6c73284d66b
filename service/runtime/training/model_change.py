"""The change of settings that puts a trained model into use, with its record of the audit trail."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from service.access.audit_log import Actor
from service.datasets.changes import write_change
from service.errors import StreamError

if TYPE_CHECKING:
    from service.datasets.changes import SettingsChange
    from service.log.protocol import Log
    from service.log.topics import Topics

logger = logging.getLogger(__name__)

TRAINER: Final = Actor("trainer", "command")


def write_model_change(log: Log, topics: Topics, change: SettingsChange) -> None:
    """Writes the change, and then its record: an installation that was upgraded may lack the audit topic."""
    write_change(log, topics.datasets, change)
    settings = change.settings
    audit = TRAINER.build_message(
        topics.audit, "settings", dataset=settings.name, version=settings.version, fields="model", model=settings.model
    )
    try:
        log.append([audit])
    except StreamError as error:
        logger.warning(
            "%s uses the model %s now, without a record of the audit trail: %s", settings.name, settings.model, error
        )
