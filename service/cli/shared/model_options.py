"""Options of commands that run a model."""

from __future__ import annotations

from typing import Annotated

import typer

from service.inference.model.folder import Precision

MODEL_PANEL = "Model"

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR",
        rich_help_panel=MODEL_PANEL,
        help="Model of the registry, a model folder, or `light`, which is faster. Default: LABELWATCH_MODEL_FOLDER, or the "
        "default model.",
    ),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision",
        rich_help_panel=MODEL_PANEL,
        help="Graph of the model folder: `fast`, or `exact`, which gives the same answers on every CPU.",
    ),
]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads", min=1, metavar="N", rich_help_panel=MODEL_PANEL, help="Threads of the onnxruntime session."
    ),
]
