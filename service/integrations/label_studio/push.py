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

from service.cli.shared.terminal import say
from service.errors import InvalidInput, SettingsError
from service.formats.platforms.label_studio.labeling_config import Control, controls
from service.formats.platforms.label_studio.predictions import VERSION_PREFIX, annotation_of, label_studio_prediction
from service.formats.platforms.label_studio.read import PLATFORM
from service.integrations.label_studio.client import LabelStudio, RefusedError
from service.integrations.label_studio.open_flags import Board
from service.runtime.open_log import PAUSE, reading, topics_of
from service.settings import read_settings
from service.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from service.contracts import Assessment
    from service.integrations.label_studio.open_flags import Doubt
    from service.log.protocol import Follower, Record

TOKEN_ENV = "LABEL_STUDIO_TOKEN"

Url = Annotated[str, typer.Option(metavar="URL", help="Address of Label Studio.", show_default=False)]
Project = Annotated[int, typer.Option(metavar="ID", help="The project's number.", show_default=False)]
TokenEnv = Annotated[str, typer.Option(metavar="NAME", help="Variable that holds the access token.")]
OfDataset = Annotated[str | None, typer.Option("--dataset", metavar="D", help="Only sentences of this dataset.")]
ControlName = Annotated[
    str | None, typer.Option("--control", metavar="NAME", help="The project's control for spans, where it has several.")
]
Renamed = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OLD=NEW", help="The project's name for a suggested type."),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]

push_app = typer.Typer(help="Send doubts back to where the annotations come from.", no_args_is_help=True)


@push_app.callback()
def _group() -> None:
    """So that a single command keeps its name."""


@push_app.command(PLATFORM)
def label_studio(
    *,
    url: Url,
    project: Project,
    token_env: TokenEnv = TOKEN_ENV,
    dataset: OfDataset = None,
    control: ControlName = None,
    mapping: Renamed = None,
    follow: Follow = False,
    dry_run: DryRun = False,
) -> None:
    """Push flagged sentences as predictions with `mislabeling`, score and the suggested spans."""
    token = os.environ.get(token_env, "").strip()
    if not token:
        raise SettingsError(f"{token_env} is not set: put an access token of Label Studio into it")
    renamed = _pairs(mapping or ())
    settings = read_settings()
    topics = topics_of(settings)
    with reading(settings, topics) as stream:
        server = LabelStudio(url, token)
        board = Board(project, dataset)
        pusher = Pusher(server, project, control=control, renamed=renamed, dry_run=dry_run)
        with closing(stream.follow(topics.review)) as review, closing(stream.follow(topics.decisions)) as decisions:
            read_to_end(review, board.take)
            read_to_end(decisions, board.decide)
            pusher.sync(board, [*board.tasks, *pusher.tasks_about(board.gone)])
            typer.echo(pusher.told(board))
            try:
                while follow:
                    changed = {*board.take(review.poll()), *board.decide(decisions.poll())}
                    changed.update(pusher.tasks_about(board.gone))
                    if changed:
                        pusher.sync(board, sorted(changed))
                        say(pusher.told(board))
                    time.sleep(PAUSE)
            except KeyboardInterrupt:
                return


def read_to_end(follower: Follower, take: Callable[[Sequence[Record]], object]) -> None:
    while not follower.caught_up:
        records = follower.poll()
        take(records)
        if not records and not follower.caught_up:
            time.sleep(PAUSE)
    take(follower.poll())


def _pairs(given: Iterable[str]) -> dict[str, str]:
    found = {}
    for pair in given:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{pair!r} is not OLD=NEW, such as PER=PERSON", param_hint="--map")
        found[old] = new
    return found


Content = tuple[object, ...]


