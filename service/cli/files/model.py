"""`labelwatch model`: the models of the registry, and whether a model works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.shared.model_options import PrecisionOption, ThreadsOption
from service.cli.shared.options import YesOption
from service.cli.shared.tables import render_table
from service.errors import ModelError
from service.inference.model.folder import ModelFolder
from service.inference.model.registry import ModelRegistry
from service.inference.model.self_check import check_model_folder
from service.runtime.load_model import find_model
from service.settings import read_settings

model_app = typer.Typer(no_args_is_help=True)

ModelArgument = Annotated[
    str, typer.Argument(metavar="NAME|DIR", help="Name of a model in the registry, or a model folder.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of a model in the registry.")]


@model_app.command()
def check(model: ModelArgument, precision: PrecisionOption = "fast", threads: ThreadsOption = 1) -> None:
    """Check whether a model works, how fast, and whether batches change its answers."""
    path = find_model(model, read_settings())
    typer.echo(check_model_folder(path, precision=precision, threads=threads).to_text())


@model_app.command("list")
def list_models() -> None:
    """List the models of the registry."""
    registry = _open_registry()
    rows = []
    for name in registry.list_names():
        try:
            folder = ModelFolder.load(registry.find(name))
        except ModelError as error:
            rows.append((name, "unusable", str(error), ""))
        else:
            kind = "trained" if folder.heads is not None else "classifier"
            rows.append((name, kind, " ".join(folder.labels), folder.fingerprint[:12]))
    if not rows:
        typer.echo(f"{registry.path} has no models: add one with `labelwatch train` or `labelwatch model add`")
        return
    typer.echo(render_table(("name", "kind", "labels", "fingerprint"), rows))


@model_app.command()
def add(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Model folder to copy into the registry.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Name in the registry. Default: the folder's name.")
    ] = None,
) -> None:
    """Copy a model folder into the registry."""
    path = _open_registry().add(folder, name or folder.resolve().name.lower())
    typer.echo(f"added {path}")


@model_app.command()
def remove(name: NameArgument, yes: YesOption = False) -> None:
    """Remove a model from the registry. Statistics of datasets that used it stay."""
    registry = _open_registry()
    path = registry.find(name)
    if not yes:
        typer.confirm(f"Remove {path}?", abort=True)
    registry.remove(name)
    typer.echo(f"removed {path}")


def _open_registry() -> ModelRegistry:
    return ModelRegistry(read_settings().models.path)
