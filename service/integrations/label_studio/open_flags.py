"""The open flags of a Label Studio project's tasks, from the review and decision topics."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from service.contracts import PlatformTask
from service.formats.platforms.label_studio.annotations import PLATFORM
from service.review.decisions import compute_majority_verdict, resolve_decisions
from service.review.messages import ErasedAssessment, iterate_assessments, iterate_decisions
from service.review.review_state import ReviewState, is_task_deletion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.contracts import Assessment
    from service.log.protocol import Record
    from service.review.review_state import SentenceKey


class FlaggedAnnotation(NamedTuple):
    """An annotation that looks wrong. `confirmed`: reviewers say so too. `labels`: their correction, where they agree."""

    assessment: Assessment
    confirmed: bool = False
    labels: tuple[str, ...] | None = None


class TaskState:
    """The review state of one project's annotations, by task.

    `deleted_ids` are the sentences that were deleted or erased, and whose task the topics may no longer name.
    """

    def __init__(self, project: int, dataset: str | None, overlaps: Mapping[str, int] | None = None) -> None:
        """`overlaps`: how many independent decisions the items of a dataset need, where it is more than one."""
        self._project = str(project)
        self._dataset = dataset
        self._review: ReviewState[Assessment] = ReviewState(overlaps)
        self._task_by_sentence: dict[SentenceKey, int] = {}
        self._sentences_by_task: dict[int, set[SentenceKey]] = defaultdict(set)
        self.deleted_ids: set[str] = set()
        self.foreign_records = 0

    @property
    def tasks(self) -> list[int]:
        return sorted(self._sentences_by_task)

    def apply_assessments(self, records: Iterable[Record]) -> list[int]:
        """The tasks that the records of the review topic change."""
        messages = iterate_assessments(records)
        return sorted({task for message in messages for task in self._apply_assessment(message)})

    def apply_decisions(self, records: Iterable[Record]) -> list[int]:
        """The tasks that the records of the decisions topic change."""
        changed: set[int] = set()
        for message in iterate_decisions(records):
            if self._dataset in (None, message.dataset):
                self._review.apply_decision(message)
                changed |= self._get_tasks((message.dataset, message.id))
        return sorted(changed)

    def list_open_flags(self, task: int) -> list[FlaggedAnnotation]:
        """The doubtful annotations of a task. The verdict of reviewers counts before that of the model."""
        assessments = (self._review.sentences.get(*key) for key in sorted(self._sentences_by_task.get(task, ())))
        flagged = (self._find_open_flag(assessment) for assessment in assessments if assessment is not None)
        return [annotation for annotation in flagged if annotation is not None]

    def _find_open_flag(self, assessment: Assessment) -> FlaggedAnnotation | None:
        if self._review.sentences.is_deleted(assessment):
            return None
        decisions = self._review.settle(assessment).counted
        outcome, labels = resolve_decisions(decisions, len(assessment.tokens))
        if outcome == "ok" or not (assessment.flags or labels):
            return None
        return FlaggedAnnotation(assessment, compute_majority_verdict(decisions) == "error", labels)

    def _apply_assessment(self, message: Assessment | ErasedAssessment) -> set[int]:
        key = (message.dataset, str(message.id))
        if isinstance(message, ErasedAssessment):
            if self._dataset not in (None, message.dataset):
                return set()
            self.deleted_ids.add(message.id)
        elif self._dataset not in (None, message.dataset) or (message.meta or {}).get("format") != PLATFORM:
            self.foreign_records += 1
            return set()
        elif not is_task_deletion(message):
            return self._apply_annotation(key, message)
        return self._get_tasks(key) if self._review.apply_assessment(message) else set()

    def _apply_annotation(self, key: SentenceKey, assessment: Assessment) -> set[int]:
        task = self._find_task(key, assessment)
        if task is None and not assessment.deleted:
            return set()  # of another project
        if not self._review.apply_assessment(assessment):
            return set()
        if task is None:
            self.deleted_ids.add(key[1])
            return set()
        self._task_by_sentence[key] = task
        self._sentences_by_task[task].add(key)
        return {task}

    def _get_tasks(self, key: SentenceKey) -> set[int]:
        """The known task of a sentence, or the known task whose deletion has this key."""
        if key in self._task_by_sentence:
            return {self._task_by_sentence[key]}
        deleted = PlatformTask.from_deletion_id(key[1])
        if deleted is None or deleted.platform != PLATFORM or not deleted.number.isdecimal():
            return set()
        return {int(deleted.number)} & self._sentences_by_task.keys()

    def _find_task(self, key: SentenceKey, assessment: Assessment) -> int | None:
        """The task of an annotation in this project. A deletion does not name it: an earlier revision did."""
        meta = assessment.meta or {}
        if meta.get("project") == self._project and str(meta.get("task", "")).isdecimal():
            return int(str(meta["task"]))
        return self._task_by_sentence.get(key) if assessment.deleted else None