def content(prediction: Mapping[str, Any]) -> Content:
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
class Pusher:
    """Makes the project's predictions what the board says."""

    server: LabelStudio
    project: int
    control: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    _controls: list[Control] = field(init=False)
    _there: dict[int, dict[int, Content]] = field(init=False)
    _about: dict[str, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._controls = controls(self.server.project(self.project).get("parsed_label_config"))
        if self.control is not None:
            self._controls = [one for one in self._controls if one.name == self.control]
        if not self._controls:
            named = f"called {self.control}" if self.control else "over text"
            raise SettingsError(f"project {self.project} has no control for spans {named}")
        self._there, self._about = defaultdict(dict), defaultdict(set)
        for one in self.server.predictions(self.project):
            task, number = one.get("task"), one.get("id")
            ours = str(one.get("model_version") or "").startswith(VERSION_PREFIX)
            if ours and isinstance(task, int) and isinstance(number, int):
                self._keep(task, number, one)

    def _keep(self, task: int, number: int, prediction: Mapping[str, Any]) -> None:
        self._there[task][number] = content(prediction)
        annotation = annotation_of(prediction)
        if annotation is not None:
            self._about[annotation].add(task)

    def tasks_about(self, annotations: set[str]) -> list[int]:
        """The tasks with predictions about these annotations; each is told once."""
        found = sorted({task for one in annotations for task in self._about.pop(one, ())})
        annotations.clear()
        return found

    def sync(self, board: Board, tasks: Iterable[int]) -> None:
        wanted = {task: self._predictions(board.open(task)) for task in tasks}
        self._check_labels(prediction for some in wanted.values() for prediction in some)
        for task, predictions in wanted.items():
            self._sync_task(task, predictions)

    def _sync_task(self, task: int, predictions: list[dict[str, Any]]) -> None:
        stale = dict(self._there[task])
        for prediction in predictions:
            same = next((number for number, what in stale.items() if what == content(prediction)), None)
            if same is not None:
                del stale[same]
                self.counts["there"] += 1
                continue
            try:
                number = None if self.dry_run else self.server.predict(prediction).get("id")
            except RefusedError as error:
                self._refuse(task, error)
                continue
            self.counts["pushed"] += 1
            if isinstance(number, int):
                self._keep(task, number, prediction)
        for number in stale:
            self.counts["removed"] += 1
            if not self.dry_run:
                self.server.remove(number)
                del self._there[task][number]

    def _predictions(self, doubtful: Iterable[Doubt]) -> list[dict[str, Any]]:
        found = []
        for said, confirmed, labels in doubtful:
            control = self._control_of(said)
            task = int(str((said.meta or {})["task"]))
            try:
                made = label_studio_prediction(
                    said,
                    task=task,
                    from_name=control.name,
                    to_name=control.to_name,
                    rename=self.renamed,
                    corrected=labels,
                    confirmed=confirmed,
                )
            except InvalidInput as error:  # any program may write decisions
                self._refuse(task, error)
                continue
            if made is None:
                self.counts["textless"] += 1
            else:
                found.append(made)
        return found

    def _refuse(self, task: int, error: Exception) -> None:
        self.counts["refused"] += 1
        say(f"labelwatch: task {task} gets no prediction: {error}")

    def _control_of(self, said: Assessment) -> Control:
        named = (said.meta or {}).get("from_name")
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

    def told(self, board: Board) -> str:
        verb = "would be pushed" if self.dry_run else "pushed"
        parts = [
            f"{plural(self.counts['pushed'], 'prediction')} {verb} to project {self.project}",
            f"{self.counts['there']:,} were there already",
            f"{self.counts['removed']:,} no longer right {'would be' if self.dry_run else 'were'} removed",
        ]
        if self.counts["refused"]:
            parts.append(f"{self.counts['refused']:,} were refused")
        if self.counts["textless"]:
            parts.append(f"{plural(self.counts['textless'], 'sentence')} without text left out")
        if board.foreign:
            parts.append(f"{plural(board.foreign, 'message')} of other datasets or platforms left out")
        self.counts.clear()
        board.foreign = 0
        return "; ".join(parts)
