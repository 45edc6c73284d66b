"""The help of commands: no types of Python, paragraphs without fixed line breaks, and an example at the end.

Typer shows the type of each parameter. `<bool>` after a flag and `<list[str]>` after FILE say nothing to a user, so flags
and arguments show only their name. Options with a value name it (`metavar`), or list the choices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from service.cli.examples import EXAMPLES

if TYPE_CHECKING:
    from typer._click.core import Command, Context


class PlainArgument(TyperArgument):
    """An argument whose help shows its name and, if it has any, its choices."""

    def display_type_rich(self, ctx: Context) -> str | None:
        return super().display_type_rich(ctx) if self.type_descriptor.is_choice else None


def prepare_help(command: Command, path: str) -> None:
    """Prepares the help of a command and of the commands below it. `path`: the names that call it, without labelwatch."""
    for parameter in (*command.params, command.get_help_option(typer.Context(command))):
        if isinstance(parameter, TyperArgument):
            parameter.__class__ = PlainArgument
        elif isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
    if command.help is not None:
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
    if path in EXAMPLES:
        command.epilog = f"Example: {EXAMPLES[path]}"
    if isinstance(command, TyperGroup):
        for name, subcommand in command.commands.items():
            prepare_help(subcommand, f"{path} {name}")
