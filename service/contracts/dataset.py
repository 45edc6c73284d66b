"""How a dataset is judged."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.contracts.base import DatasetName, Message
from service.contracts.flag_policies import ConfidentPolicy, FlagPolicy


class DatasetSettings(Message):
    """How a dataset is judged; every process reads them from the same topic, each assessment names the version."""

    name: DatasetName = "default"
    version: int = 0
    scheme: Literal["iob1", "iob2", "biluo", "io"] | None = Field(default=None, description="None: as the model's")
    label_map: dict[str, str] = Field(default_factory=dict, description="Dataset's label or type to the model's")
    unmapped: Literal["reject", "unscored"] = "reject"
    method: str = "worst-token"
    token_score: str = "self-confidence"
    pooling: Literal["mean", "characters", "first"] | None = Field(default=None, description="None: as the model says")
    flag_policy: FlagPolicy = ConfidentPolicy()
    control_share: float = Field(default=0.0, ge=0, le=1, description="Share of unflagged sentences sent to review")
    forget_after_days: int | None = Field(default=None, ge=1)
    epoch: int = Field(default=0, ge=0, description="Raised to start the statistics anew")
    ranker: Literal["auto", "off"] = Field(default="auto", description="Whether reviewers' decisions order the queue")
    ranker_epoch: int = Field(default=0, ge=0, description="Raised to let the ranker forget earlier decisions")
