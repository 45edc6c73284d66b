"""Settings of the embedded log, topics, worker, model, log output and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from service.contracts import MAX_WORDS
from service.contracts.defaults import BATCH_RECORDS, MAX_DATASETS, MIN_WORDS, PRIOR_WORDS
from service.settings.base import SettingsGroup


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
    batch_records: int = Field(default=BATCH_RECORDS, ge=1, le=10_000, description="Most records of one commit")
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


class LoggingSettings(SettingsGroup):
    """What the service says on standard error."""

    format: Literal["console", "json"] = Field(default="console", description="For people, or one JSON object a line")
    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="What is said at least")


class MetricsSettings(SettingsGroup):
    open: bool = Field(default=False, description="/metrics needs no key")
    annotators: str = Field(
        default="", description="Comma separated names that may stand in metrics; `*`: the first few; none: nobody's"
    )
