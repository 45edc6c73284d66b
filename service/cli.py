"""The command line: each command lives in `service/commands`, this module only joins them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from service import __version__
from service.commands.evaluate import evaluate
from service.commands.model import model_app
from service.commands.score import score
from service.commands.streams_cli import register
from service.errors import LabelwatchError

app = typer.Typer(
    name="labelwatch",
    help="Finds label errors in token-classification data seconds after they are made.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"labelwatch {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Finds label errors in token-classification data seconds after they are made."""


app.command()(score)
app.command()(evaluate)
app.add_typer(model_app, name="model")
register(app)


def main() -> None:
    """Runs a command; what the user can mend is one sentence on stderr and exit code 1, never a traceback."""
    try:
        app()
    except LabelwatchError as error:
        print(f"labelwatch: {error}", file=sys.stderr)
        sys.exit(1)
