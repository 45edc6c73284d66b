"""`labelwatch model`: the models of the registry, and whether a model works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.shared.model_options import PrecisionOption, ThreadsOption
from service.cli.shared.options import YesOption
from service.cli.shared.tables import render_table
from service.cli.shared.terminal import print_stderr
from service.errors import ModelError, SettingsError, StreamError
from service.inference.model.default import INCLUDED_MODELS, is_reserved_name
from service.inference.model.folder import ModelFolder
from service.inference.model.pool import shorten_fingerprint
from service.inference.model.registry import ModelRegistry
from service.inference.model.self_check import check_model_folder
from service.inference.providers import parse_providers
from service.runtime.datasets.settings import read_dataset_settings
from service.runtime.lifecycle.process import end_if_stuck
from service.runtime.load_model import find_model, name_model_origin
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings

if TYPE_CHECKING:
    from service.settings import Settings

model_app = typer.Typer(no_args_is_help=True)

MAX_CHECK_S = 300.0  # the default model takes seconds

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME|DIR",
        help="Name of a model in the registry, `light`, or a model folder. Default: LABELWATCH_MODEL_FOLDER, or the default "
        "model.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Remove it even if a dataset uses it.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of a model in the registry.")]


@model_app.command()
def check(model: ModelArgument = None, precision: PrecisionOption = "fast", threads: ThreadsOption = 1) -> None:
    """Check whether a model works, how fast, and whether batches change its answers."""
    settings = read_settings()
    with name_model_origin(model, settings, option=None):
        path = find_model(model, settings)
    stuck = f"the check of {path} is not done after {MAX_CHECK_S:g} s: its graph may never end, so don't use it"
    with end_if_stuck(MAX_CHECK_S, stuck), name_model_origin(model, settings, option=None):
        report = check_model_folder(
            path, precision=precision, threads=threads, providers=parse_providers(settings.model.providers)
        )
    typer.echo(report.to_text())


@model_app.command("list")
def list_models() -> None:
    """List the models of the registry and those that are part of labelwatch, and the datasets that use them."""
    settings = read_settings()
    registry, users = ModelRegistry(settings.models.path), _find_users(settings)
    rows = []
    for name in registry.list_choices():
        datasets = "?" if users is None else ", ".join(users.get(name, ()))
        try:
            folder = ModelFolder.load(registry.resolve(name))
        except ModelError as error:
            rows.append((name, "unusable", str(error), "", datasets))
        else:
            kind = "trained" if folder.heads is not None else "classifier"
            kind = kind if folder.path == registry.get_path(name) else "included"
            fingerprint = shorten_fingerprint(folder.fingerprint)
            rows.append((name, kind, " ".join(folder.labels), fingerprint, datasets))
    if rows:
        typer.echo(render_table(("name", "kind", "labels", "fingerprint", "datasets"), rows))
    if not registry.list_names():
        typer.echo(
            f"{registry.path} has no models: add one with `labelwatch train` or `labelwatch model add`. The default model and "
            f"{', '.join(INCLUDED_MODELS)} are part of labelwatch"
        )


@model_app.command()
def add(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Model folder to copy into the registry.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name in the registry. Default: the folder's name.")
    ] = None,
) -> None:
    """Copy a model folder into the registry."""
    registry, name = ModelRegistry(read_settings().models.path), name or folder.resolve().name.lower()
    if not folder.exists() and is_reserved_name(str(folder)):
        raise ModelError(
            f"{folder} is the name of a model that is part of labelwatch: there is nothing to add. To add one of your own, give "
            "its folder"
        )
    path = registry.add(folder, name)
    typer.echo(f"added {path}")
    if name in INCLUDED_MODELS:
        print_stderr(
            f"{name} is also the name of a model that is part of labelwatch: this one takes its place until "
            f"`labelwatch model remove {name}`"
        )


@model_app.command()
def remove(name: NameArgument, force: ForceOption = False, yes: YesOption = False) -> None:
    """Remove a model from the registry, if no dataset uses it. Statistics of datasets that used it stay."""
    settings = read_settings()
    registry = ModelRegistry(settings.models.path)
    path = registry.find_removable(name)
    if not force:
        _check_unused(name, settings)
    if not yes:
        typer.confirm(f"Remove {path}?", abort=True)
    registry.remove(name)
    typer.echo(f"removed {path}")


def _check_unused(name: str, settings: Settings) -> None:
    users = _find_users(settings)
    if users is None:
        raise SettingsError(f"can't find out whether a dataset uses {name}: give --force to remove it all the same")
    if name in users:
        raise SettingsError(
            f"{name} judges {', '.join(users[name])}, and would be missing there: give each of them another model first "
            f"(`labelwatch datasets set {users[name][0]} model=NAME`), or remove it with --force"
        )


def _find_users(settings: Settings) -> dict[str, list[str]] | None:
    """The datasets that name each model; None, with a line on stderr, if the log does not answer."""
    if settings.kafka is None and not settings.log.path.exists():
        return {}
    try:
        with open_existing_log(settings) as log:
            by_dataset = read_dataset_settings(log, build_topics(settings))
    except StreamError as error:
        print_stderr(f"labelwatch: can't read which datasets use a model: {error}")
        return None
    users: dict[str, list[str]] = {}
    for dataset in sorted(by_dataset):
        model = by_dataset[dataset].model
        if model is not None:
            users.setdefault(model, []).append(dataset)
    return users
