"""The examples of docs/stream.md: blocks marked `sh` run in order, blocks marked `bash` need a broker or a terminal."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from service.contracts import DatasetSettings, read_sentence
from service.settings import Settings
from tests.support.command_harness import ROOT, CommandHarness

if TYPE_CHECKING:
    from pathlib import Path

TEXT = (ROOT / "docs" / "stream.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def harness(
    tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandHarness:
    monkeypatch.chdir(ROOT)
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def test_examples_run(harness: CommandHarness) -> None:
    commands = 0
    for kind, block in BLOCKS:
        for line in block.splitlines() if kind == "sh" else ():
            words = shlex.split(line.replace("models/default", str(harness.model)))
            variables = dict(word.split("=", 1) for word in words if word.startswith("LABELWATCH_"))
            name, *arguments = words[len(variables) :]
            assert name == "labelwatch"
            result = harness.run(*arguments, **variables)
            assert result.code == 0, f"{line}\n{result.err}"
            commands += 1
    assert commands >= 20


def test_messages_are_valid() -> None:
    values = [block for kind, block in BLOCKS if kind == "json"]
    read_sentence(values[0])
    settings = DatasetSettings.model_validate_json(values[1])
    assert settings.flag_policy is not None
    assert settings.flag_policy.kind == "budget"


def test_named_dataset_settings_exist() -> None:
    rows = re.search(r"\| setting \| default.*?\n(?=\n)", TEXT, re.DOTALL)
    assert rows is not None
    named = {name for row in rows[0].splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named <= set(DatasetSettings.model_fields)
    assert named >= {"label_map", "flag_policy", "control_share", "forget_after_days"}


def test_named_settings_exist() -> None:
    groups = {name: set(type(group).model_fields) for name, group in Settings() if group is not None}
    for group, name in re.findall(r"`LABELWATCH_(LOG|TOPICS|WORKER|MODEL)_([A-Z_]+)", TEXT):
        assert name.lower() in groups[group.lower()]
