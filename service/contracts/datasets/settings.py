"""Settings of a dataset."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictStr, field_validator

from service.contracts.base import MODEL_NAME_PATTERN, DatasetName, Message
from service.contracts.datasets.flag_policies import FlagPolicy
from service.contracts.defaults import MAX_LABEL_CHARS

MAX_LABEL_SET_TYPES = 1_000
MAX_TYPE_CHARS = 200
MAX_LABEL_MAP_ENTRIES = 1_000
MAX_OVERLAP = 10

EntityType = Annotated[StrictStr, Field(min_length=1, max_length=MAX_TYPE_CHARS)]
LabelName = Annotated[str, Field(max_length=MAX_LABEL_CHARS)]


class DatasetSettings(Message):
    """How a dataset is judged. Every process reads the settings from one topic; each assessment names their version."""

    name: DatasetName = "default"
    version: int = 0
    scheme: Literal["iob1", "iob2", "biluo", "io"] | None = Field(
        default=None, description="Scheme of the labels; null: the scheme of the model"
    )
    label_map: dict[LabelName, LabelName] = Field(
        default_factory=dict,
        max_length=MAX_LABEL_MAP_ENTRIES,
        description="Label or type of the dataset to a label or type of the model",
    )
    label_set: tuple[EntityType, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_LABEL_SET_TYPES,
        description="Entity types of the dataset, without prefixes; `O` is always in it. Other types of the model are "
        "never suggested, a label of another type is rejected. null: every type of the model",
    )
    learn_label_set: Literal["auto", "off"] = Field(
        default="auto",
        description="Without `label_set`: whether types of the model that no label of the dataset has are not "
        "suggested (auto), or suggested from the start (off)",
    )
    unmapped: Literal["reject", "unscored"] = Field(
        default="reject", description="Whether a sentence with an unmapped label is rejected, or the word unscored"
    )
    model: StrictStr | None = Field(
        default=None,
        pattern=MODEL_NAME_PATTERN,
        description="Model of the registry that judges the dataset; null: the default model of the service",
    )
    model_fingerprint: StrictStr | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description="Contents that the model must have, written when `model` is set; null: any contents",
    )
    method: str = Field(default="worst-token", description="Sentence score")
    token_score: str = Field(default="self-confidence", description="Token score")
    pooling: Literal["mean", "characters", "first"] | None = Field(
        default=None, description="How subword probabilities become those of a word; null: as the model defines"
    )
    flag_policy: FlagPolicy | None = Field(
        default=None,
        description="Which sentences go to review; null: the policy of the model (`confident`, or for a model that was "
        "trained on the team's own labels the 5 % with the lowest priority)",
    )
    control_share: float = Field(default=0.0, ge=0, le=1, description="Share of unflagged sentences sent to review")
    max_error_rate: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="The highest share of wrong sentences at which a batch is accepted; null: no limit is set",
    )
    forget_after_days: int | None = Field(
        default=None, ge=1, description="Days after which statistics are forgotten; null: never"
    )
    memory: Literal["auto", "documents", "off"] = Field(
        default="auto",
        description="Whether `priority` uses what was seen lately of the same words and patterns. documents: sentences of "
        "a document arrive together, so recent patterns count more and there is no longer history",
    )
    epoch: int = Field(default=0, ge=0, description="Raise it to start the statistics anew; it can only grow")
    ranker: Literal["auto", "off"] = Field(default="auto", description="Whether reviewers' decisions order the queue")
    ranker_epoch: int = Field(
        default=0, ge=0, description="Raise it to make the ranker forget earlier decisions; it can only grow"
    )
    overlap: int = Field(
        default=1,
        ge=1,
        le=MAX_OVERLAP,
        description="Independent decisions that an item needs, each by another reviewer. From 2 on reviewers do not see "
        "the decisions of others until the item has all of them, and decisions that differ go to adjudication",
    )
    auto_train: bool | None = Field(
        default=None,
        description="Whether the trainer trains a model from the dataset's own labels, and again as data grows. null: only "
        "where no model fits the labels, under `labelwatch up` and `labelwatch trainer`",
    )

    @field_validator("label_set")
    @classmethod
    def _check_unique(cls, types: tuple[str, ...] | None) -> tuple[str, ...] | None:
        seen: set[str] = set()
        for name in types or ():
            if name in seen:
                raise ValueError(f"it names {name!r} twice: name each type once")
            seen.add(name)
        return types
