"""The command line: global options, and how errors end a command. The commands are listed in `commands`."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_group

from service import __version__
from service.cli.commands import COMMANDS
from service.cli.shared.help import prepare_help
from service.cli.shared.lazy_commands import LazyCommand
from service.cli.shared.terminal import print_stderr
from service.errors import LabelwatchError

if TYPE_CHECKING:
    from typer._click.core import Context


class CommandGroup(TyperGroup):
    """All commands. Drops the prefix that the validation library puts before a message."""

    def invoke(self, ctx: Context) -> object:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"labelwatch {__version__}")
        raise typer.Exit


def _declare_global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds label errors in token-classification data seconds after they are made."""


def build_command_line() -> TyperGroup:
    group = get_group(typer.Typer(cls=CommandGroup, callback=_declare_global_options, no_args_is_help=True))
    prepare_help(group, "")
    for entry in COMMANDS:
        group.add_command(LazyCommand(entry))
    return group


def main() -> None:
    """Runs a command. An error that the user can fix is one line on stderr and exit code 1, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # escapes characters that the terminal can't show
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            build_command_line()()
        finally:
            if sys.stdout is not None:  # None if the caller has closed it
                sys.stdout.flush()
    except LabelwatchError as error:
        _exit_with_failure(str(error), error.exit_code)
    except BrokenPipeError:  # the reader of a pipe has stopped, as `head` does
        _exit_with_failure(None)
    except OSError as error:
        _exit_with_failure(
            f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror or str(error)
        )


def _exit_with_failure(problem: str | None, exit_code: int = 1) -> NoReturn:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # The interpreter flushes again as it exits. That must not fail with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if problem is not None:
        with suppress(OSError):
            print_stderr(f"labelwatch: {problem}")
    sys.exit(exit_code)
