"""`labelwatch push label-studio`: the doubts of the review topic as predictions on Label Studio's tasks.

What is there already is told and not pushed again. A prediction of ours that no longer holds, since the annotation was
corrected or judged anew or a reviewer found it right, is removed; those of other models are never touched.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.shared.terminal import print_stderr
from service.errors import InvalidInput, SettingsError
from service.formats.platforms.label_studio.annotations import PLATFORM
from service.formats.platforms.label_studio.labeling_config import SpanControl, parse_span_controls
from service.formats.platforms.label_studio.predictions import (
    MODEL_VERSION_PREFIX,
    build_label_studio_prediction,
    find_annotation_id,
)
from service.integrations.label_studio.client import LabelStudioClient, LabelStudioRejectedError
from service.integrations.label_studio.open_flags import TaskState
from service.log.read import POLL_INTERVAL_S
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.contracts import Assessment
    from service.integrations.label_studio.open_flags import FlaggedAnnotation
    from service.log.protocol import Follower, Record

DEFAULT_TOKEN_ENV = "LABEL_STUDIO_TOKEN"

UrlOption = Annotated[str, typer.Option(metavar="URL", help="Address of Label Studio.", show_default=False)]
ProjectOption = Annotated[int, typer.Option(metavar="ID", help="The project's number.", show_default=False)]
TokenEnvOption = Annotated[str, typer.Option(metavar="NAME", help="Variable that holds the access token.")]
DatasetOption = Annotated[str | None, typer.Option("--dataset", metavar="D", help="Only sentences of this dataset.")]
ControlOption = Annotated[
    str | None, typer.Option("--control", metavar="NAME", help="The project's control for spans, where it has several.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OLD=NEW", help="The project's name for a suggested type."),
]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]

push_app = typer.Typer(no_args_is_help=True)


@push_app.callback()
def _declare_push_group() -> None:
    """So that a single command keeps its name."""


@push_app.command(PLATFORM)
def push_to_label_studio(
    *,
    url: UrlOption,
    project: ProjectOption,
    token_env: TokenEnvOption = DEFAULT_TOKEN_ENV,
    dataset: DatasetOption = None,
    control: ControlOption = None,
    mapping: MapOption = None,
    follow: FollowOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Push flagged sentences as predictions with `mislabeling`, score and the suggested spans."""
    token = os.environ.get(token_env, "").strip()
    if not token:
        raise SettingsError(f"{token_env} is not set: put an access token of Label Studio into it")
    renamed = _parse_label_map(mapping or ())
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as stream:
        server = LabelStudioClient(url, token)
        board = TaskState(project, dataset)
        pusher = PredictionPusher(server, project, control=control, label_map=renamed, dry_run=dry_run)
        with closing(stream.follow(topics.review)) as review, closing(stream.follow(topics.decisions)) as decisions:
            read_to_end(review, board.apply_assessments)
            read_to_end(decisions, board.apply_decisions)
            pusher.sync(board, [*board.tasks, *pusher.drain_tasks_about(board.deleted_ids)])
            typer.echo(pusher.drain_summary(board))
            try:
                while follow:
                    changed = {*board.apply_assessments(review.poll()), *board.apply_decisions(decisions.poll())}
                    changed.update(pusher.drain_tasks_about(board.deleted_ids))
                    if changed:
                        pusher.sync(board, sorted(changed))
                        print_stderr(pusher.drain_summary(board))
                    time.sleep(POLL_INTERVAL_S)
            except KeyboardInterrupt:
                return


def read_to_end(follower: Follower, handle: Callable[[Sequence[Record]], object]) -> None:
    while not follower.caught_up:
        records = follower.poll()
        handle(records)
        if not records and not follower.caught_up:
            time.sleep(POLL_INTERVAL_S)
    handle(follower.poll())


def _parse_label_map(given: Iterable[str]) -> dict[str, str]:
    found = {}
    for pair in given:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{pair!r} is not OLD=NEW, such as PER=PERSON", param_hint="--map")
        found[old] = new
    return found


PredictionContent = tuple[object, ...]


