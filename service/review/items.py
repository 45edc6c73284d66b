"""A queue item as reviewers see it.

A control sentence looks like the others until it is decided: where nothing is flagged, the worst word stands in for
the flags, and the suspect is read from it. `controls` says what else that takes.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PrivateAttr

from service.contracts import (
    Assessment,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

ItemState = Literal["open", "decided", "closed"]
Agreement = Literal["agree", "differ"]
ItemVerdict = Literal["error", "ok"]
ITEM_STATES: tuple[ItemState, ...] = ("open", "decided", "closed")
# Of what only says that a task is gone, and never was an item: nobody is shown it, and it counts nowhere.
TOMBSTONE_STATE = "none"
HIDDEN_UNTIL_DECIDED = "None: held back until it is decided"


class ReviewFlag(Message):
    """A word to look at."""

    index: int
    token: str
    given: str
    suggested: str = Field(description="As the dataset would write it: in its own names and scheme")
    p_given: float | None = Field(default=None, description=HIDDEN_UNTIL_DECIDED)
    p_suggested: float | None = Field(default=None, description=HIDDEN_UNTIL_DECIDED)
    threshold: float | None = Field(
        default=None, description="Threshold of the class that is suggested; none where it has no evidence yet"
    )


class ReviewSuspect(Message):
    """The doubt said of an entity: given and suggested span side by side."""

    kind: SuspectKind
    given_span: EntitySpan | None = None
    suggested_span: EntitySpan | None = None
    confidence: float | None = Field(default=None, description=HIDDEN_UNTIL_DECIDED)


class ReviewItem(Message):
    """One sentence of the queue. Low is bad in `rank`, `priority` and `score`; the queue is sorted by `rank`.

    Until it is decided, a control sentence has the rank, priority and score of its place in the queue, not its own.
    """

    dataset: DatasetName
    id: str
    revision: int
    state: ItemState
    closed_by: Literal["update", "deleted"] | None = None
    blind: bool = Field(
        default=False,
        description="Whether probabilities are held back until it is decided, since the dataset has a control sample",
    )
    rank: float = Field(description="What orders the queue: the ranker's answer where it is on, else priority")
    priority: float | None = None
    score: float | None = None
    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    annotator: str | None = None
    source: str | None = None
    annotated_at: datetime | None = None
    scored_at: datetime | None = None
    doubtful: tuple[ReviewFlag, ...] = Field(default=(), description="Words to look at, by their place in the sentence")
    suspects: tuple[ReviewSuspect, ...] = ()
    words: tuple[WordScore, ...] = ()
    thresholds: dict[str, float | None] = Field(default_factory=dict)
    warming_up: tuple[str, ...] = ()
    model: ModelName
    method: str
    token_score: str
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    decisions: tuple[Decision, ...] = Field(default=(), description="About this revision, by reviewer")
    agreement: Agreement | None = Field(default=None, description="Where two or more have decided")
    reason: Reason | None = Field(default=None, description="Why it is here; told once it is decided")
    inclusion_probability: float | None = Field(default=None, description="Of being here; told once it is decided")

    _shown: Shown | None = PrivateAttr(default=None)

    @property
    def shown(self) -> Shown:
        """What a decision about this item keeps of it. Not part of the body: it knows which items are controls."""
        return self._shown or Shown(labels=self.labels, method=self.method, annotator=self.annotator)

    def with_shown(self, shown: Shown) -> ReviewItem:
        self._shown = shown
        return self


def select_flags(assessment: Assessment) -> tuple[Flag, ...]:
    if assessment.flags:
        return assessment.flags
    return () if assessment.worst is None else (assessment.worst,)


def select_suspects(assessment: Assessment) -> tuple[SuspectSpan, ...]:
    if assessment.flags or assessment.worst is None:
        return assessment.suspects
    return _derive_suspects(assessment.worst, assessment.labels)


def to_review_flags(assessment: Assessment, *, blind: bool) -> tuple[ReviewFlag, ...]:
    held_back = {"p_given", "p_suggested"} if blind else set()
    return tuple(ReviewFlag(**flag.model_dump(exclude=held_back)) for flag in select_flags(assessment))


def to_review_suspects(assessment: Assessment, *, blind: bool) -> tuple[ReviewSuspect, ...]:
    held_back = {"confidence"} if blind else set()
    return tuple(ReviewSuspect(**suspect.model_dump(exclude=held_back)) for suspect in select_suspects(assessment))


def to_review_words(assessment: Assessment, *, blind: bool) -> tuple[WordScore, ...]:
    if not blind:
        return assessment.words
    return tuple(WordScore(unscored=word.unscored) for word in assessment.words)


def _derive_suspects(flag: Flag, labels: Sequence[str]) -> tuple[SuspectSpan, ...]:
    """The doubt about one word said of its entity; none where only the spelling of one label differs."""
    given = next((span for span in _parse_given_spans(labels) if span.start <= flag.index < span.end), None)
    kind = get_entity_type(flag.suggested)
    suggested = None if kind == OUTSIDE else Span(flag.index, flag.index + 1, kind)
    if given == suggested:
        return ()
    before, after = (
        None if span is None else EntitySpan(start=span.start, end=span.end, type=span.type)
        for span in (given, suggested)
    )
    if before is None:
        return (SuspectSpan(kind="missed", suggested_span=after, confidence=flag.p_suggested),)
    if after is None:
        return (SuspectSpan(kind="spurious", given_span=before, confidence=flag.p_suggested),)
    what: Literal["boundary", "type"] = "boundary" if before.type == after.type else "type"
    return (SuspectSpan(kind=what, given_span=before, suggested_span=after, confidence=flag.p_suggested),)


def _parse_given_spans(labels: Sequence[str]) -> list[Span]:
    try:
        return parse_spans(labels, Scheme.BILUO)
    except UnknownLabelError:
        pass
    try:
        return parse_spans(labels, Scheme.IO)
    except UnknownLabelError:
        return []


def compute_weighted_scores(assessment: Assessment) -> tuple[float | None, ...]:
    """Each word's share in `priority`, which is the least of them.

    Without the weights it was judged with, the word's own probability stands in. A weight only ever lifts it, so it
    is at least the priority.
    """
    least = 0.0 if assessment.priority is None else assessment.priority
    found: list[float | None] = []
    for word, label in zip(assessment.words, assessment.labels, strict=False):
        p, weight = word.p_given, assessment.weights.get(label)
        if p is None:
            found.append(None)
        elif weight is None:
            found.append(max(p, least))
        else:
            found.append(p + (1 - p) * (1 - weight))
    return tuple(found)


def build_shown(assessment: Assessment, *, ranker_epoch: int) -> Shown:
    return Shown(
        labels=assessment.labels,
        scores=compute_weighted_scores(assessment),
        doubtful=select_flags(assessment),
        reason=assessment.reason,
        inclusion_probability=assessment.inclusion_probability or None,
        method=assessment.method,
        annotator=assessment.annotator,
        ranker_epoch=ranker_epoch,
    )


def select_sure_decisions(decisions: Sequence[Decision]) -> list[Decision]:
    """Those that say something: not taken back, and sure."""
    return [decision for decision in decisions if not decision.withdrawn and decision.verdict != "unsure"]


def compute_agreement(decisions: Sequence[Decision]) -> Agreement | None:
    """Among those who are sure. Two who correct an error differently differ."""
    sure = select_sure_decisions(decisions)
    if len(sure) < 2:
        return None
    corrections = {decision.labels for decision in sure if decision.labels is not None}
    same = len({decision.verdict for decision in sure}) == 1 and len(corrections) <= 1
    return "agree" if same else "differ"


def compute_majority_verdict(decisions: Sequence[Decision]) -> ItemVerdict | None:
    """What most of those who are sure say; none where they are even."""
    sure = select_sure_decisions(decisions)
    errors = sum(decision.verdict == "error" for decision in sure)
    if 2 * errors == len(sure):
        return None
    return "error" if 2 * errors > len(sure) else "ok"


def find_wrong_words(decision: Decision, shown: Shown) -> frozenset[int] | None:
    """The words a decision calls wrong; none where it says error without saying where."""
    if decision.verdict == "ok":
        return frozenset()
    if decision.words:
        return frozenset(decision.words)
    pairs = zip(decision.labels or (), shown.labels, strict=False)
    return frozenset(place for place, (right, given) in enumerate(pairs) if right != given) or None
