"""One frozen tree of settings from LABELWATCH_* variables, read once at the edge and handed inwards.

    LABELWATCH_KAFKA_BOOTSTRAP_SERVERS=broker:9092   →   settings.kafka.bootstrap_servers

The first word after the prefix is the group. A value that can't be used is a SettingsError that names the variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableError

from service.contracts.validation import describe
from service.errors import SettingsError
from service.settings.api import ApiSettings
from service.settings.groups import (
    LoggingSettings,
    LogSettings,
    MetricsSettings,
    ModelSettings,
    ModelsSettings,
    TopicSettings,
    TracingSettings,
    TrainerSettings,
    WorkerSettings,
)
from service.settings.kafka import KafkaSettings
from service.settings.webhooks import WebhooksSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENV_PREFIX = "LABELWATCH_"
QUEUE_FILE_NAME = "queue.sqlite"
DELIVERIES_FILE_NAME = "deliveries.sqlite"


class Settings(BaseSettings):
    """All settings."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="_", env_nested_max_split=1, frozen=True, extra="forbid"
    )

    kafka: KafkaSettings | None = None
    log: LogSettings = LogSettings()
    topics: TopicSettings = TopicSettings()
    worker: WorkerSettings = WorkerSettings()
    model: ModelSettings = ModelSettings()
    models: ModelsSettings = ModelsSettings()
    trainer: TrainerSettings = TrainerSettings()
    api: ApiSettings = ApiSettings()
    logs: LoggingSettings = LoggingSettings()
    metrics: MetricsSettings = MetricsSettings()
    tracing: TracingSettings = TracingSettings()
    webhooks: WebhooksSettings = WebhooksSettings()

    @property
    def queue_path(self) -> Path:
        """The file of the review queue: beside the embedded log, unless a setting names another."""
        return self.api.queue_path or self.log.path.with_name(QUEUE_FILE_NAME)

    @property
    def deliveries_path(self) -> Path:
        """The file of the webhooks' deliveries: the API processes of one embedded log share it."""
        return (self.log.path if self.kafka is None else self.queue_path).with_name(DELIVERIES_FILE_NAME)


def read_settings() -> Settings:
    """Reads the environment. Raises a SettingsError that names the variable and says what to change."""
    try:
        return Settings()
    except ValidationError as error:
        # An unknown name first: it may be the misspelt name of a missing setting.
        first = min(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden")
        variable = ENV_PREFIX + "_".join(str(part) for part in first["loc"]).upper()
        problem = describe(first, show_input=False)  # the value may be a secret
        if first["type"] == "extra_forbidden":
            problem = "there is no such setting: correct the name or remove it"
        elif first["type"] == "missing":
            problem = "the other settings of its group need it: set it"
        raise SettingsError(f"{variable}: {problem}") from None
    except UnreadableError:  # a variable that names a whole group is read as JSON
        groups = ", ".join(f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields)
        raise SettingsError(
            f"one of {groups} is set: it is a group, set its settings instead, such as {ENV_PREFIX}WORKER_ID"
        ) from None


def find_unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables with the prefix that are no setting, such as misspelt ones. Reading the settings ignores them."""
    groups = tuple(f"{ENV_PREFIX}{name.upper()}_" for name in Settings.model_fields)
    return sorted(
        name for name in environment if name.upper().startswith(ENV_PREFIX) and not name.upper().startswith(groups)
    )
