"""What the review topic and reviewers say of the tasks of a Label Studio project."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from service.cli.stream.export import corrected
from service.contracts import Assessment, Decision
from service.formats.platforms.label_studio.read import PLATFORM
from service.review.decisions import read_key
from service.review.items import verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.log.protocol import Record

TASK = f"{PLATFORM}:task:"


class Doubt(NamedTuple):
    """An annotation that looks wrong, or that reviewers found to be; with the labels they gave it, where they did."""

    said: Assessment
    confirmed: bool = False
    labels: tuple[str, ...] | None = None


class Board:
    """Per sentence the highest revision, and the last decision of each reviewer."""

    def __init__(self, project: int, dataset: str | None) -> None:
        self._project = str(project)
        self._dataset = dataset
        self._newest: dict[str, Assessment] = {}
        self._task: dict[str, int] = {}
        self._of_task: dict[int, set[str]] = defaultdict(set)
        self._gone_tasks: dict[tuple[str, int], int] = {}  # by dataset and task, the revision of its end
        self._decisions: dict[str, dict[str, Decision]] = defaultdict(dict)  # by sentence and reviewer
        self.gone: set[str] = set()  # deleted or erased, and the topic may not hold any more of which task they were
        self.foreign = 0

    @property
    def tasks(self) -> list[int]:
        return sorted(self._of_task)

    def take(self, records: Iterable[Record]) -> list[int]:
        """The tasks that the review topic says something new of."""
        changed = set()
        for record in records:
            if record.value is None:
                changed |= self._erase(record)
                continue
            try:
                said = Assessment.model_validate_json(record.value)
            except ValidationError:
                continue
            if self._dataset not in (None, said.dataset) or (said.meta or {}).get("format") != PLATFORM:
                self.foreign += 1
                continue
            if said.deleted and (said.id or "").startswith(TASK):
                changed |= self._end_task(said)
                continue
            key = f"{said.dataset}/{said.id}"
            before = self._newest.get(key)
            if before is not None and before.revision > said.revision:
                continue
            task = self._known_task(key, said)
            if task is not None:
                self._task[key] = task
                self._of_task[task].add(key)
                changed.add(task)
            elif said.deleted:
                self.gone.add(said.id or "")
            else:
                continue  # of another project
            self._newest[key] = said
        return sorted(changed)

    def decide(self, records: Iterable[Record]) -> list[int]:
        """The tasks that reviewers say something new of."""
        changed = set()
        for record in records:
            place = read_key(record.key or b"")
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
            if key in self._task:
                changed.add(self._task[key])
        return sorted(changed)

    def open(self, task: int) -> list[Doubt]:
        """The doubtful annotations of a task: what reviewers say counts before what the model says."""
        keys = sorted(self._of_task.get(task, ()))
        found = (self._doubt(self._newest[key], task) for key in keys if key in self._newest)
        return [one for one in found if one is not None]

    def _doubt(self, said: Assessment, task: int) -> Doubt | None:
        ended = self._gone_tasks.get((said.dataset, task))
        if said.deleted or (ended is not None and said.revision <= ended):
            return None
        decisions = self._decisions.get(f"{said.dataset}/{said.id}", {}).values()
        about = [one for one in decisions if one.revision == said.revision]
        outcome, labels = corrected(about, len(said.tokens))
        if outcome == "ok" or not (said.flags or labels):
            return None
        return Doubt(said, verdict_of(about) == "error", labels)

    def _known_task(self, key: str, said: Assessment) -> int | None:
        """A deletion does not name its task: it is the one that was named before."""
        meta = said.meta or {}
        if meta.get("project") == self._project and str(meta.get("task", "")).isdecimal():
            return int(str(meta["task"]))
        return self._task.get(key) if said.deleted else None

    def _erase(self, record: Record) -> set[int]:
        """Nothing is left of the sentence, and what was pushed of it goes as well."""
        key = (record.key or b"").decode(errors="replace")
        dataset, _, identity = key.partition("/")
        if self._dataset not in (None, dataset):
            return set()
        self.gone.add(identity)
        self._newest.pop(key, None)
        return {self._task[key]} if key in self._task else set()

    def _end_task(self, said: Assessment) -> set[int]:
        number = (said.id or "").removeprefix(TASK)
        if not (number.isascii() and number.isdecimal()):
            return set()
        place = (said.dataset, int(number))
        self._gone_tasks[place] = max(said.revision, self._gone_tasks.get(place, said.revision))
        return {place[1]} & self._of_task.keys()
