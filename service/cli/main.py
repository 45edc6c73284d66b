"""The command line: the list of commands, and how errors end a command.

A command's module is imported when the command runs, so that `labelwatch --help` does not wait for numpy.
"""

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
from service.cli.shared.lazy_commands import CommandEntry, LazyCommand
from service.cli.shared.terminal import print_stderr
from service.errors import LabelwatchError

if TYPE_CHECKING:
    from typer._click.core import Context

# In the order of `labelwatch --help`. For a function, a test compares the help with the function's docstring.
COMMANDS = (
    CommandEntry(
        "up",
        "service.cli.serve.up:up",
        "Run the REST API and a worker in one process, on the embedded log, or on Kafka if a broker is set.",
    ),
    CommandEntry(
        "api",
        "service.cli.serve.api:api",
        "Serve the REST API until SIGTERM or Ctrl-C. Workers in other processes assess the sentences it receives.",
    ),
    CommandEntry(
        "score",
        "service.cli.files.score:score",
        "Audit files of labelled sentences: find doubtful labels, and list the sentences to look at first.",
    ),
    CommandEntry(
        "evaluate",
        "service.cli.files.evaluate:evaluate",
        "Measure how well the scores find labels that are known to be wrong: the paper's tables, with intervals.",
    ),
    CommandEntry(
        "send",
        "service.cli.stream.send:send",
        "Send the sentences of files to the input topic. They are safe in the log when the command ends.",
    ),
    CommandEntry(
        "tail",
        "service.cli.stream.tail:tail",
        "Print the newest assessments or dead letters, with the doubtful words marked.",
    ),
    CommandEntry(
        "export",
        "service.cli.stream.export:export",
        "Write a dataset's sentences, each in its newest revision, with reviewers' corrections where they agree.",
    ),
    CommandEntry(
        "replay",
        "service.cli.stream.replay:replay",
        "Assess the input again into topics with another prefix, and compare the flags. Live topics are only read.",
    ),
    CommandEntry(
        "check",
        "service.cli.serve.check:check",
        "Check settings, model, log and topics, and print what to change. Exit code 1 if anything is wrong.",
    ),
    CommandEntry("key", "service.cli.serve.key:key_app", "Manage the keys of the REST API."),
    CommandEntry("model", "service.cli.files.model:model_app", "Check a model folder."),
    CommandEntry(
        "worker",
        "service.cli.serve.worker:worker_app",
        "Assess sentences as they arrive, until SIGTERM or Ctrl-C. The current batch is finished first.",
    ),
    CommandEntry(
        "dead-letters",
        "service.cli.stream.dead_letters:dead_letters_app",
        "List messages that could not be assessed, and send them again.",
    ),
    CommandEntry(
        "push",
        "service.integrations.label_studio.push:push_app",
        "Send doubts back to where the annotations come from.",
    ),
    CommandEntry(
        "datasets", "service.cli.datasets.datasets:datasets_app", "Show and change the settings of each dataset."
    ),
    CommandEntry(
        "thresholds",
        "service.cli.datasets.thresholds:thresholds_app",
        "Show and reset the thresholds that the stream has learned.",
    ),
    CommandEntry("topics", "service.cli.stream.topics:topics_app", "Create and describe the topics."),
)


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
    for entry in COMMANDS:
        group.add_command(LazyCommand(entry))
    return group


def main() -> None:
    """Runs a command. An error that the user can fix is one line on stderr and exit code 1, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without a character still shows the rest
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            build_command_line()()
        finally:
            if sys.stdout is not None:  # None if the caller has closed it
                sys.stdout.flush()
    except LabelwatchError as error:
        _exit_with_failure(str(error))
    except BrokenPipeError:  # the reader of a pipe has stopped, as `head` does
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
        # The interpreter flushes again as it exits. That must not fail with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if problem is not None:
        with suppress(OSError):
            print_stderr(f"labelwatch: {problem}")
    sys.exit(1)
