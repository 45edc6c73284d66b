"""One frozen tree of settings from LABELWATCH_* variables, read once at the edge and handed inwards.

    LABELWATCH_KAFKA_BOOTSTRAP_SERVERS=broker:9092   →   settings.kafka.bootstrap_servers

The first word after the prefix is the group. What can't be used is a SettingsError that names the variable.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableError

from service.contracts import MAX_WORDS
from service.contracts.validation import describe
from service.datasets.registry import MAX_DATASETS
from service.errors import SettingsError
from service.inference.batch_plan import DEFAULT_BATCH_TOKENS
from service.log.kafka.settings import KafkaSettings
from service.statistics.thresholds import MIN_WORDS, PRIOR_WORDS
from service.stream.worker.loop import DEFAULT_BATCH_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

ENV_PREFIX = "LABELWATCH_"


class SettingsGroup(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class LogSettings(SettingsGroup):
    """The embedded log, used where no Kafka is named."""

    path: Path = Field(default=Path(".labelwatch/log.sqlite"), description="The file that holds topics and state")
    max_bytes: int = Field(default=2_000_000_000, ge=1_000_000, description="Size past which old records go")
    max_age_days: float = Field(default=30, gt=0, description="Age past which old records go")


class TopicSettings(SettingsGroup):
    prefix: str = Field(
        default="labelwatch.", pattern=r"^[a-zA-Z0-9._-]{0,64}$", description="Put before every topic name"
    )
    sentences: str | None = Field(
        default=None,
        pattern=r"^[a-zA-Z0-9._-]{1,128}$",
        description="Input topic where it has another prefix, as after a cut-over to a replay; none: prefix + sentences",
    )
    partitions: int = Field(default=6, ge=1, le=1000, description="Of the input, when `topics create` makes it")
    replication: int = Field(default=3, ge=1, le=15, description="Copies of each partition")
    min_isr: int = Field(default=2, ge=1, le=15, description="Copies that must be written before a write counts")


class WorkerSettings(SettingsGroup):
    id: str | None = Field(
        default=None,
        pattern=r"^[a-zA-Z0-9._-]{1,128}$",
        description="A fixed identity, such as a StatefulSet's pod name",
    )
    group: str = Field(default="labelwatch", min_length=1, description="Consumer group that shares the partitions")
    batch_records: int = Field(default=DEFAULT_BATCH_RECORDS, ge=1, le=10_000, description="Most records of one commit")
    max_words: int = Field(default=MAX_WORDS, ge=1, description="Longer sentences are dead letters")
    max_datasets: int = Field(default=MAX_DATASETS, ge=1, description="Datasets made without being set up, at most")
    min_words: int = Field(default=MIN_WORDS, ge=0, description="Own words under which a class is warming up")
    prior_words: int = Field(default=PRIOR_WORDS, ge=0, description="What the model's held-out mean is worth, in words")
    publish_scores: bool = Field(default=False, description="Write every assessment to the scores topic as well")
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port of /metrics, /healthz and /readyz of `labelwatch worker`; 0: any free one; none: off",
    )
    metrics_host: str = Field(default="127.0.0.1", min_length=1, description="Address that port listens on")


class ModelSettings(SettingsGroup):
    folder: Path | None = Field(default=None, description="Model folder; none: the default model")
    precision: Literal["fast", "exact"] = Field(default="fast", description="`exact` answers the same on every CPU")
    threads: int = Field(default=1, ge=1, le=256, description="Threads of the onnxruntime session")


KeyScope = Literal["read", "write"]


class ApiKey(NamedTuple):
    """A key that may call the API, by its hash."""

    name: str
    scope: KeyScope
    digest: str


_API_KEY_PATTERN = re.compile(r"(?P<name>[a-zA-Z0-9._-]{1,64}):(?P<scope>read|write):(?P<digest>[0-9a-fA-F]{64})")


class ApiSettings(SettingsGroup):
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8765, ge=0, le=65535, description="Port to listen on; 0: any that is free")
    keys: SecretStr = Field(
        default=SecretStr(""),
        description="Comma separated `name:scope:sha256` as `labelwatch key new` prints them; none: open to everybody",
    )
    cors_origins: str = Field(default="", description="Comma separated origins that browsers may call from; none: off")
    max_body_bytes: int = Field(default=16_000_000, ge=1_000, description="Largest JSON body of a request")
    max_stream_bytes: int = Field(default=1_000_000_000, ge=1_000, description="Largest NDJSON body of a request")
    max_streams: int = Field(default=64, ge=1, description="NDJSON bodies that are read at once, at most; more get 429")
    max_spool_bytes: int = Field(
        default=1_000_000_000,
        ge=1_000,
        description="Temporary files for clients that send NDJSON and read no answers yet, all together",
    )
    idle_s: float = Field(
        default=60.0, gt=0, description="Longest time that a client may neither send lines nor read answers"
    )
    max_line_bytes: int = Field(default=4_000_000, ge=1_000, description="Longest line of an NDJSON body")
    max_sentences: int = Field(default=1_000, ge=1, description="Most sentences or decisions of a JSON body")
    timeout_s: float = Field(default=30.0, gt=0, description="Longest time for an answer; streamed ones go on")
    queue_path: Path | None = Field(
        default=None, description="File of the review queue, which may be lost; none: beside the embedded log"
    )
    queue_sentences: int = Field(default=2_048, ge=1, description="Sentences that wait for the model, at most")
    max_delay_ms: float = Field(
        default=0.0,
        ge=0,
        description="Time an idle model waits for others to share a batch with; a busy one needs none",
    )
    batch_tokens: int = Field(default=DEFAULT_BATCH_TOKENS, ge=16, description="Padded tokens of one batch, at most")
    label_studio_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+\S*$", description="Address of Label Studio, for links back to tasks"
    )
    argilla_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+\S*$", description="Address of Argilla, for links back to records"
    )
    argilla_secrets: SecretStr = Field(
        default=SecretStr(""),
        description="Comma separated secrets of Argilla's webhooks; none: they need a key instead",
    )

    @field_validator("argilla_secrets")
    @classmethod
    def _check_webhook_secrets(cls, secrets: SecretStr) -> SecretStr:
        for one in _split_commas(secrets.get_secret_value()):
            bare = one.removeprefix("whsec_").rstrip("=")
            if len(bare) < 2 or len(bare) % 4 == 1 or not re.fullmatch(r"[A-Za-z0-9+/]+", bare):
                raise ValueError("a webhook's secret is base64, as Argilla shows it when the webhook is made")
        return secrets

    @field_validator("keys")
    @classmethod
    def _check_api_keys(cls, keys: SecretStr) -> SecretStr:
        names = [_parse_api_key(part).name for part in _split_commas(keys.get_secret_value())]
        if len(set(names)) < len(names):
            raise ValueError("two keys have the same name: give each its own")
        return keys

    @property
    def known_keys(self) -> tuple[ApiKey, ...]:
        return tuple(_parse_api_key(part) for part in _split_commas(self.keys.get_secret_value()))

    @property
    def webhook_secrets(self) -> tuple[str, ...]:
        return tuple(_split_commas(self.argilla_secrets.get_secret_value()))

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(origin.rstrip("/") for origin in _split_commas(self.cors_origins))


def _split_commas(text: str) -> list[str]:
    return [part for each in text.split(",") if (part := each.strip())]


def _parse_api_key(text: str) -> ApiKey:
    found = _API_KEY_PATTERN.fullmatch(text)
    if found is None:
        raise ValueError("give name:scope:sha256 with the scope read or write, as `labelwatch key new` prints it")
    scope: KeyScope = "write" if found["scope"] == "write" else "read"
    return ApiKey(found["name"], scope, found["digest"].lower())


class LoggingSettings(SettingsGroup):
    """What the service says on standard error."""

    format: Literal["console", "json"] = Field(default="console", description="For people, or one JSON object a line")
    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="What is said at least")


class MetricsSettings(SettingsGroup):
    open: bool = Field(default=False, description="/metrics needs no key")
    annotators: str = Field(
        default="", description="Comma separated names that may stand in metrics; `*`: the first few; none: nobody's"
    )


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="_", env_nested_max_split=1, frozen=True, extra="forbid"
    )

    kafka: KafkaSettings | None = None
    log: LogSettings = LogSettings()
    topics: TopicSettings = TopicSettings()
    worker: WorkerSettings = WorkerSettings()
    model: ModelSettings = ModelSettings()
    api: ApiSettings = ApiSettings()
    logs: LoggingSettings = LoggingSettings()
    metrics: MetricsSettings = MetricsSettings()


def read_settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        found = error.errors(include_url=False)
        first = min(found, key=lambda one: one["type"] != "extra_forbidden")  # misspelt, it may be the missing one
        variable = ENV_PREFIX + "_".join(str(part) for part in first["loc"]).upper()
        problem = describe(first, show_input=False)  # it may be a key
        if first["type"] == "extra_forbidden":
            problem = "there is no such setting: correct the name or remove it"
        elif first["type"] == "missing":
            problem = "it is needed for the others of its group: set it"
        raise SettingsError(f"{variable}: {problem}") from None
    except UnreadableError:  # a group given as a whole, which then must be JSON
        groups = ", ".join(f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields)
        raise SettingsError(
            f"one of {groups} is set by itself: set {ENV_PREFIX}WORKER_ID and the like instead"
        ) from None


def find_unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none, such as misspelt ones: they would be ignored without a word."""
    groups = tuple(f"{ENV_PREFIX}{name.upper()}_" for name in Settings.model_fields)
    return sorted(
        name for name in environment if name.upper().startswith(ENV_PREFIX) and not name.upper().startswith(groups)
    )
