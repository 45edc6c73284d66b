"""What the review and decision topics say now: the newest revision of each sentence, and the decisions about it.

The rules are plain functions. `ReviewState` applies them in memory, for `export` and `push`. The review queue applies the
same functions to its SQLite tables. A property test feeds both the same records and demands the same state.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from service.contracts import AnnotatedSentence, Assessment, PlatformTask
from service.review.decisions import select_in_force
from service.review.messages import ErasedAssessment, ErasedDecision
from service.review.settlement import settle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.contracts import Decision, Reason
    from service.review.items import ItemState
    from service.review.settlement import Settlement

SentenceKey = tuple[str, str]  # dataset and id
S = TypeVar("S", bound=AnnotatedSentence)

CLOSING_REASONS: Final[tuple[Reason, ...]] = ("update", "deleted")


# -- rules -------------------------------------------------------------------------------------------------------------


def supersedes(revision: int, held_revision: int | None) -> bool:
    """Whether a message replaces the one held: the highest revision counts, and of equal ones the last message."""
    return held_revision is None or revision >= held_revision


def is_task_deletion(sentence: AnnotatedSentence) -> bool:
    """Whether the sentence only says that a task is deleted. It never was an annotation itself."""
    task = PlatformTask.from_sentence(sentence)
    return sentence.deleted and task is not None and sentence.id == task.deletion_id


def is_deleted_with_task(revision: int, task_deleted_at: int | None) -> bool:
    """Whether the deletion of the task, at that revision, covers this revision of an annotation.

    A later annotation is not covered: a platform that is set up again counts its tasks from 1.
    """
    return task_deleted_at is not None and task_deleted_at >= revision


def derive_item_state(reason: Reason, settlement: Settlement, *, deleted_with_task: bool) -> ItemState:
    return "closed" if reason in CLOSING_REASONS or deleted_with_task else settlement.state


# -- state in memory ---------------------------------------------------------------------------------------------------


class NewestRevisions(Generic[S]):
    """The newest revision of each sentence, in the order in which the sentences first arrived."""

    def __init__(self) -> None:
        self._sentences: dict[SentenceKey, S] = {}

    def __iter__(self) -> Iterator[S]:
        return iter(self._sentences.values())

    def get(self, dataset: str, sentence_id: str) -> S | None:
        return self._sentences.get((dataset, sentence_id))

    def get_revision(self, dataset: str, sentence_id: str) -> int | None:
        sentence = self.get(dataset, sentence_id)
        return None if sentence is None else sentence.revision

    def apply(self, sentence: S) -> bool:
        """Whether the sentence is the newest now."""
        key = (sentence.dataset, str(sentence.id))
        if not supersedes(sentence.revision, self.get_revision(*key)):
            return False
        self._sentences[key] = sentence
        return True

    def erase(self, dataset: str, sentence_id: str) -> None:
        self._sentences.pop((dataset, sentence_id), None)

    def is_deleted_with_task(self, sentence: AnnotatedSentence) -> bool:
        task = PlatformTask.from_sentence(sentence)
        deletion = None if task is None else self.get(sentence.dataset, task.deletion_id)
        deleted_at = deletion.revision if deletion is not None and deletion.deleted else None
        return is_deleted_with_task(sentence.revision, deleted_at)

    def is_deleted(self, sentence: AnnotatedSentence) -> bool:
        """Whether the sentence was deleted, by itself or with its task."""
        return sentence.deleted or self.is_deleted_with_task(sentence)


class ReviewState(Generic[S]):
    """The newest assessment of each sentence, or the part `S` of it that is needed, and each reviewer's last decision.

    `overlaps`: how many independent decisions the items of a dataset need, where it is more than one.
    """

    def __init__(self, overlaps: Mapping[str, int] | None = None) -> None:
        self.sentences: NewestRevisions[S] = NewestRevisions()
        self.overlaps = dict(overlaps or {})
        self._decisions: dict[SentenceKey, dict[tuple[str, bool], Decision]] = defaultdict(dict)

    def apply_assessment(self, message: S | ErasedAssessment) -> bool:
        """Whether it changes the state: an older revision that arrives late does not."""
        if isinstance(message, ErasedAssessment):
            self.sentences.erase(message.dataset, message.id)
            return True
        return self.sentences.apply(message)

    def apply_decision(self, message: Decision | ErasedDecision) -> None:
        decisions = self._decisions[message.dataset, message.id]
        if isinstance(message, ErasedDecision):
            decisions.pop((message.reviewer, message.adjudication), None)
        else:
            decisions[message.reviewer, message.adjudication] = message

    def get_decisions(self, sentence: AnnotatedSentence) -> list[Decision]:
        """The decisions in force about this revision of the sentence, by reviewer."""
        decisions = self._decisions.get((sentence.dataset, str(sentence.id)), {})
        in_order = (decision for _, decision in sorted(decisions.items(), key=lambda entry: entry[0]))
        return select_in_force(in_order, sentence.revision)

    def settle(self, sentence: AnnotatedSentence) -> Settlement:
        """What the decisions in force about this revision of the sentence lead to."""
        return settle(self.get_decisions(sentence), self.overlaps.get(sentence.dataset, 1))

    def get_state(self: ReviewState[Assessment], dataset: str, sentence_id: str) -> ItemState | None:
        """The state of the queue item; None where there is none."""
        assessment = self.sentences.get(dataset, sentence_id)
        if assessment is None or is_task_deletion(assessment):
            return None
        gone = self.sentences.is_deleted_with_task(assessment)
        return derive_item_state(assessment.reason, self.settle(assessment), deleted_with_task=gone)
