from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pytest

from service.cli.main import main
from tests.support.command_harness import CommandHarness

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str


class RunCommand(Protocol):
    def __call__(self, *arguments: object) -> CommandResult: ...


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> RunCommand:
    """Runs `labelwatch ARGUMENTS` in this process, as the installed command does."""

    def call(*arguments: object) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["labelwatch", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        sys.stdout.flush()
        out, err = capfd.readouterr()
        code = ended.value.code
        return CommandResult(code if isinstance(code, int) else int(code is not None), out, err)

    return call


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    """The commands on an embedded log, with the real worker and a tiny model."""
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)
