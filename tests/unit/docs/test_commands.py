"""Every command line of README and docs/ parses; those of README and docs/audit.md also run."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.command_harness import CommandHarness
from tests.support.command_lines import parse_command_line, split_command_line
from tests.support.docs_pages import DOCS, ROOT, read_code_blocks, strip_code_blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("models/**/*.md")])
COMMAND = re.compile(r"^(?:    )?((?:[A-Z][A-Z_]*=\S* )*(?:\.venv/bin/)?labelwatch [^|>\n]*)", re.MULTILINE)
FENCED = re.compile(r"^```(?:sh|bash)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
PLACEHOLDER = "…"


def find_code(text: str) -> list[str]:
    """Blocks of shell commands, fenced or indented."""
    return [*FENCED.findall(text), *INDENTED.findall(strip_code_blocks(text))]


def list_commands(text: str) -> list[str]:
    """The lines of code that call labelwatch."""
    return [line.strip() for block in find_code(text) for line in COMMAND.findall(block)]


LINES = [(page.relative_to(ROOT).as_posix(), line) for page in PAGES for line in list_commands(page.read_text())]


@pytest.mark.parametrize(("page", "line"), LINES, ids=lambda value: value[:60])
def test_command_parses(page: str, line: str) -> None:
    if PLACEHOLDER in line.replace(f"={PLACEHOLDER}", ""):
        pytest.fail(f"{page}: {line}: write a whole command")
    assert parse_command_line(line), f"{page}: {line}"


def test_there_are_commands() -> None:
    assert len(LINES) > 60


@pytest.fixture
def harness(
    tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandHarness:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "models" / "sample", tmp_path / "models" / "sample")
    shutil.copytree(tiny_model, tmp_path / "models" / "default")
    shutil.copyfile(ROOT / "models" / "sample" / "sample.tsv", tmp_path / "my.conll")
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def test_commands_of_the_audit_page_run(harness: CommandHarness) -> None:
    lines = [line for kind, block in read_code_blocks("audit.md") if kind == "sh" for line in block.splitlines()]
    assert len(lines) >= 6
    for line in lines:
        result = harness.run(*split_command_line(line))
        assert result.code == 0, f"{line}\n{result.err}"
    for name in ("report.html", "ranked.jsonl", "ranked.csv", "results/tables.md"):
        assert (harness.folder / name).stat().st_size > 0, name


def test_commands_of_the_readme_run(harness: CommandHarness) -> None:
    lines = list_commands((ROOT / "README.md").read_text())
    assert {line.split()[1] for line in lines} == {"score", "train"}
    for line in lines:
        result = harness.run(*split_command_line(line))
        assert result.code == 0, f"{line}\n{result.err}"
    assert (harness.folder / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_targets_of_make_exist(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    inline = re.findall(r"`(?:[A-Z_]+=\S+ )?make ([a-z-]+)[^`\n]*`", strip_code_blocks(text))
    in_blocks = [name for block in find_code(text) for name in re.findall(r"^ *make ([a-z-]+)", block, re.MULTILINE)]
    assert {*inline, *in_blocks} <= targets
