"""`labelwatch datasets models`: which model a dataset uses, when the next is trained, and what came of the trainings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from service.access.audit_log import get_command_actor
from service.cli.shared.tables import render_table
from service.cli.shared.terminal import sanitize
from service.contracts import DatasetSettings
from service.datasets.registry import check_dataset_exists
from service.datasets.training_schedule import build_dataset_models
from service.datasets.trainings import Trainings, create_request, write_request
from service.log.read import read_topic
from service.runtime.datasets.settings import read_dataset_settings
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings
from service.stream.state.reader import read_state
from service.text import pluralize

if TYPE_CHECKING:
    from service.contracts import DatasetModels, Training

TIME_FORMAT = "%Y-%m-%d %H:%M"


def show_models(name: str, *, as_json: bool) -> None:
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as log:
        by_dataset, snapshot = read_dataset_settings(log, topics), read_state(log, topics).snapshot
        trainings = Trainings(read_topic(log, topics.models))
    check_dataset_exists(name, sorted({*by_dataset, *snapshot.datasets, *trainings.datasets}))
    waiting = snapshot.get_arrivals(name).total.waiting
    models = build_dataset_models(
        by_dataset.get(name) or DatasetSettings(name=name),
        trainings.list_newest_first(name),
        waiting=waiting,
        arrived=waiting + snapshot.count_sentences_by_dataset()[name],
        min_sentences=settings.trainer.min_sentences,
        default=settings.trainer.is_auto(with_trainer=True),
        request=trainings.find_request(name),
    )
    if as_json:
        typer.echo(models.model_dump_json())
        return
    for line in render_models(models).splitlines():
        typer.echo(sanitize(line))


def request_training(name: str) -> None:
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as log:
        by_dataset, snapshot = read_dataset_settings(log, topics), read_state(log, topics).snapshot
        check_dataset_exists(name, sorted({*by_dataset, *snapshot.datasets}))
        trainings = Trainings(read_topic(log, topics.models))
        running = [each for each in trainings.list_running() if each.dataset == name]
        if running:
            typer.echo(f"{running[0].model} is being trained already")
            return
        if trainings.find_request(name) is None:
            audit = get_command_actor().build_message(topics.audit, "training", dataset=name)
            write_request(log, topics.models, create_request(name), trainings.get_request_state(name), also=[audit])
    typer.echo(f"a training of {name} is requested: a trainer that runs (labelwatch up, labelwatch trainer) starts it")


def render_models(models: DatasetModels) -> str:
    lines = [describe_model(models), describe_next_training(models)]
    if models.trainings:
        head = ["model", "started (UTC)", "result", "sentences", "F1", "F1 by type, or why"]
        lines += ["", render_table(head, [_render_row(each) for each in models.trainings], right_aligned=(3, 4))]
    return "\n".join(lines)


def describe_model(models: DatasetModels) -> str:
    if models.model is None:
        verb = "waits" if models.waiting == 1 else "wait"
        waiting = f", and {pluralize(models.waiting, 'sentence')} {verb} for one that fits" if models.waiting else ""
        return f"{models.dataset} uses the default model of the service{waiting}"
    since = "" if models.used_since is None else f" since {models.used_since:{TIME_FORMAT}} UTC"
    return f"{models.dataset} uses the model {models.model}{since}"


def describe_next_training(models: DatasetModels) -> str:
    newest = next(iter(models.trainings), None)
    if newest is not None and newest.result == "running":
        return f"{newest.model} is being trained{_describe_progress(newest)}"
    if models.requested_at is not None:
        return f"a training was requested at {models.requested_at:{TIME_FORMAT}} UTC: a trainer that runs starts it"
    if not models.auto_train:
        return f"the trainer leaves it alone; `labelwatch datasets set {models.dataset} auto_train=true` changes that"
    is_first = all(each.result not in ("used", "not_used") for each in models.trainings)
    goal = "the first model" if models.model is None and is_first else "the next training"
    return f"{models.arrived:,} of {models.due_at:,} sentences until {goal}"


def _describe_progress(training: Training) -> str:
    progress = training.progress
    if progress is None:
        return ""
    return f": {progress.step}" + (f" {progress.done:,} of {progress.total:,}" if progress.total else "")


def _render_row(training: Training) -> list[str]:
    by_type = ", ".join(f"{each.name} {each.f1:.2f}" for each in training.types)
    return [
        training.model,
        f"{training.started_at:{TIME_FORMAT}}",
        training.result.replace("_", " "),
        "" if training.sentences is None else f"{training.sentences:,}",
        "" if training.f1 is None else f"{training.f1:.2f}",
        training.reason or by_type,
    ]
