"""Pushes open flags to Label Studio, as predictions on the tasks of a project.

A prediction that is already there is counted and not pushed again. A prediction of ours that no longer holds is removed:
the annotation was corrected or judged again, or a reviewer found it right. Predictions of other models are never touched.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.errors import InvalidInput, SettingsError
from service.formats.platforms.label_studio.labeling_config import SpanControl, parse_span_controls
from service.formats.platforms.label_studio.predictions import (
    MODEL_VERSION_PREFIX,
    build_label_studio_prediction,
    find_annotation_id,
)
from service.integrations.label_studio.client import LabelStudioClient, LabelStudioRejectedError
from service.log.read import POLL_INTERVAL_S
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.contracts import Assessment
    from service.integrations.label_studio.open_flags import FlaggedAnnotation, TaskState
    from service.log.protocol import Follower, Record

PredictionContent = tuple[object, ...]


def extract_content(prediction: Mapping[str, Any]) -> PredictionContent:
    """What two predictions have in common if they are the same, whatever their ids."""
    regions = prediction.get("result")
    spans = []
    for region in regions if isinstance(regions, list) else ():
        value = region.get("value") if isinstance(region, dict) else None
        if isinstance(value, dict):
            labels = value.get("labels")
            spans.append((value.get("start"), value.get("end"), tuple(labels) if isinstance(labels, list) else labels))
    numbers = (prediction.get("score"), prediction.get("mislabeling"))
    return (prediction.get("model_version"), *numbers, *sorted(spans, key=str))


@dataclass
class PredictionPusher:
    """Makes the predictions of a project match the open flags of its tasks.

    `span_control` names one of the project's span controls, `label_map` gives the project's names of suggested types, and
    `report_problem` receives a line for each task that gets no prediction.
    """

    client: LabelStudioClient
    project: int
    report_problem: Callable[[str], None]
    span_control: str | None = None
    label_map: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    _span_controls: list[SpanControl] = field(init=False)
    _existing_predictions: dict[int, dict[int, PredictionContent]] = field(init=False)
    _tasks_by_annotation: dict[str, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        labeling_config = self.client.get_project(self.project).get("parsed_label_config")
        span_controls = parse_span_controls(labeling_config)
        if self.span_control is not None:
            span_controls = [control for control in span_controls if control.name == self.span_control]
        if not span_controls:
            named = f"called {self.span_control}" if self.span_control else "over text"
            raise SettingsError(f"project {self.project} has no control for spans {named}")
        self._span_controls = span_controls
        self._existing_predictions, self._tasks_by_annotation = defaultdict(dict), defaultdict(set)
        for prediction in self.client.list_predictions(self.project):
            task, number = prediction.get("task"), prediction.get("id")
            is_ours = str(prediction.get("model_version") or "").startswith(MODEL_VERSION_PREFIX)
            if is_ours and isinstance(task, int) and isinstance(number, int):
                self._add_existing(task, number, prediction)

    def _add_existing(self, task: int, number: int, prediction: Mapping[str, Any]) -> None:
        self._existing_predictions[task][number] = extract_content(prediction)
        annotation = find_annotation_id(prediction)
        if annotation is not None:
            self._tasks_by_annotation[annotation].add(task)

    def drain_tasks_about(self, annotations: set[str]) -> list[int]:
        """The tasks that have predictions about these annotations. Empties the set: each task is returned once."""
        tasks = {task for annotation in annotations for task in self._tasks_by_annotation.pop(annotation, ())}
        annotations.clear()
        return sorted(tasks)

    def sync(self, task_state: TaskState, tasks: Iterable[int]) -> None:
        predictions_by_task = {task: self._build_predictions(task_state.list_open_flags(task)) for task in tasks}
        self._check_labels(prediction for predictions in predictions_by_task.values() for prediction in predictions)
        for task, predictions in predictions_by_task.items():
            self._sync_task(task, predictions)

    def _sync_task(self, task: int, predictions: list[dict[str, Any]]) -> None:
        stale = dict(self._existing_predictions[task])
        for prediction in predictions:
            content = extract_content(prediction)
            same = next((number for number, existing in stale.items() if existing == content), None)
            if same is not None:
                del stale[same]
                self.counts["there"] += 1
                continue
            try:
                number = None if self.dry_run else self.client.create_prediction(prediction).get("id")
            except LabelStudioRejectedError as error:
                self._report_rejection(task, error)
                continue
            self.counts["pushed"] += 1
            if isinstance(number, int):
                self._add_existing(task, number, prediction)
        for number in stale:
            self.counts["removed"] += 1
            if not self.dry_run:
                self.client.delete_prediction(number)
                del self._existing_predictions[task][number]

    def _build_predictions(self, flagged: Iterable[FlaggedAnnotation]) -> list[dict[str, Any]]:
        predictions = []
        for assessment, confirmed, labels in flagged:
            span_control = self._select_span_control(assessment)
            task = int(str((assessment.meta or {})["task"]))
            try:
                prediction = build_label_studio_prediction(
                    assessment,
                    task=task,
                    from_name=span_control.name,
                    to_name=span_control.to_name,
                    rename=self.label_map,
                    corrected=labels,
                    confirmed=confirmed,
                )
            except InvalidInput as error:  # any program may write decisions, with labels of any form
                self._report_rejection(task, error)
                continue
            if prediction is None:
                self.counts["textless"] += 1
            else:
                predictions.append(prediction)
        return predictions

    def _report_rejection(self, task: int, error: Exception) -> None:
        self.counts["refused"] += 1
        self.report_problem(f"task {task} gets no prediction: {error}")

    def _select_span_control(self, assessment: Assessment) -> SpanControl:
        from_name = (assessment.meta or {}).get("from_name")
        named = next((control for control in self._span_controls if control.name == from_name), None)
        if named is None and len(self._span_controls) > 1:
            names = ", ".join(control.name for control in self._span_controls)
            raise SettingsError(f"project {self.project} has several controls for spans: choose --control {names}")
        return named or self._span_controls[0]

    def _check_labels(self, predictions: Iterable[Mapping[str, Any]]) -> None:
        """Label Studio accepts labels that the project does not have, and then shows nothing."""
        known = {control.name: set(control.labels) for control in self._span_controls}
        missing = {
            label
            for prediction in predictions
            for region in prediction["result"]
            for label in region["value"]["labels"]
            if label not in known[region["from_name"]]
        }
        if missing:
            known_labels = ", ".join(sorted(label for labels in known.values() for label in labels))
            raise SettingsError(
                f"nothing was pushed: project {self.project} has no label {', '.join(sorted(missing))}, only {known_labels}: "
                f"add it there, or name the project's own with --map {min(missing)}=…"
            )

    def drain_summary(self, task_state: TaskState) -> str:
        """A line on what was done since the last summary."""
        verb = "would be pushed" if self.dry_run else "pushed"
        parts = [
            f"{pluralize(self.counts['pushed'], 'prediction')} {verb} to project {self.project}",
            f"{self.counts['there']:,} were there already",
            f"{self.counts['removed']:,} no longer right {'would be' if self.dry_run else 'were'} removed",
        ]
        if self.counts["refused"]:
            parts.append(f"{self.counts['refused']:,} were refused")
        if self.counts["textless"]:
            parts.append(f"{pluralize(self.counts['textless'], 'sentence')} without text left out")
        if task_state.foreign_records:
            parts.append(f"{pluralize(task_state.foreign_records, 'message')} of other datasets or platforms left out")
        self.counts.clear()
        task_state.foreign_records = 0
        return "; ".join(parts)


@dataclass
class PredictionSync:
    """Follows the review and decision topics and pushes the open flags of the tasks they change."""

    pusher: PredictionPusher
    task_state: TaskState
    review: Follower
    decisions: Follower

    def catch_up(self) -> None:
        """Reads both topics to their end, then pushes the open flags of all tasks."""
        _read_to_end(self.review, self.task_state.apply_assessments)
        _read_to_end(self.decisions, self.task_state.apply_decisions)
        self._push(self.task_state.tasks)

    def poll(self) -> bool:
        """Pushes what has arrived since; returns whether any task changed."""
        changed = self.task_state.apply_assessments(self.review.poll())
        return self._push([*changed, *self.task_state.apply_decisions(self.decisions.poll())])

    def _push(self, tasks: Iterable[int]) -> bool:
        all_tasks = {*tasks, *self.pusher.drain_tasks_about(self.task_state.deleted_ids)}
        self.pusher.sync(self.task_state, sorted(all_tasks))
        return bool(all_tasks)


def _read_to_end(follower: Follower, apply: Callable[[Sequence[Record]], object]) -> None:
    while not follower.caught_up:
        records = follower.poll()
        apply(records)
        if not records and not follower.caught_up:
            time.sleep(POLL_INTERVAL_S)
    apply(follower.poll())
