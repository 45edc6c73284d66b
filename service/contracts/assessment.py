"""What goes out: what the service says of a sentence and its words."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from service.contracts.base import Message
from service.contracts.kinds import Reason, SuspectKind
from service.contracts.sentence import LabelledSentence


class WordScore(Message):
    """What is said of one word: its numbers, or why it has none."""

    p_given: float | None = None
    score: float | None = None
    unscored: str | None = None


class Flag(Message):
    """A word whose given label confident learning doubts."""

    index: int
    token: str
    given: str
    suggested: str = Field(description="As the dataset would write it: in its own names and scheme")
    p_given: float
    p_suggested: float
    threshold: float | None = Field(
        default=None, description="Threshold of the class that is suggested; none where it has no evidence yet"
    )


class EntitySpan(Message):
    start: int
    end: int = Field(description="Exclusive")
    type: str = Field(description="In the dataset's own names")


class SuspectSpan(Message):
    """The doubt said of an entity: given and suggested span side by side."""

    kind: SuspectKind
    given_span: EntitySpan | None = None
    suggested_span: EntitySpan | None = None
    confidence: float


class ModelName(Message):
    name: str
    fingerprint: str


class Position(Message):
    topic: str
    partition: int
    offset: int


class Assessment(LabelledSentence):
    """What the service says of one sentence. Low is bad in `score` and `priority`; nothing is rounded."""

    reason: Reason
    score: float | None = Field(default=None, description="The dataset's method; none where no word could be scored")
    method: str
    token_score: str
    priority: float | None = Field(default=None, description="Agreement-weighted worst token: what orders the queue")
    weights: dict[str, float] = Field(
        default_factory=dict,
        description="Given label to the weight of doubts about it; a word adds 1 - (1 - p_given) * weight to priority",
    )
    inclusion_probability: float | None = Field(
        default=None, gt=0, le=1, description="Of a control sentence: how likely it was to be drawn"
    )
    words: tuple[WordScore, ...] = ()
    flags: tuple[Flag, ...] = ()
    worst: Flag | None = Field(
        default=None, description="The word that set the priority, told as a flag would, flagged or not"
    )
    suspects: tuple[SuspectSpan, ...] = ()
    thresholds: dict[str, float | None] = Field(
        default_factory=dict,
        description="Class, as the model calls it, to the threshold it was judged with; none: too little evidence",
    )
    warming_up: tuple[str, ...] = Field(
        default=(), description="Classes, as the model calls them, with few words of the dataset so far"
    )
    model: ModelName
    settings_version: int = 0
    position: Position | None = None
    scored_at: datetime | None = None
    request_id: str | None = None
