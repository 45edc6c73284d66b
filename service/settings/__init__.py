"""The settings, from LABELWATCH_* variables. They import only contracts and errors, so that reading them is cheap."""

from __future__ import annotations

from service.settings.api import ApiKey, ApiSettings
from service.settings.environment import ENV_PREFIX, Settings, find_unknown_variables, read_settings
from service.settings.groups import TopicSettings, WorkerSettings
from service.settings.kafka import KafkaSettings

__all__ = [
    "ENV_PREFIX",
    "ApiKey",
    "ApiSettings",
    "KafkaSettings",
    "Settings",
    "TopicSettings",
    "WorkerSettings",
    "find_unknown_variables",
    "read_settings",
]
