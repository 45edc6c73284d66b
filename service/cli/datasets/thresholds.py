"""`labelwatch thresholds show|reset`: what the stream has learned, and how to have it start anew."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.shared.tables import table
from service.cli.shared.terminal import safe
from service.contracts import DatasetSettings
from service.datasets.registry import Latest
from service.errors import InvalidInput
from service.runtime.open_log import (
    known_datasets,
    model_folder,
    read_latest,
    read_state,
    reading,
    topics_of,
    write_settings,
)
from service.settings import read_settings
from service.stream.state.snapshot import Account
from service.text import plural

if TYPE_CHECKING:
    from service.judging.judge import Judge
    from service.stream.state.snapshot import Ledger

OfDataset = Annotated[str | None, typer.Option("--dataset", metavar="D", help="Only this dataset.")]
Named = Annotated[str | None, typer.Argument(metavar="DATASET", help="Only this dataset, as with --dataset.")]
AsJson = Annotated[bool, typer.Option("--json", help="As one JSON object.")]
Name = Annotated[str, typer.Argument(metavar="DATASET", help="Whose statistics start anew.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]

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
def show(named: Named = None, dataset: OfDataset = None, as_json: AsJson = False) -> None:
    """Show the thresholds of each dataset, from the statistics of all partitions together."""
    if named is not None and dataset not in (None, named):
        raise typer.BadParameter(f"{named} stands there too: name one dataset, or none for all", param_hint="--dataset")
    dataset = named if dataset is None else dataset
    settings = read_settings()
    topics, folder = topics_of(settings), model_folder(settings)
    with reading(settings, topics) as stream:
        datasets = known_datasets(settings, folder, stream, topics)
        ledger = read_state(stream, topics).ledger
    names = {*datasets.names, *datasets.refused, *(account.dataset for account in ledger.totals)}
    if dataset is not None and dataset not in names:
        raise _unknown(dataset, names)
    chosen = sorted(names) if dataset is None else [dataset]
    views = [_view(datasets.judge(name), ledger, datasets.refused.get(name)) for name in chosen]
    if as_json:
        model = {"name": folder.name, "fingerprint": folder.fingerprint}
        typer.echo(json.dumps({"model": model, "datasets": [asdict(view) for view in views]}, ensure_ascii=False))
        return
    for view in views:
        typer.echo(_text(view, settings.worker.prior_words) + "\n")
    if not views:
        typer.echo("nothing is learned yet, and no dataset is set up")


def _view(judge: Judge, ledger: Ledger, problem: str | None) -> DatasetView:
    settings = judge.settings
    account = Account(settings.name, judge.stats_key)
    stats = ledger.total(account, judge.empty())
    now, before = judge.yardstick(stats), judge.yardstick(judge.empty())  # before any own word: the prior alone
    words = stats.total(settings.forget_after_days).counts
    return DatasetView(
        name=settings.name,
        version=settings.version,
        epoch=settings.epoch,
        flag_policy=settings.flag_policy.model_dump(),
        sentences=stats.histogram.total,
        classes=[
            ClassView(name, count, now.named[name], before.named[name], name in now.warming_up)
            for name, count in zip(judge.classes, words, strict=True)
        ],
        other_statistics=sorted(
            other.stats_key for other in ledger.totals if other.dataset == settings.name and other != account
        ),
        problem=problem,
    )


def _text(view: DatasetView, prior_words: int) -> str:
    head = (
        f"{view.name}: {plural(view.sentences, 'sentence')} learned from, settings version {view.version}, "
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
    lines = [safe(head), table(["class", "own words", "threshold", "prior", ""], rows, right=(1, 2, 3))]
    if view.other_statistics:
        lines.append(f"({plural(len(view.other_statistics), 'set')} of statistics of older models or epochs beside it)")
    if view.problem is not None:
        lines.append(safe(f"newer settings are not in force: {view.problem}"))
    return "\n".join(lines)


@thresholds_app.command()
def reset(dataset: Name, yes: Yes = False) -> None:
    """Have a dataset's statistics start anew: its epoch is raised. The old ones stay in the log, unused."""
    settings = read_settings()
    topics = topics_of(settings)
    with reading(settings, topics) as stream:
        known = {name: latest for name, latest in read_latest(stream, topics).items() if latest.value is not None}
        if dataset not in known:
            learned = {account.dataset for account in read_state(stream, topics).ledger.totals}
            if dataset not in learned:
                raise _unknown(dataset, {*known, *learned})
        # As it was written, so that fields of a newer version survive.
        latest = known.get(dataset, Latest())
        fields: dict[str, Any] = json.loads(latest.value or b"{}")
        before = DatasetSettings.model_validate({**fields, "name": dataset})
        changed = {"name": dataset, "epoch": before.epoch + 1, "version": before.version + 1}
        if not yes:
            typer.confirm(f"Forget what was learned of {dataset} (epoch {before.epoch}) and start anew?", abort=True)
        write_settings(stream, topics, {**fields, **changed}, latest)
    typer.echo(f"{dataset} starts anew with epoch {changed['epoch']} (settings version {changed['version']})")


def _unknown(dataset: str, names: set[str]) -> InvalidInput:
    known = ", ".join(sorted(names)) or "none yet"
    return InvalidInput(f"{dataset!r} is not known: the datasets are {known}", field="dataset")
