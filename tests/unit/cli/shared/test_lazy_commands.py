"""The command line starts without the libraries that its commands need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.commands import COMMANDS
from service.cli.main import build_command_line
from service.cli.shared.lazy_commands import CommandEntry, LazyCommand

ROOT = Path(__file__).parents[4]
HEAVY_MODULES = ("numpy", "onnxruntime", "tokenizers", "pydantic", "pydantic_settings", "fastapi", "kafka", "tqdm")
PROBE = f"""
import sys
from service.cli.main import main
try:
    main()
finally:
    print(*(name for name in {HEAVY_MODULES!r} if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [("--version",), ("--help",)], ids=" ".join)
def test_the_start_imports_no_heavy_library(arguments: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, cwd=ROOT, check=True, timeout=60
    )
    assert "label" in ran.stdout
    assert ran.stderr == "\n"


@pytest.mark.parametrize("command", ["key", "tail", "dead-letters"])
def test_a_command_that_computes_nothing_does_not_import_numpy(command: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, command, "--help"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    assert not {"numpy", "onnxruntime", "tokenizers", "fastapi", "kafka"} & set(ran.stderr.split())


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_list_of_commands_says_what_the_command_says(entry: CommandEntry) -> None:
    own_help = LazyCommand(entry).load().help or ""
    first_paragraph, _, _ = own_help.partition("\n\n")
    assert " ".join(first_paragraph.split()) == entry.help


def test_names_are_unique() -> None:
    assert list(build_command_line().commands) == [entry.name for entry in COMMANDS]


def test_a_misspelt_command_gets_a_suggestion() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from service.cli.main import main; main()", "datasest"],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "Did you mean 'datasets'?" in ran.stderr
