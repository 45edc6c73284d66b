"""What all groups of settings share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """Settings that share the first word after the prefix, as LABELWATCH_WORKER_… do."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
