"""Commands that are imported only when they run.

All commands together import numpy, onnxruntime and the web server. `labelwatch --help` needs none of them, and
`labelwatch key new` should not wait for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from service.cli.shared.help import prepare_help

if TYPE_CHECKING:
    from typer._click.core import Command, Context


class CommandEntry(NamedTuple):
    """A command of the command line: where it is defined, and its line in the list of commands."""

    name: str
    target: str
    """`module:attribute`; the attribute is a function, or a Typer app with commands of its own."""
    help: str
    """The help of an app, or the first paragraph of the function's docstring."""
    panel: str
    """The panel of `labelwatch --help` that lists the command."""


class LazyCommand(TyperCommand):
    """Stands for a command in its group. It has only a name and a help line until it is parsed."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name, help=entry.help, rich_help_panel=entry.panel)
        self._target = entry.target

    def load(self) -> Command:
        """Imports the command and builds it."""
        module, _, attribute = self._target.partition(":")
        target = getattr(import_module(module), attribute)
        command: Command
        if isinstance(target, typer.Typer):
            command = get_group(target)
            command.help = self.help
        else:
            app = typer.Typer(add_completion=False)
            app.command(self.name)(target)
            command = get_command(app)
        prepare_help(command, self.name or "")
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Context | None = None,
        **extra: object,
    ) -> Context:
        return self.load().make_context(info_name, args, parent, **extra)
