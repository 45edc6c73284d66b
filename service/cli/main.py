"""The command line: each command lives in `service/commands`, this module only joins them."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.core import TyperGroup

from service import __version__
from service.cli.files.evaluate import evaluate
from service.cli.files.model import model_app
from service.cli.files.score import score
from service.cli.serve.api import api
from service.cli.serve.key import key_app
from service.cli.serve.up import up
from service.cli.shared.terminal import print_stderr
from service.cli.stream_commands import register_stream_commands
from service.errors import LabelwatchError

if TYPE_CHECKING:
    from typer._click.core import Context


class CommandGroup(TyperGroup):
    """All commands. What the library's validator puts before its messages says nothing to who has to correct a value."""

    def invoke(self, ctx: Context) -> object:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="labelwatch",
    cls=CommandGroup,
    help="Finds label errors in token-classification data seconds after they are made.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"labelwatch {__version__}")
        raise typer.Exit


@app.callback()
def declare_global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Finds label errors in token-classification data seconds after they are made."""


app.command()(up)
app.command()(api)
app.command()(score)
app.command()(evaluate)
app.add_typer(key_app, name="key")
app.add_typer(model_app, name="model")
register_stream_commands(app)


def main() -> None:
    """Runs a command; what the user can mend is one sentence on stderr and exit code 1, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that can't show a character still gets the rest
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # it is where the caller has closed it
                sys.stdout.flush()
    except LabelwatchError as error:
        _exit_with_failure(str(error))
    except BrokenPipeError:  # who reads has seen enough
        _exit_with_failure(None)
    except OSError as error:
        _exit_with_failure(
            f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror or str(error)
        )


def _exit_with_failure(problem: str | None) -> NoReturn:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # What can't be written would be tried again at the very end, and fail with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if problem is not None:
        with suppress(OSError):
            print_stderr(f"labelwatch: {problem}")
    sys.exit(1)
