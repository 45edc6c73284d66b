"""A review item as reviewers see it.

A control sentence looks like a flagged one until it is decided. Nothing is flagged in it, so its worst word takes the place
of a flag, and its suspect is derived from that word. `projection.control_sample` says how its numbers are hidden.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PrivateAttr

from service.contracts import (
    Assessment,
    Because,
    BlindAnswer,
    DatasetName,
    Decision,
    EntitySpan,
    Flag,
    Message,
    ModelName,
    Reason,
    Shown,
    SuspectKind,
    SuspectSpan,
    WordScore,
)
from service.errors import UnknownLabelError
from service.labels import OUTSIDE, Scheme, Span, get_entity_type, parse_spans
from service.review.decisions import Agreement, get_time_order
from service.review.likelihood import Likelihood

if TYPE_CHECKING:
    from collections.abc import Sequence

ItemState = Literal["open", "adjudication", "decided", "closed"]
ITEM_STATES: tuple[ItemState, ...] = ("open", "adjudication", "decided", "closed")
MAX_SHOWN_DECISIONS = 20
# The state of a message that only says that a task was deleted. It is no item: it is not shown and not counted.
TASK_DELETION_STATE = "none"
HIDDEN_UNTIL_DECIDED = "None: hidden until the item is decided"


class ReviewFlag(Message):
    """A word whose given label is in doubt."""

    index: int
    token: str
    given: str
    suggested: str = Field(description="In the dataset's own names and scheme")
    p_given: float | None = Field(default=None, description=HIDDEN_UNTIL_DECIDED)
    p_suggested: float | None = Field(default=None, description=HIDDEN_UNTIL_DECIDED)
    threshold: float | None = Field(
        default=None, description="Threshold of the suggested class; None while it has too little evidence"
    )


class ReviewSuspect(Message):
    """An entity in doubt: the given and the suggested span side by side."""

    kind: SuspectKind
    given_span: EntitySpan | None = None
    suggested_span: EntitySpan | None = None
    confidence: float | None = Field(default=None, description=HIDDEN_UNTIL_DECIDED)


class ReviewItem(Message):
    """One sentence of the queue. Low is bad in `rank`, `priority` and `score`; the queue is sorted by `rank`.

    Until it is decided, a control sentence shows the rank, priority and score of its position in the queue, not its own.
    """

    dataset: DatasetName
    id: str
    revision: int
    state: ItemState
    closed_by: Literal["update", "deleted"] | None = None
    blind: bool = Field(
        default=False,
        description="Whether probabilities are hidden until it is decided, because the dataset has a control sample",
    )
    rank: float = Field(description="The order of the queue: from the ranker where it is on, else the priority")
    likelihood: Likelihood = Field(
        default="may_be_right",
        description="How likely it is wrong, by its rank: from the dataset's decisions once there are enough",
    )
    priority: float | None = None
    score: float | None = None
    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    document: str | None = None
    batch: str | None = None
    annotator: str | None = None
    source: str | None = None
    annotated_at: datetime | None = None
    scored_at: datetime | None = None
    doubtful: tuple[ReviewFlag, ...] = Field(default=(), description="Words in doubt, in the order of the sentence")
    suspects: tuple[ReviewSuspect, ...] = ()
    because: tuple[Because, ...] = Field(
        default=(),
        description="What earlier words of the dataset say about the worst word; empty until it is decided if it is blind",
    )
    words: tuple[WordScore, ...] = ()
    thresholds: dict[str, float | None] = Field(default_factory=dict)
    warming_up: tuple[str, ...] = ()
    model: ModelName
    method: str
    token_score: str
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    overlap: int = Field(default=1, description="Independent decisions that the item needs")
    decision_count: int = Field(
        default=0, description="Reviewers with a decision in force about this revision, also if it is hidden"
    )
    decisions: tuple[Decision, ...] = Field(
        default=(),
        description="Decisions in force about this revision, by reviewer. Until the item has as many as it needs, only that "
        f"of the reviewer who asks. At most {MAX_SHOWN_DECISIONS}, the first to decide: `decision_count` counts all",
    )
    agreement: Agreement | None = Field(
        default=None, description="Only where two or more reviewers are sure; hidden as long as their decisions are"
    )
    reason: Reason | None = Field(default=None, description="Why it is in the queue; hidden until it is decided")
    inclusion_probability: float | None = Field(
        default=None, description="Probability of being in the queue; hidden until it is decided"
    )

    _shown: Shown | None = PrivateAttr(default=None)
    _blind_answer: BlindAnswer | None = PrivateAttr(default=None)

    @property
    def shown(self) -> Shown:
        """What a decision about this item records of it. Not part of the body: it would reveal control sentences."""
        return self._shown or Shown(labels=self.labels, method=self.method, annotator=self.annotator, batch=self.batch)

    @property
    def blind_answer(self) -> BlindAnswer | None:
        """What a decision of the viewer records of their earlier answer (see `blind_answers`)."""
        return self._blind_answer

    def with_record(self, shown: Shown, blind_answer: BlindAnswer | None) -> ReviewItem:
        """With what a decision about the item records."""
        self._shown, self._blind_answer = shown, blind_answer
        return self


def select_visible_decisions(
    in_force: Sequence[Decision], viewer: str | None, *, complete: bool
) -> tuple[Decision, ...]:
    """The decisions that a reviewer is shown. They stay hidden from others until the item is `complete`: has them all."""
    own = [decision for decision in in_force if decision.reviewer == viewer]
    if not complete:
        return _hide_shown(own)
    others = sorted((decision for decision in in_force if decision.reviewer != viewer), key=get_time_order)
    last_adjudications = reversed([decision for decision in others if decision.adjudication])
    independent = [decision for decision in others if not decision.adjudication]
    kept = [*own, *last_adjudications, *independent][:MAX_SHOWN_DECISIONS]
    return _hide_shown(sorted(kept, key=lambda each: (each.reviewer, each.adjudication)))


def _hide_shown(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    return tuple(decision.model_copy(update={"shown": None, "blind_answer": None}) for decision in decisions)


def select_flags(assessment: Assessment) -> tuple[Flag, ...]:
    """The flags, or the worst word of a sentence without any."""
    if assessment.flags:
        return assessment.flags
    return () if assessment.worst is None else (assessment.worst,)


def select_suspects(assessment: Assessment) -> tuple[SuspectSpan, ...]:
    if assessment.flags or assessment.worst is None:
        return assessment.suspects
    return _derive_suspects(assessment.worst, assessment.labels)


def to_review_flags(assessment: Assessment, *, blind: bool) -> tuple[ReviewFlag, ...]:
    hidden = {"p_given", "p_suggested"} if blind else set()
    return tuple(ReviewFlag(**flag.model_dump(exclude=hidden)) for flag in select_flags(assessment))


def to_review_suspects(assessment: Assessment, *, blind: bool) -> tuple[ReviewSuspect, ...]:
    hidden = {"confidence"} if blind else set()
    return tuple(ReviewSuspect(**suspect.model_dump(exclude=hidden)) for suspect in select_suspects(assessment))


def to_review_words(assessment: Assessment, *, blind: bool) -> tuple[WordScore, ...]:
    if not blind:
        return assessment.words
    return tuple(WordScore(unscored=word.unscored) for word in assessment.words)


def _derive_suspects(flag: Flag, labels: Sequence[str]) -> tuple[SuspectSpan, ...]:
    """The suspect that one doubtful word amounts to; none where given and suggested entity are the same."""
    given = next((span for span in parse_given_spans(labels) if span.start <= flag.index < span.end), None)
    suggested_type = get_entity_type(flag.suggested)
    suggested = None if suggested_type == OUTSIDE else Span(flag.index, flag.index + 1, suggested_type)
    if given == suggested:
        return ()
    given_span, suggested_span = (
        None if span is None else EntitySpan(start=span.start, end=span.end, type=span.type)
        for span in (given, suggested)
    )
    kind: SuspectKind
    if given_span is None:
        kind = "missed"
    elif suggested_span is None:
        kind = "spurious"
    else:
        kind = "boundary" if given_span.type == suggested_span.type else "type"
    return (SuspectSpan(kind=kind, given_span=given_span, suggested_span=suggested_span, confidence=flag.p_suggested),)


def parse_given_spans(labels: Sequence[str]) -> list[Span]:
    """The entities of a label sequence, whatever its scheme; none where it has a label that is of none."""
    try:
        return parse_spans(labels, Scheme.BILUO)
    except UnknownLabelError:
        pass
    try:
        return parse_spans(labels, Scheme.IO)
    except UnknownLabelError:
        return []


def compute_weighted_scores(assessment: Assessment) -> tuple[float | None, ...]:
    """The weighted score of each word, with memory its priority; `priority` is the lowest of them.

    A label without a weight scores the word's own probability. A weight only ever raises a score, so the result is at least
    the priority.
    """
    lowest = 0.0 if assessment.priority is None else assessment.priority
    scores: list[float | None] = []
    for word, label in zip(assessment.words, assessment.labels, strict=False):
        p, weight = word.p_given, assessment.weights.get(label)
        if p is None or word.priority is not None:
            scores.append(word.priority)
        elif weight is None:
            scores.append(max(p, lowest))
        else:
            scores.append(p + (1 - p) * (1 - weight))
    return tuple(scores)


def build_shown(assessment: Assessment, *, ranker_epoch: int) -> Shown:
    return Shown(
        labels=assessment.labels,
        scores=compute_weighted_scores(assessment),
        doubtful=select_flags(assessment),
        reason=assessment.reason,
        inclusion_probability=assessment.inclusion_probability or None,
        method=assessment.method,
        annotator=assessment.annotator,
        batch=None if assessment.update else assessment.batch,
        ranker_epoch=ranker_epoch,
    )
