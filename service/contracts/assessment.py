"""Assessments: the verdict on a sentence and its words."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from service.contracts.base import Message
from service.contracts.kinds import EvidenceKind, Reason, SuspectKind
from service.contracts.sentence import AnnotatedSentence


class WordScore(Message):
    """The scores of one word, or the reason why it has none."""

    p_given: float | None = Field(default=None, description="Probability of the given label")
    score: float | None = Field(default=None, description="Token score; low is bad")
    priority: float | None = Field(
        default=None, description="The word's priority with memory; the lowest one is that of the sentence"
    )
    unscored: str | None = Field(default=None, description="Why the word has no scores")


class Flag(Message):
    """A word whose given label is doubtful by confident learning."""

    index: int = Field(description="Index of the word in the sentence, from 0")
    token: str
    given: str
    suggested: str = Field(description="Suggested label, in the names and the scheme of the dataset")
    p_given: float
    p_suggested: float
    threshold: float | None = Field(
        default=None, description="Threshold of the suggested class; null if the class has too little evidence"
    )


class EntitySpan(Message):
    start: int = Field(description="Index of the first word")
    end: int = Field(description="Index after the last word")
    type: str = Field(description="Entity type, in the names of the dataset")


class SuspectSpan(Message):
    """A doubtful entity: the given and the suggested span side by side."""

    kind: SuspectKind
    given_span: EntitySpan | None = None
    suggested_span: EntitySpan | None = None
    confidence: float


class Because(Message):
    """Earlier words of the dataset that are like the worst word, as they were counted before the sentence was judged."""

    index: int = Field(description="Index of the worst word")
    kind: EvidenceKind = Field(
        description="`mentions`: the same word lately, by what the model took it for; `older_mentions`: the same before "
        "that; `pattern`: words in the same surroundings, by their given labels"
    )
    words: int = Field(description="Number of these words")
    sentences: int = Field(description="Number of sentences that were looked at, the last ones before this")
    by_type: dict[str, float] = Field(
        default_factory=dict,
        description="Words per type, in the names of the dataset, most first, at most 5. Of mentions it is the sum of the "
        "model's probabilities, so it is not a whole number",
    )
    speaks: Literal["for", "against"] = Field(
        description="`for`: most of the words have the type of the given label; `against`: they have another"
    )


class ModelName(Message):
    name: str
    fingerprint: str


class Position(Message):
    topic: str
    partition: int
    offset: int


class Assessment(AnnotatedSentence):
    """The verdict on one sentence. Low is bad in `score` and `priority`; no number is rounded."""

    reason: Reason
    score: float | None = Field(
        default=None, description="Sentence score by the dataset's method; null if no word is scored"
    )
    method: str
    token_score: str
    priority: float | None = Field(
        default=None,
        description="Agreement-weighted worst token score, with what memory knows of the words: the order of the queue",
    )
    memory: Literal["partition", "merged"] | None = Field(
        default=None,
        description="The memory behind `priority`: of the sentence's own partition, or of all partitions added up; null: none",
    )
    weights: dict[str, float] = Field(
        default_factory=dict,
        description="Weight of each given label: the weighted score of a word is 1 - (1 - p_given) * weight, and the "
        "lowest one is the priority if there is no memory",
    )
    inclusion_probability: float | None = Field(
        default=None, gt=0, le=1, description="Probability with which a control sentence was drawn"
    )
    words: tuple[WordScore, ...] = ()
    flags: tuple[Flag, ...] = ()
    worst: Flag | None = Field(
        default=None, description="The word with the lowest weighted score, which sets the priority, flagged or not"
    )
    suspects: tuple[SuspectSpan, ...] = ()
    because: tuple[Because, ...] = Field(
        default=(),
        max_length=3,
        description="What earlier words say about the worst word; empty without memory of them",
    )
    thresholds: dict[str, float | None] = Field(
        default_factory=dict,
        description="Threshold of each class of the model that the sentence was judged with; null: too little evidence",
    )
    warming_up: tuple[str, ...] = Field(
        default=(), description="Classes of the model with too few words of the dataset so far"
    )
    unused_types: tuple[str, ...] = Field(
        default=(),
        description="Types of the model that no label of the dataset has so far: they are not suggested, and their "
        "probability goes to the other classes",
    )
    model: ModelName
    settings_version: int = 0
    position: Position | None = None
    scored_at: datetime | None = None
    request_id: str | None = None
