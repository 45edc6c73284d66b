"""What reviewers say: decisions, what they were about, and claims."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator

from service.contracts.assessment import Flag
from service.contracts.base import DatasetName, Message, validate_iso_time
from service.contracts.kinds import Reason


class Shown(Message):
    """What a reviewer decided about, kept with the decision: the item may be replaced, and the topic is compacted."""

    labels: tuple[str, ...] = Field(default=(), description="The given labels")
    scores: tuple[float | None, ...] = Field(default=(), description="Weighted score of each word; none: unscored")
    doubtful: tuple[Flag, ...] = ()
    reason: Reason = "flagged"
    inclusion_probability: float | None = Field(default=None, description="Of a control sentence", gt=0, le=1)
    method: str = "worst-token"
    annotator: str | None = None
    ranker_epoch: int = 0


class Decision(Message):
    """What a reviewer answers. The last one of a reviewer counts, as long as it is about the item's revision."""

    dataset: DatasetName = "default"
    id: StrictStr = Field(min_length=1, max_length=512, description="The sentence")
    revision: StrictInt = Field(default=0, ge=-(2**63), lt=2**63, description="Of the item that was looked at")
    reviewer: StrictStr = Field(min_length=1, max_length=128)
    verdict: Literal["error", "ok", "unsure"]
    labels: tuple[StrictStr, ...] | None = Field(default=None, description="The corrected labels, one a word")
    words: tuple[StrictInt, ...] | None = Field(default=None, description="Indexes of the words with a wrong label")
    decided_at: datetime | None = Field(default=None, description="The service's clock where left out")
    note: StrictStr | None = Field(default=None, max_length=2000)
    withdrawn: StrictBool = Field(default=False, description="Taken back: the item opens again")
    shown: Shown | None = Field(default=None, description="The service adds what the item held")

    _iso = field_validator("decided_at", mode="before")(validate_iso_time)


class Claim(Message):
    """An item somebody has open, so that others look at something else meanwhile."""

    dataset: DatasetName = "default"
    id: StrictStr = Field(min_length=1, max_length=512, description="The sentence")
    reviewer: StrictStr = Field(min_length=1, max_length=128)
    until: datetime | None = Field(default=None, description="None: let go")

    _iso = field_validator("until", mode="before")(validate_iso_time)