def extract_content(prediction: Mapping[str, Any]) -> PredictionContent:
    """What makes two predictions the same, whoever wrote them down."""
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
    """Makes the project's predictions what the board says."""

    server: LabelStudioClient
    project: int
    control: str | None = None
    label_map: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    _controls: list[SpanControl] = field(init=False)
    _existing_predictions: dict[int, dict[int, PredictionContent]] = field(init=False)
    _tasks_by_annotation: dict[str, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._controls = parse_span_controls(self.server.get_project(self.project).get("parsed_label_config"))
        if self.control is not None:
            self._controls = [one for one in self._controls if one.name == self.control]
        if not self._controls:
            named = f"called {self.control}" if self.control else "over text"
            raise SettingsError(f"project {self.project} has no control for spans {named}")
        self._existing_predictions, self._tasks_by_annotation = defaultdict(dict), defaultdict(set)
        for one in self.server.list_predictions(self.project):
            task, number = one.get("task"), one.get("id")
            ours = str(one.get("model_version") or "").startswith(MODEL_VERSION_PREFIX)
            if ours and isinstance(task, int) and isinstance(number, int):
                self._add_existing(task, number, one)

    def _add_existing(self, task: int, number: int, prediction: Mapping[str, Any]) -> None:
        self._existing_predictions[task][number] = extract_content(prediction)
        annotation = find_annotation_id(prediction)
        if annotation is not None:
            self._tasks_by_annotation[annotation].add(task)

    def drain_tasks_about(self, annotations: set[str]) -> list[int]:
        """The tasks with predictions about these annotations; each is told once."""
        found = sorted({task for one in annotations for task in self._tasks_by_annotation.pop(one, ())})
        annotations.clear()
        return found

    def sync(self, task_state: TaskState, tasks: Iterable[int]) -> None:
        wanted = {task: self._build_predictions(task_state.open_flags(task)) for task in tasks}
        self._check_labels(prediction for some in wanted.values() for prediction in some)
        for task, predictions in wanted.items():
            self._sync_task(task, predictions)

    def _sync_task(self, task: int, predictions: list[dict[str, Any]]) -> None:
        stale = dict(self._existing_predictions[task])
        for prediction in predictions:
            same = next((number for number, what in stale.items() if what == extract_content(prediction)), None)
            if same is not None:
                del stale[same]
                self.counts["there"] += 1
                continue
            try:
                number = None if self.dry_run else self.server.create_prediction(prediction).get("id")
            except LabelStudioRejectedError as error:
                self._report_rejection(task, error)
                continue
            self.counts["pushed"] += 1
            if isinstance(number, int):
                self._add_existing(task, number, prediction)
        for number in stale:
            self.counts["removed"] += 1
            if not self.dry_run:
                self.server.delete_prediction(number)
                del self._existing_predictions[task][number]

    def _build_predictions(self, flagged: Iterable[FlaggedAnnotation]) -> list[dict[str, Any]]:
        found = []
        for said, confirmed, labels in flagged:
            control = self._select_control(said)
            task = int(str((said.meta or {})["task"]))
            try:
                made = build_label_studio_prediction(
                    said,
                    task=task,
                    from_name=control.name,
                    to_name=control.to_name,
                    rename=self.label_map,
                    corrected=labels,
                    confirmed=confirmed,
                )
            except InvalidInput as error:  # any program may write decisions
                self._report_rejection(task, error)
                continue
            if made is None:
                self.counts["textless"] += 1
            else:
                found.append(made)
        return found

    def _report_rejection(self, task: int, error: Exception) -> None:
        self.counts["refused"] += 1
        print_stderr(f"labelwatch: task {task} gets no prediction: {error}")

    def _select_control(self, assessment: Assessment) -> SpanControl:
        named = (assessment.meta or {}).get("from_name")
        found = next((one for one in self._controls if one.name == named), None)
        if found is None and len(self._controls) > 1:
            names = ", ".join(one.name for one in self._controls)
            raise SettingsError(f"project {self.project} has several controls for spans: choose --control {names}")
        return found or self._controls[0]

    def _check_labels(self, predictions: Iterable[Mapping[str, Any]]) -> None:
        """Label Studio would take labels that the project doesn't have, and show nothing."""
        known = {one.name: set(one.labels) for one in self._controls}
        missing = {
            label
            for prediction in predictions
            for region in prediction["result"]
            for label in region["value"]["labels"]
            if label not in known[region["from_name"]]
        }
        if missing:
            there = ", ".join(sorted(label for labels in known.values() for label in labels))
            raise SettingsError(
                f"nothing was pushed: project {self.project} has no label {', '.join(sorted(missing))}, only {there}: "
                f"add it there, or name the project's own with --map {min(missing)}=…"
            )

    def drain_summary(self, task_state: TaskState) -> str:
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
