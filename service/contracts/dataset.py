"""Settings of a dataset."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.contracts.base import DatasetName, Message
from service.contracts.flag_policies import ConfidentPolicy, FlagPolicy


class DatasetSettings(Message):
    """How a dataset is judged. Every process reads the settings from one topic; each assessment names their version."""

    name: DatasetName = "default"
    version: int = 0
    scheme: Literal["iob1", "iob2", "biluo", "io"] | None = Field(
        default=None, description="Scheme of the labels; null: the scheme of the model"
    )
    label_map: dict[str, str] = Field(
        default_factory=dict, description="Label or type of the dataset to a label or type of the model"
    )
    unmapped: Literal["reject", "unscored"] = Field(
        default="reject", description="Whether a sentence with an unmapped label is rejected, or the word unscored"
    )
    method: str = Field(default="worst-token", description="Sentence score")
    token_score: str = Field(default="self-confidence", description="Token score")
    pooling: Literal["mean", "characters", "first"] | None = Field(
        default=None, description="How subword probabilities become those of a word; null: as the model defines"
    )
    flag_policy: FlagPolicy = ConfidentPolicy()
    control_share: float = Field(default=0.0, ge=0, le=1, description="Share of unflagged sentences sent to review")
    forget_after_days: int | None = Field(
        default=None, ge=1, description="Days after which statistics are forgotten; null: never"
    )
    epoch: int = Field(default=0, ge=0, description="Raise it to start the statistics anew; it can only grow")
    ranker: Literal["auto", "off"] = Field(default="auto", description="Whether reviewers' decisions order the queue")
    ranker_epoch: int = Field(
        default=0, ge=0, description="Raise it to make the ranker forget earlier decisions; it can only grow"
    )
