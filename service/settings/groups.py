"""Settings of the embedded log, topics, worker, model, log output and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from service.contracts import MAX_WORDS
from service.contracts.defaults import (
    BATCH_RECORDS,
    MAX_ANNOTATORS,
    MAX_DATASETS,
    MAX_LOADED_MODELS,
    MIN_TRAINING_SENTENCES,
    MIN_WORDS,
    PRIOR_WORDS,
)
from service.settings.base import SettingsGroup


class LogSettings(SettingsGroup):
    """The embedded log, used if no Kafka broker is set."""

    path: Path = Field(default=Path(".labelwatch/log.sqlite"), description="File of the embedded log: topics and state")
    max_bytes: int = Field(
        default=2_000_000_000, ge=1_000_000, description="Size above which the oldest records are removed"
    )
    max_age_days: float = Field(default=30, gt=0, description="Age at which records are removed")
    reserve_bytes: int = Field(
        default=100_000_000,
        ge=0,
        description="Free space on the disk of the embedded log, or of the review queue, below which nothing is written: "
        "requests that write get 503, and everything continues when there is space again",
    )


class TopicSettings(SettingsGroup):
    prefix: str = Field(
        default="labelwatch.", pattern=r"^[a-zA-Z0-9._-]{0,64}$", description="Prefix of every topic name"
    )
    sentences: str | None = Field(
        default=None,
        pattern=r"^[a-zA-Z0-9._-]{1,128}$",
        description="Input topic if it has another prefix, as after a cut-over to a replay; none: prefix + sentences",
    )
    partitions: int = Field(
        default=6, ge=1, le=1000, description="Partitions of the input topic that `labelwatch topics create` creates"
    )
    replication: int = Field(default=3, ge=1, le=15, description="Replicas of each partition")
    audit_days: float = Field(
        default=365,
        gt=0,
        description="Age at which records of the audit trail are removed; on Kafka when the topic is created",
    )
    min_isr: int = Field(default=2, ge=1, le=15, description="In-sync replicas that must confirm a write")


class WorkerSettings(SettingsGroup):
    id: str | None = Field(
        default=None,
        pattern=r"^[a-zA-Z0-9._-]{1,128}$",
        description="Fixed identity of the worker, such as the pod name in a StatefulSet",
    )
    group: str = Field(default="labelwatch", min_length=1, description="Consumer group of the workers")
    batch_records: int = Field(default=BATCH_RECORDS, ge=1, le=10_000, description="Maximum records per commit")
    max_words: int = Field(
        default=MAX_WORDS, ge=1, description="Maximum words per sentence; longer sentences become dead letters"
    )
    max_datasets: int = Field(
        default=MAX_DATASETS,
        ge=1,
        description="Maximum number of datasets; sentences of further ones without settings become dead letters",
    )
    max_annotators: int = Field(
        default=MAX_ANNOTATORS,
        ge=0,
        le=10_000,
        description="Annotators of a dataset that each partition counts by name; further ones are counted as `(other)`",
    )
    min_words: int = Field(default=MIN_WORDS, ge=0, description="A class with fewer words than this is warming up")
    prior_words: int = Field(
        default=PRIOR_WORDS, ge=0, description="Weight of the model's held-out mean in a threshold, in words"
    )
    publish_scores: bool = Field(default=False, description="Also write every assessment to the scores topic")
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port for /metrics, /healthz and /readyz of `labelwatch worker`; 0: any free port; none: off",
    )
    metrics_host: str = Field(default="127.0.0.1", min_length=1, description="Address that the metrics port listens on")


class ModelSettings(SettingsGroup):
    folder: Path | None = Field(
        default=None,
        description="Model folder, the name of a model in the registry, or `light`, a faster model that is included; none: the "
        "default model. Commands that run a model use it where `--model` is not given",
    )
    precision: Literal["fast", "exact"] = Field(
        default="fast",
        description="Graph of the model folder; `exact` gives the same answers on every CPU. `evaluate` and `model check` have "
        "`--precision` instead",
    )
    threads: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Threads of the onnxruntime session; commands on files have `--threads` instead",
    )
    providers: str = Field(
        default="cpu",
        max_length=200,
        description="Comma separated execution providers of onnxruntime, the preferred one first: cpu, cuda, tensorrt, "
        "openvino, coreml, directml, migraphx, or onnxruntime's own names, such as CUDAExecutionProvider. All workers of a stream "
        "must have the same. `score`, `train`, `evaluate`, `model check` and `replay` use them too; the trainer of the service "
        "runs on the CPU",
    )


class ModelsSettings(SettingsGroup):
    """The model registry: a folder of named model folders."""

    path: Path = Field(
        default=Path(".labelwatch/models"), description="Folder of the model registry; many processes may share it"
    )
    max_loaded: int = Field(
        default=MAX_LOADED_MODELS,
        ge=1,
        le=1000,
        description="Models of the registry in memory, beside the default model; the least recently used is closed",
    )


class TrainerSettings(SettingsGroup):
    """The trainer of `labelwatch up` and `labelwatch trainer`, which trains models from what the datasets have stored."""

    auto: bool | None = Field(
        default=None,
        description="Whether datasets that no model fits are trained if their `auto_train` is null; not set: under "
        "`labelwatch up` and `labelwatch trainer`. Set it for `labelwatch api` too, so that the console shows the same",
    )
    min_sentences: int = Field(
        default=MIN_TRAINING_SENTENCES, ge=1, description="Sentences of a dataset at which its first model is trained"
    )
    encoder: str | None = Field(
        default=None,
        description="Encoder folder, or `none` for hashed text features alone; not set: the encoder for English that comes "
        "with labelwatch",
    )
    threads: int = Field(default=1, ge=1, le=256, description="Threads of a training, which runs at low priority")
    timeout_s: float = Field(
        default=14_400,
        gt=0,
        description="Seconds after which a training is ended, and recorded as failed",
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port for /metrics, /healthz and /readyz of `labelwatch trainer`; 0: any free port; none: off",
    )
    metrics_host: str = Field(default="127.0.0.1", min_length=1, description="Address that the metrics port listens on")

    def is_auto(self, *, with_trainer: bool) -> bool:
        """Whether datasets that don't say so themselves are trained. `with_trainer`: the process has a trainer."""
        return with_trainer if self.auto is None else self.auto


class LoggingSettings(SettingsGroup):
    """The log output on standard error."""

    format: Literal["console", "json"] = Field(default="console", description="Text, or one JSON object per line")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is logged"
    )


class TracingSettings(SettingsGroup):
    """Spans for OpenTelemetry. The standard OTEL_* variables name the endpoint, sampler and resource."""

    enabled: bool = Field(
        default=False,
        description="Send spans of requests and worker batches with OTLP over HTTP; needs `labelwatch[otel]`",
    )


class MetricsSettings(SettingsGroup):
    open: bool = Field(default=False, description="Serve /metrics without a key")
    annotators: str = Field(
        default="",
        description="Comma separated annotators that metrics may name; `*`: the first few; none: no annotator",
    )
