"""Decisions of reviewers, what they were shown, and claims."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator

from service.contracts.assessment import Flag
from service.contracts.base import DatasetName, Message, parse_iso_time, validate_iso_time
from service.contracts.kinds import Reason, Verdict


class Shown(Message):
    """What the reviewer was shown. The decision stores it, because the item may be replaced and the topic is compacted."""

    labels: tuple[str, ...] = Field(default=(), description="The given labels")
    scores: tuple[float | None, ...] = Field(default=(), description="Weighted score of each word; null: unscored")
    doubtful: tuple[Flag, ...] = ()
    reason: Reason = "flagged"
    inclusion_probability: float | None = Field(
        default=None, description="Probability with which a control sentence was drawn", gt=0, le=1
    )
    method: str = "worst-token"
    annotator: str | None = None
    batch: str | None = Field(
        default=None,
        description="The delivery that the sentence was first sent in; null for a sentence annotated again",
    )
    ranker_epoch: int = 0


class BlindAnswer(Message):
    """What a reviewer answered while the decisions of others were hidden. Without a verdict: nothing."""

    verdict: Verdict | None = None
    labels: Annotated[tuple[StrictStr, ...], Field(fail_fast=True)] | None = None


class Decision(Message):
    """A reviewer's answer. The reviewer's last decision counts, if it is for the item's current revision."""

    dataset: DatasetName = "default"
    id: StrictStr = Field(min_length=1, max_length=512, description="Id of the sentence")
    revision: StrictInt = Field(
        default=0, ge=-(2**63), lt=2**63, description="Revision of the item that the reviewer saw"
    )
    reviewer: StrictStr = Field(min_length=1, max_length=128)
    verdict: Verdict
    labels: Annotated[tuple[StrictStr, ...], Field(fail_fast=True)] | None = Field(
        default=None, description="The corrected labels, one per word"
    )
    words: Annotated[tuple[StrictInt, ...], Field(fail_fast=True)] | None = Field(
        default=None, description="Indexes of the words with a wrong label"
    )
    decided_at: datetime | None = Field(
        default=None, description="Time of the decision; the service's clock if left out"
    )
    note: StrictStr | None = Field(default=None, max_length=2000)
    withdrawn: StrictBool = Field(
        default=False, description="The reviewer withdraws the decision: the item is open again"
    )
    adjudication: StrictBool = Field(
        default=False,
        description="It settles decisions of others that differ, and counts in their place. The reviewer's own "
        "independent decision stays beside it",
    )
    shown: Shown | None = Field(default=None, description="What the reviewer was shown; the service adds it")
    blind_answer: BlindAnswer | None = Field(
        default=None,
        description="The service adds it to a decision that is made, changed or withdrawn when the reviewer can see those of "
        "others: what the reviewer answered before that, which counts for agreement. null: the decision itself counts",
    )
    recorded_by: StrictStr | None = Field(
        default=None,
        max_length=128,
        description="The admin who sent the decision in the reviewer's name; the service sets it",
    )

    _iso = field_validator("decided_at", mode="before")(parse_iso_time)


class Claim(Message):
    """A reviewer has an item open: other reviewers get other items until the claim ends."""

    dataset: DatasetName = "default"
    id: StrictStr = Field(min_length=1, max_length=512, description="Id of the sentence")
    reviewer: StrictStr = Field(min_length=1, max_length=128)
    until: datetime | None = Field(default=None, description="End of the claim; null: the reviewer releases the item")
    recorded_by: StrictStr | None = Field(
        default=None, max_length=128, description="The admin who sent the claim in the reviewer's name"
    )

    _iso = field_validator("until", mode="before")(validate_iso_time)
