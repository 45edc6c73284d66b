"""The help of each command: no types of Python, and an example that the command accepts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from typer.core import TyperGroup

from service.cli.examples import EXAMPLES
from tests.support.command_lines import iterate_commands, parse_command_line

if TYPE_CHECKING:
    from typer._click.core import Command

    from tests.unit.cli.conftest import RunCommand

COMMANDS = dict(iterate_commands())
PYTHON_TYPE = re.compile(r"<(?:bool|str|int|float|path|file|directory|list\[[^>]*|int range|float range)>")


def is_callable(command: Command) -> bool:
    return not isinstance(command, TyperGroup) or command.invoke_without_command


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")


@pytest.mark.parametrize("path", ["", *COMMANDS])
def test_help_has_no_types_of_python(run: RunCommand, path: str) -> None:
    ran = run(*path.split(), "--help")
    assert ran.code == 0, ran.err
    assert "Show this message and exit." in ran.out
    assert PYTHON_TYPE.search(ran.out) is None


@pytest.mark.parametrize("path", [path for path, command in COMMANDS.items() if is_callable(command)])
def test_help_has_an_example_that_parses(run: RunCommand, path: str) -> None:
    assert path in EXAMPLES, f"add an example of `labelwatch {path}` to service/cli/examples.py"
    assert parse_command_line(EXAMPLES[path]) == path
    assert f"Example: {EXAMPLES[path]}" in run(*path.split(), "--help").out


def test_every_example_belongs_to_a_command() -> None:
    assert set(EXAMPLES) <= set(COMMANDS)


def test_paragraphs_have_no_fixed_line_breaks(run: RunCommand) -> None:
    assert "Exit codes: 0 done, 1 the input or the model can't be used" in run("score", "--help").out


def test_choices_of_an_argument_are_shown(run: RunCommand) -> None:
    assert "review|dead-letters|scores" in run("tail", "--help").out
