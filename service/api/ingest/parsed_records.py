"""The records of a request body after parsing, and the outcome of each for the response."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, Field
from pydantic_core import to_json

from service.contracts import LabelledSentence

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_SENTENCE_REASON: Final = (
    "nothing in it says how words are labelled: no annotation, a draft, or an event about something else"
)


class RecordSentence(BaseModel):
    """A sentence of a record."""

    id: str
    alignment: Literal["exact", "expanded"] | None = Field(
        default=None, description="Whether all spans end at word boundaries, or some were expanded to whole words"
    )
    given_offsets: Literal["utf-16"] | None = Field(
        default=None, description="The unit of the offsets, if it is not characters"
    )
    deleted: bool = Field(
        default=False, description="The annotation was deleted, skipped or rejected: there is nothing to score"
    )


class RecordOutcome(BaseModel):
    """The sentences of one record."""

    record: int = Field(description="Its number in the body, from 1")
    format: str
    sentences: list[RecordSentence]
    ignored: str | None = Field(default=None, description="Why it holds no sentence")


@dataclass(frozen=True, slots=True)
class ParsedRecord:
    """One record of a body. `location` is its path from the start of the body; None if it is the whole body."""

    number: int
    format: str
    sentences: tuple[LabelledSentence, ...]
    location: str | None = None

    def to_outcome(self) -> RecordOutcome:
        return RecordOutcome(
            record=self.number,
            format=self.format,
            sentences=[_to_record_sentence(sentence) for sentence in self.sentences],
            ignored=None if self.sentences else NO_SENTENCE_REASON,
        )

    def to_json_line(self) -> bytes:
        """The outcome of a record that is a line of an NDJSON body."""
        fields = self.to_outcome().model_dump(exclude_none=True)
        return to_json({"line": fields.pop("record"), **fields})


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """The records of a body, and the options that stand beside its list."""

    records: list[ParsedRecord]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentences(self) -> list[LabelledSentence]:
        return [sentence for record in self.records for sentence in record.sentences]

    def to_outcomes(self) -> list[RecordOutcome]:
        return [record.to_outcome() for record in self.records]


def ensure_id(sentence: LabelledSentence) -> LabelledSentence:
    return sentence if sentence.id is not None else sentence.model_copy(update={"id": str(uuid.uuid4())})


def _to_record_sentence(sentence: LabelledSentence) -> RecordSentence:
    meta = sentence.meta or {}
    return RecordSentence.model_validate(
        {
            "id": sentence.id,
            "alignment": meta.get("alignment") if meta.get("alignment") in ("exact", "expanded") else None,
            "given_offsets": "utf-16" if meta.get("given_offsets") == "utf-16" else None,
            "deleted": sentence.deleted,
        }
    )
