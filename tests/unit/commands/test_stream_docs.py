"""The examples of docs/stream.md: those marked `sh` and `python` run in their order, those marked `bash` need more."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from service.contracts import DatasetSettings, read_sentence
from service.settings import Settings
from tests.stream_desk import ROOT, Desk

if TYPE_CHECKING:
    from pathlib import Path

TEXT = (ROOT / "docs" / "stream.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def desk(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(ROOT)
    return Desk(tmp_path, tiny_model, capfd=capfd)


def test_the_examples_run(desk: Desk) -> None:
    ran = 0
    for kind, block in BLOCKS:
        if kind == "python":
            exec(block.replace(".labelwatch/log.sqlite", str(desk.log)), {})  # noqa: S102 - our own text
        for line in block.splitlines() if kind == "sh" else ():
            words = shlex.split(line.replace("models/default", str(desk.model)))
            variables = dict(word.split("=", 1) for word in words if word.startswith("LABELWATCH_"))
            name, *arguments = words[len(variables) :]
            assert name == "labelwatch"
            done = desk.run(*arguments, **variables)
            assert done.code == 0, f"{line}\n{done.err}"
            ran += 1
    assert ran >= 15


def test_the_messages_are_valid() -> None:
    values = [block for kind, block in BLOCKS if kind == "json"]
    read_sentence(values[0])
    settings = DatasetSettings.model_validate_json(values[1])
    assert settings.flag_policy.kind == "budget"


def test_the_settings_are_those_there_are() -> None:
    groups = {name: set(type(group).model_fields) for name, group in Settings() if group is not None}
    for group, name in re.findall(r"`LABELWATCH_(LOG|TOPICS|WORKER|MODEL)_([A-Z_]+)", TEXT):
        assert name.lower() in groups[group.lower()]
