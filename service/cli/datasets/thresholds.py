"""`labelwatch thresholds show|reset`: the thresholds that the stream has learned, and how to start them anew."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.datasets.audited_change import write_audited_change
from service.cli.shared.options import DatasetFilterOption, JsonOption, YesOption
from service.cli.shared.tables import render_table
from service.cli.shared.terminal import print_stderr, sanitize
from service.datasets.changes import raise_epoch
from service.datasets.registry import check_dataset_exists
from service.datasets.threshold_view import ThresholdView, build_threshold_view
from service.errors import MissingModelError
from service.inference.model.pool import shorten_fingerprint
from service.runtime.datasets.settings import load_datasets
from service.runtime.load_model import build_model_pool
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings
from service.stream.state.reader import read_state
from service.stream.state.snapshot import StatsKey
from service.text import pluralize

if TYPE_CHECKING:
    from service.judging.judge import Judge
    from service.stream.state.snapshot import StateSnapshot

DatasetArgument = Annotated[str | None, typer.Argument(metavar="DATASET", help="Only this dataset, as with --dataset.")]
ResetDatasetArgument = Annotated[
    str, typer.Argument(metavar="DATASET", help="The dataset whose statistics start anew.")
]

thresholds_app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class DatasetThresholds:
    """The thresholds of a dataset, with what else the log contains about it."""

    view: ThresholdView
    other_statistics: list[str]  # stats keys of older models and epochs
    problem: str | None  # why newer settings are not in force

    def to_json_object(self) -> dict[str, Any]:
        view = self.view
        return {
            "name": view.dataset,
            "version": view.version,
            "epoch": view.epoch,
            "model": view.model.model_dump(),
            "flag_policy": view.flag_policy.model_dump(),
            "cut": view.cutoff,
            "sentences": view.sentences,
            "classes": [asdict(threshold) for threshold in view.classes],
            "other_statistics": self.other_statistics,
            "problem": self.problem,
        }


@thresholds_app.command()
def show(named: DatasetArgument = None, dataset: DatasetFilterOption = None, as_json: JsonOption = False) -> None:
    """Show the thresholds of each dataset, from the statistics of all partitions together."""
    if named is not None and dataset not in (None, named):
        raise typer.BadParameter(
            f"the argument names {named}: name one dataset, or none for all", param_hint="--dataset"
        )
    dataset = named if dataset is None else dataset
    settings = read_settings()
    topics, models = build_topics(settings), build_model_pool(settings)
    with open_existing_log(settings) as log:
        registry = load_datasets(settings, models, log, topics)
        snapshot = read_state(log, topics).snapshot
    names = registry.list_names(snapshot.datasets)
    if dataset is not None:
        check_dataset_exists(dataset, names)
        names = (dataset,)
    states = [registry.get_settings_state(name) for name in names]
    shown = []
    for state in states:
        try:
            judge = registry.build_judge(state.in_force)
        except MissingModelError as error:
            if dataset is not None:
                raise
            print_stderr(f"labelwatch: {error}")
            continue
        shown.append(_read_thresholds(judge, snapshot, state.problem))
    if as_json:
        model = {"name": models.default.name, "fingerprint": models.default.fingerprint}
        datasets = [thresholds.to_json_object() for thresholds in shown]
        typer.echo(json.dumps({"model": model, "datasets": datasets}, ensure_ascii=False))
        return
    for thresholds in shown:
        typer.echo(_render_thresholds(thresholds, settings.worker.prior_words) + "\n")
    if not shown:
        typer.echo("no dataset has settings, and no sentences have been learned yet")


def _read_thresholds(judge: Judge, snapshot: StateSnapshot, problem: str | None) -> DatasetThresholds:
    own_key, stats = StatsKey.from_judge(judge), snapshot.get_stats(judge)
    others = sorted(key.stats_key for key in snapshot.keys if key.dataset == own_key.dataset and key != own_key)
    return DatasetThresholds(build_threshold_view(judge, stats), others, problem)


def _render_thresholds(thresholds: DatasetThresholds, prior_words: int) -> str:
    view = thresholds.view
    head = (
        f"{view.dataset}: {pluralize(view.sentences, 'sentence')} learned from, settings version {view.version}, "
        f"epoch {view.epoch}, policy {view.flag_policy.kind}, model {view.model.name} "
        f"({shorten_fingerprint(view.model.fingerprint)})"
    )
    rows = [
        [
            threshold.name,
            f"{threshold.own_words:,}",
            "none yet" if threshold.threshold is None else f"{threshold.threshold:.6f}",
            "" if threshold.prior is None else f"{threshold.prior:.6f} x {prior_words}",
            "warming up" if threshold.warming_up else "",
        ]
        for threshold in view.classes
    ]
    lines = [
        sanitize(head),
        render_table(["class", "own words", "threshold", "prior", ""], rows, right_aligned=(1, 2, 3)),
    ]
    if thresholds.other_statistics:
        count = pluralize(len(thresholds.other_statistics), "set")
        lines.append(f"({count} of statistics of other models, class lists or epochs beside it)")
    if thresholds.problem is not None:
        lines.append(sanitize(f"newer settings are not in force: {thresholds.problem}"))
    return "\n".join(lines)


@thresholds_app.command()
def reset(dataset: ResetDatasetArgument, yes: YesOption = False) -> None:
    """Start a dataset's statistics anew by raising its epoch. The old ones stay in the log, unused."""
    settings = read_settings()
    topics, models = build_topics(settings), build_model_pool(settings)
    with open_existing_log(settings) as log:
        registry = load_datasets(settings, models, log, topics)
        learned = read_state(log, topics).snapshot.datasets
        check_dataset_exists(dataset, registry.list_names(learned))
        state = registry.get_settings_state(dataset)
        change = raise_epoch(state, build_judge=registry.build_judge)
        if not yes:
            typer.confirm(
                f"Forget what was learned of {dataset} (epoch {state.in_force.epoch}) and start anew?", abort=True
            )
        write_audited_change(log, topics, change, ("epoch",))
    typer.echo(f"{dataset} starts anew with epoch {change.settings.epoch} (settings version {change.settings.version})")
