"""Parses command lines of `labelwatch` as the command does, without running them."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from typer.core import TyperGroup

from service.cli.main import build_command_line
from service.cli.shared.lazy_commands import LazyCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click.core import Command

VARIABLE = re.compile(r"[A-Z][A-Z_]*=")


def split_command_line(line: str) -> list[str]:
    """The words after `labelwatch`: without variables before it and a comment after it."""
    words = shlex.split(line.removesuffix("&").strip(), comments=True)
    while words and VARIABLE.match(words[0]):
        del words[0]
    assert words, line
    assert words[0].rpartition("/")[2] == "labelwatch", line
    return words[1:]


def parse_command_line(line: str) -> str:
    """The names that call the command. Raises typer's error if the command or an option does not exist."""
    command: Command = build_command_line()
    words, names = split_command_line(line), list[str]()
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        name = words.pop(0)
        command = load_command(command.commands[name])
        names.append(name)
    command.make_context(" ".join(names), words)
    return " ".join(names)


def load_command(command: Command) -> Command:
    return command.load() if isinstance(command, LazyCommand) else command


def iterate_commands() -> Iterator[tuple[str, Command]]:
    """Every command with the names that call it, groups included."""
    waiting: list[tuple[str, Command]] = [
        (name, load_command(command)) for name, command in build_command_line().commands.items()
    ]
    while waiting:
        path, command = waiting.pop(0)
        yield path, command
        if isinstance(command, TyperGroup):
            waiting += [(f"{path} {name}", each) for name, each in command.commands.items()]
