"""What the review topic says of the tasks of a Label Studio project."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pydantic import ValidationError

from service.contracts import Assessment
from service.formats.label_studio import PLATFORM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.stream.base import Record


class Board:
    """What the review topic says of the project's tasks: per sentence the highest revision."""

    def __init__(self, project: int, dataset: str | None) -> None:
        self._project = str(project)
        self._dataset = dataset
        self._newest: dict[str, Assessment] = {}
        self._task: dict[str, int] = {}
        self._of_task: dict[int, set[str]] = defaultdict(set)
        self.gone: set[str] = set()  # deleted, and the topic does not hold any more of which task they were
        self.foreign = 0

    @property
    def tasks(self) -> list[int]:
        return sorted(self._of_task)

    def take(self, records: Iterable[Record]) -> list[int]:
        """The tasks that something new was said of."""
        changed = set()
        for record in records:
            try:
                said = Assessment.model_validate_json(record.value or b"")
            except ValidationError:
                continue
            if self._dataset not in (None, said.dataset) or (said.meta or {}).get("format") != PLATFORM:
                self.foreign += 1
                continue
            key = f"{said.dataset}/{said.id}"
            before = self._newest.get(key)
            if before is not None and before.revision > said.revision:
                continue
            task = self._known_task(key, said)
            if task is not None:
                self._newest[key] = said
                self._task[key] = task
                self._of_task[task].add(key)
                changed.add(task)
            elif said.deleted:
                self.gone.add(said.id or "")
        return sorted(changed)

    def _known_task(self, key: str, said: Assessment) -> int | None:
        """A deletion does not name its task: it is the one that was named before."""
        meta = said.meta or {}
        if meta.get("project") == self._project and str(meta.get("task", "")).isdecimal():
            return int(str(meta["task"]))
        return self._task.get(key) if said.deleted else None

    def open(self, task: int) -> list[Assessment]:
        """The doubtful annotations of a task."""
        said = (self._newest[key] for key in sorted(self._of_task.get(task, ())))
        return [one for one in said if not one.deleted and one.flags]
