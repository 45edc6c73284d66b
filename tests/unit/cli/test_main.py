from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.cli import main as cli
from service.errors import InvalidInput

if TYPE_CHECKING:
    from tests.unit.cli.conftest import RunCommand

FULL = Path("/dev/full")
ROOT = Path(__file__).parents[3]


def run_process(
    *arguments: object, stdout: int, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """A process of its own, since the test covers what happens to its standard streams as it exits."""
    command = [sys.executable, "-c", "from service.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(
        command,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | (environment or {}),
        check=False,
        timeout=300,
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.txt"
    path.write_text("Ann B-PER\nsaw O\n\n" * 30)
    return path


@pytest.mark.parametrize("extra", [[], ["-o", "-"], ["-o", "/dev/full"]])
def test_a_full_disk_is_one_line(tiny_model: Path, data: Path, extra: list[str]) -> None:
    with FULL.open("wb") as full:
        ran = run_process("score", data, "--model", tiny_model, "--threads", 1, *extra, stdout=full.fileno())
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"labelwatch: ")
    assert ran.stderr.endswith(b"No space left on device\n")
    assert ran.stderr.count(b"\n") == 1


def test_help_that_cannot_be_written() -> None:
    with FULL.open("wb") as full:
        ran = run_process("--help", stdout=full.fileno())
    assert (ran.returncode, ran.stderr) == (1, b"labelwatch: No space left on device\n")


@pytest.mark.parametrize("extra", [[], ["-o", "-"]])
def test_a_closed_pipe_prints_no_error(tiny_model: Path, data: Path, extra: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        ran = run_process("score", data, "--model", tiny_model, "--threads", 1, *extra, stdout=write_end)
    finally:
        os.close(write_end)
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_characters_that_the_terminal_lacks_are_escaped(tiny_model: Path, data: Path) -> None:
    data.write_text("Zo\u2192\u00eb B-PER\n" * 3, encoding="utf-8")
    ran = run_process(
        "score", data, "--model", tiny_model, "--threads", 1,
        stdout=subprocess.PIPE, environment={"PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert b"Zo\\u2192\xeb" in ran.stdout


def test_errors_hold_no_control_characters(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise InvalidInput("label \x1b[2J\nlabelwatch: all is well")

    monkeypatch.setattr(cli, "build_command_line", lambda: fail)
    ran = run()
    assert (ran.code, ran.err) == (1, "labelwatch: label \ufffd[2J\ufffdlabelwatch: all is well\n")


def test_a_file_that_fails_is_named(run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error", "disk/x")

    monkeypatch.setattr(cli, "build_command_line", lambda: fail)
    ran = run()
    assert (ran.code, ran.err) == (1, "labelwatch: disk/x: Input/output error\n")


@pytest.mark.parametrize("arguments", [("tail", "all"), ("key", "new", "x", "--scope", "all")], ids=" ".join)
def test_a_bad_choice_is_reported_without_the_prefix_of_the_library(
    run: RunCommand, arguments: tuple[str, ...]
) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert "'all' is not one of" in ran.err
    assert "Value error" not in ran.err
