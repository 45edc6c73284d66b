"""`labelwatch model check DIR`: does a model folder work, how fast is it, does it answer the same in every batch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.inference.model.folder import Precision
from service.inference.model.self_check import check_model_folder

model_app = typer.Typer(help="Look at a model folder.", no_args_is_help=True)


@model_app.callback()
def declare_model_group() -> None:
    """Look at a model folder."""


@model_app.command()
def check(
    folder: Annotated[
        Path, typer.Argument(help="Folder with model.onnx, tokenizer.json and config.json or model.json.")
    ],
    precision: Annotated[Precision, typer.Option(help="Which of the folder's graphs.")] = "fast",
    threads: Annotated[int, typer.Option(min=1, help="Threads of the onnxruntime session.")] = 1,
) -> None:
    """Say whether a model folder works, how fast, and whether batch mates change its answers."""
    typer.echo(check_model_folder(folder, precision=precision, threads=threads).to_text())
