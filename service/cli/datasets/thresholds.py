"""`labelwatch thresholds show|reset`: what the stream has learned, and how to have it start anew."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.shared.tables import render_table
from service.cli.shared.terminal import sanitize
from service.contracts import DatasetSettings
from service.datasets.registry import LatestSettings
from service.errors import InvalidInput
from service.runtime.dataset_settings import load_datasets, read_latest_settings, write_settings
from service.runtime.load_model import load_model_folder
from service.runtime.open_log import build_topics, open_existing_log
from service.runtime.read_state import read_state
from service.settings import read_settings
from service.stream.state.snapshot import StatsKey
from service.text import pluralize

if TYPE_CHECKING:
    from service.judging.judge import Judge
    from service.stream.state.snapshot import StateSnapshot

DatasetOption = Annotated[str | None, typer.Option("--dataset", metavar="D", help="Only this dataset.")]
DatasetArgument = Annotated[str | None, typer.Argument(metavar="DATASET", help="Only this dataset, as with --dataset.")]
JsonOption = Annotated[bool, typer.Option("--json", help="As one JSON object.")]
ResetDatasetArgument = Annotated[str, typer.Argument(metavar="DATASET", help="Whose statistics start anew.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]

thresholds_app = typer.Typer(help="What the stream has learned of each class.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class ClassView:
    name: str
    own_words: int
    threshold: float | None
    prior: float | None
    warming_up: bool


@dataclass(frozen=True, slots=True)
class DatasetView:
    """What sentences of a dataset are judged with now."""

    name: str
    version: int
    epoch: int
    flag_policy: dict[str, Any]
    sentences: int
    classes: list[ClassView]
    other_statistics: list[str]  # of older models and epochs
    problem: str | None  # why newer settings are not in force


@thresholds_app.command()
def show(named: DatasetArgument = None, dataset: DatasetOption = None, as_json: JsonOption = False) -> None:
    """Show the thresholds of each dataset, from the statistics of all partitions together."""
    if named is not None and dataset not in (None, named):
        raise typer.BadParameter(f"{named} stands there too: name one dataset, or none for all", param_hint="--dataset")
    dataset = named if dataset is None else dataset
    settings = read_settings()
    topics, folder = build_topics(settings), load_model_folder(settings)
    with open_existing_log(settings) as stream:
        datasets = load_datasets(settings, folder, stream, topics)
        ledger = read_state(stream, topics).snapshot
    names = {*datasets.names, *datasets.refused_settings, *(account.dataset for account in ledger.totals)}
    if dataset is not None and dataset not in names:
        raise _build_unknown_dataset_error(dataset, names)
    chosen = sorted(names) if dataset is None else [dataset]
    views = [_build_view(datasets.get_judge(name), ledger, datasets.refused_settings.get(name)) for name in chosen]
    if as_json:
        model = {"name": folder.name, "fingerprint": folder.fingerprint}
        typer.echo(json.dumps({"model": model, "datasets": [asdict(view) for view in views]}, ensure_ascii=False))
        return
    for view in views:
        typer.echo(_render_view(view, settings.worker.prior_words) + "\n")
    if not views:
        typer.echo("nothing is learned yet, and no dataset is set up")


def _build_view(judge: Judge, ledger: StateSnapshot, problem: str | None) -> DatasetView:
    settings = judge.settings
    account = StatsKey(settings.name, judge.stats_key)
    stats = ledger.get_total(account, judge.create_empty_stats())
    now, before = (
        judge.build_threshold_set(stats),
        judge.build_threshold_set(judge.create_empty_stats()),
    )  # before any own word: the prior alone
    words = stats.get_total(settings.forget_after_days).counts
    return DatasetView(
        name=settings.name,
        version=settings.version,
        epoch=settings.epoch,
        flag_policy=settings.flag_policy.model_dump(),
        sentences=stats.histogram.total,
        classes=[
            ClassView(name, count, now.by_class[name], before.by_class[name], name in now.warming_up)
            for name, count in zip(judge.classes, words, strict=True)
        ],
        other_statistics=sorted(
            other.stats_key for other in ledger.totals if other.dataset == settings.name and other != account
        ),
        problem=problem,
    )


def _render_view(view: DatasetView, prior_words: int) -> str:
    head = (
        f"{view.name}: {pluralize(view.sentences, 'sentence')} learned from, settings version {view.version}, "
        f"epoch {view.epoch}, policy {view.flag_policy['kind']}"
    )
    rows = [
        [
            one.name,
            f"{one.own_words:,}",
            "none yet" if one.threshold is None else f"{one.threshold:.6f}",
            "" if one.prior is None else f"{one.prior:.6f} x {prior_words}",
            "warming up" if one.warming_up else "",
        ]
        for one in view.classes
    ]
    lines = [
        sanitize(head),
        render_table(["class", "own words", "threshold", "prior", ""], rows, right_aligned=(1, 2, 3)),
    ]
    if view.other_statistics:
        lines.append(
            f"({pluralize(len(view.other_statistics), 'set')} of statistics of older models or epochs beside it)"
        )
    if view.problem is not None:
        lines.append(sanitize(f"newer settings are not in force: {view.problem}"))
    return "\n".join(lines)


@thresholds_app.command()
def reset(dataset: ResetDatasetArgument, yes: YesOption = False) -> None:
    """Have a dataset's statistics start anew: its epoch is raised. The old ones stay in the log, unused."""
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as stream:
        known = {
            name: latest for name, latest in read_latest_settings(stream, topics).items() if latest.value is not None
        }
        if dataset not in known:
            learned = {account.dataset for account in read_state(stream, topics).snapshot.totals}
            if dataset not in learned:
                raise _build_unknown_dataset_error(dataset, {*known, *learned})
        # As it was written, so that fields of a newer version survive.
        latest = known.get(dataset, LatestSettings())
        fields: dict[str, Any] = json.loads(latest.value or b"{}")
        before = DatasetSettings.model_validate({**fields, "name": dataset})
        changed = {"name": dataset, "epoch": before.epoch + 1, "version": before.version + 1}
        if not yes:
            typer.confirm(f"Forget what was learned of {dataset} (epoch {before.epoch}) and start anew?", abort=True)
        write_settings(stream, topics, {**fields, **changed}, latest)
    typer.echo(f"{dataset} starts anew with epoch {changed['epoch']} (settings version {changed['version']})")


def _build_unknown_dataset_error(dataset: str, names: set[str]) -> InvalidInput:
    known = ", ".join(sorted(names)) or "none yet"
    return InvalidInput(f"{dataset!r} is not known: the datasets are {known}", field="dataset")
