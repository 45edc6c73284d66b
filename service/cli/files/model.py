"""`labelwatch model check DIR`: whether a model folder works, how fast, and whether batches change its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.shared.model_options import PrecisionOption, ThreadsOption
from service.inference.model.self_check import check_model_folder

model_app = typer.Typer(no_args_is_help=True)


@model_app.command()
def check(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with model.onnx, tokenizer.json and config.json or model.json."),
    ],
    precision: PrecisionOption = "fast",
    threads: ThreadsOption = 1,
) -> None:
    """Check whether a model folder works, how fast, and whether batches change its answers."""
    typer.echo(check_model_folder(folder, precision=precision, threads=threads).to_text())
