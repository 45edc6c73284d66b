"""What the review topic and reviewers say of the tasks of a Label Studio project."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from service.cli.stream.export import resolve_decisions
from service.contracts import Assessment, Decision
from service.formats.platforms.label_studio.annotations import PLATFORM
from service.review.decisions import parse_decision_key
from service.review.items import compute_majority_verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.log.protocol import Record

TASK_ID_PREFIX = f"{PLATFORM}:task:"


class FlaggedAnnotation(NamedTuple):
    """An annotation that looks wrong, or that reviewers found to be; with the labels they gave it, where they did."""

    assessment: Assessment
    confirmed: bool = False
    labels: tuple[str, ...] | None = None


class TaskState:
    """Per sentence the highest revision, and the last decision of each reviewer."""

    def __init__(self, project: int, dataset: str | None) -> None:
        self._project = str(project)
        self._dataset = dataset
        self._assessments: dict[str, Assessment] = {}
        self._task_by_sentence: dict[str, int] = {}
        self._sentences_by_task: dict[int, set[str]] = defaultdict(set)
        self._deleted_tasks: dict[tuple[str, int], int] = {}  # by dataset and task, the revision of its end
        self._decisions: dict[str, dict[str, Decision]] = defaultdict(dict)  # by sentence and reviewer
        self.deleted_ids: set[str] = (
            set()
        )  # deleted or erased, and the topic may not hold any more of which task they were
        self.foreign_records = 0

    @property
    def tasks(self) -> list[int]:
        return sorted(self._sentences_by_task)

    def apply_assessments(self, records: Iterable[Record]) -> list[int]:
        """The tasks that the review topic says something new of."""
        changed = set()
        for record in records:
            if record.value is None:
                changed |= self._apply_tombstone(record)
                continue
            try:
                said = Assessment.model_validate_json(record.value)
            except ValidationError:
                continue
            if self._dataset not in (None, said.dataset) or (said.meta or {}).get("format") != PLATFORM:
                self.foreign_records += 1
                continue
            if said.deleted and (said.id or "").startswith(TASK_ID_PREFIX):
                changed |= self._apply_task_deletion(said)
                continue
            key = f"{said.dataset}/{said.id}"
            before = self._assessments.get(key)
            if before is not None and before.revision > said.revision:
                continue
            task = self._find_task(key, said)
            if task is not None:
                self._task_by_sentence[key] = task
                self._sentences_by_task[task].add(key)
                changed.add(task)
            elif said.deleted:
                self.deleted_ids.add(said.id or "")
            else:
                continue  # of another project
            self._assessments[key] = said
        return sorted(changed)

    def apply_decisions(self, records: Iterable[Record]) -> list[int]:
        """The tasks that reviewers say something new of."""
        changed = set()
        for record in records:
            place = parse_decision_key(record.key or b"")
            if place is None or place[3]:  # a claim
                continue
            dataset, identity, reviewer, _ = place
            if self._dataset not in (None, dataset):
                continue
            key = f"{dataset}/{identity}"
            try:
                self._decisions[key][reviewer] = Decision.model_validate_json(record.value or b"")
            except ValidationError:
                if record.value is not None:
                    continue
                self._decisions[key].pop(reviewer, None)
            if key in self._task_by_sentence:
                changed.add(self._task_by_sentence[key])
        return sorted(changed)

    def open_flags(self, task: int) -> list[FlaggedAnnotation]:
        """The doubtful annotations of a task: what reviewers say counts before what the model says."""
        keys = sorted(self._sentences_by_task.get(task, ()))
        found = (self._find_open_flag(self._assessments[key], task) for key in keys if key in self._assessments)
        return [one for one in found if one is not None]

    def _find_open_flag(self, assessment: Assessment, task: int) -> FlaggedAnnotation | None:
        ended = self._deleted_tasks.get((assessment.dataset, task))
        if assessment.deleted or (ended is not None and assessment.revision <= ended):
            return None
        decisions = self._decisions.get(f"{assessment.dataset}/{assessment.id}", {}).values()
        about = [one for one in decisions if one.revision == assessment.revision]
        outcome, labels = resolve_decisions(about, len(assessment.tokens))
        if outcome == "ok" or not (assessment.flags or labels):
            return None
        return FlaggedAnnotation(assessment, compute_majority_verdict(about) == "error", labels)

    def _find_task(self, key: str, assessment: Assessment) -> int | None:
        """A deletion does not name its task: it is the one that was named before."""
        meta = assessment.meta or {}
        if meta.get("project") == self._project and str(meta.get("task", "")).isdecimal():
            return int(str(meta["task"]))
        return self._task_by_sentence.get(key) if assessment.deleted else None

    def _apply_tombstone(self, record: Record) -> set[int]:
        """Nothing is left of the sentence, and what was pushed of it goes as well."""
        key = (record.key or b"").decode(errors="replace")
        dataset, _, identity = key.partition("/")
        if self._dataset not in (None, dataset):
            return set()
        self.deleted_ids.add(identity)
        self._assessments.pop(key, None)
        return {self._task_by_sentence[key]} if key in self._task_by_sentence else set()

    def _apply_task_deletion(self, assessment: Assessment) -> set[int]:
        number = (assessment.id or "").removeprefix(TASK_ID_PREFIX)
        if not (number.isascii() and number.isdecimal()):
            return set()
        place = (assessment.dataset, int(number))
        self._deleted_tasks[place] = max(assessment.revision, self._deleted_tasks.get(place, assessment.revision))
        return {place[1]} & self._sentences_by_task.keys()
