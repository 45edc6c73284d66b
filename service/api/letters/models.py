"""The requests and answers about dead letters."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from service.log.dead_letter_index import LetterSummary

if TYPE_CHECKING:
    from service.log.dead_letters import DeadLetter

ADVICE: Final = {
    "decode": "Make it a JSON object with `tokens` and `labels`, and correct the producer.",
    "validate": "Correct the field that the reason names.",
    "labels": "Correct the label, or change the dataset's settings (its label set, label map or model) and replay it as it is.",
    "too_long": "Split the sentence: send its parts, each with an id of its own.",
    "inference": "Replay it once the cause is gone. If it fails alone again, shorten it.",
}
OTHER_ADVICE: Final = "Replay it once the cause is gone."


class Bytes(BaseModel):
    """Bytes as text if they are UTF-8, else in base64."""

    text: str | None = None
    base64: str | None = None

    @classmethod
    def build(cls, value: bytes) -> Bytes:
        try:
            return cls(text=value.decode())
        except UnicodeDecodeError:
            return cls(base64=base64.b64encode(value).decode())


class LetterItem(BaseModel):
    """A message that could not be assessed."""

    id: str = Field(description="Partition and offset in the topic of dead letters")
    at: datetime
    stage: str = Field(description="decode, validate, labels, too_long or inference")
    reason: str
    advice: str = Field(description="What to do")
    origin: str = Field(description="Topic, partition and offset that the message had")
    dataset: str | None = Field(description="Null if the message does not say it")
    sentence_id: str | None
    size: int = Field(description="Bytes of the message")
    preview: str | None = Field(description="How the message begins; null if it has no value")
    replayed: bool = Field(description="Whether it was sent to the input topic again")

    @classmethod
    def build(cls, summary: LetterSummary, *, replayed: bool) -> LetterItem:
        partition, offset = summary.position
        return cls(
            id=f"{partition}-{offset}",
            at=datetime.fromtimestamp(summary.timestamp_ms / 1000, UTC),
            stage=summary.stage,
            reason=summary.reason,
            advice=ADVICE.get(summary.stage, OTHER_ADVICE),
            origin=summary.origin,
            dataset=summary.dataset,
            sentence_id=summary.sentence_id,
            size=summary.size,
            preview=summary.preview,
            replayed=replayed,
        )


class LetterGroup(BaseModel):
    """Letters with the same stage and reason that were not sent again."""

    stage: str
    reason: str
    letters: int


class LetterPage(BaseModel):
    items: list[LetterItem] = Field(description="The newest first")
    next: str | None = Field(description="Value of `after` for the next page; null on the last page")
    total: int = Field(description="How many letters the filter selects")
    groups: list[LetterGroup] = Field(description="The most frequent reasons of selected letters that wait")
    older: int = Field(description="Older letters that are only in the log: `labelwatch dead-letters list`")


class LetterDetails(LetterItem):
    key: Bytes | None
    value: Bytes | None = Field(description="The original message; null if it has none")
    headers: list[tuple[str, Bytes]] = Field(description="Headers of the producer")
    problem: str | None = Field(description="Why it would be a dead letter again; null if it would be assessed now")
    field: str | None = Field(description="The field that `problem` is about")

    @classmethod
    def build_details(
        cls, letter: DeadLetter, *, replayed: bool, problem: str | None, field: str | None
    ) -> LetterDetails:
        record = letter.record
        item = LetterItem.build(LetterSummary.build(letter), replayed=replayed)
        return cls(
            **item.model_dump(),
            key=None if record.key is None else Bytes.build(record.key),
            value=None if record.value is None else Bytes.build(record.value),
            headers=[(name, Bytes.build(value)) for name, value in letter.original_headers],
            problem=problem,
            field=field,
        )


class ReplayRequest(BaseModel):
    """The corrected sentence; without one, the message is sent byte for byte."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"sentence": {"tokens": ["Riga"], "labels": ["B-LOC"]}}]})

    sentence: dict[str, Any] | None = None
    again: StrictBool = Field(default=False, description="Send it although it was sent again before")
    dry_run: StrictBool = Field(default=False, description="Check it without sending it")


class ReplayAnswer(BaseModel):
    id: str
    state: Literal["replayed", "valid"] = Field(description="`valid`: a dry run found nothing wrong")
    dataset: str
    sentence_id: str | None
    request_id: str


class BulkReplayRequest(BaseModel):
    """Which letters to replay: those that match all of these, were not sent again, and would be assessed now."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"stage": "labels", "dataset": "news", "dry_run": True}]})

    dataset: StrictStr | None = None
    stage: StrictStr | None = Field(default=None, max_length=64)
    reason: StrictStr | None = Field(default=None, max_length=1_000, description="The whole reason")
    dry_run: StrictBool = Field(default=False, description="Count them without sending any")


class BulkReplayAnswer(BaseModel):
    replayed: int = Field(description="Letters that were sent, or with `dry_run` would be")
    invalid: int = Field(description="Letters that would be dead letters again: they are left alone")
    problems: list[str] = Field(description="The first problems of these")
    remaining: int = Field(description="Letters that a further request has to look at")
    request_id: str
