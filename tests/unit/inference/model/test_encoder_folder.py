from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from service.errors import ModelError
from service.inference.model.default import find_default_encoder
from service.inference.model.encoder_folder import EncoderFolder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(find_default_encoder(), tmp_path / "encoder")


def test_a_damaged_file_is_named(folder: Path) -> None:
    EncoderFolder.load(folder)
    with (folder / "model.weights").open("r+b") as file:
        file.write(b"\xff")
    with pytest.raises(ModelError, match=r"model\.weights is not the file that encoder\.json describes \(sha256 "):
        EncoderFolder.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, r"encoder\.json: .*format.*; build the encoder again"),
        ({"files": {"fast": "model.onnx"}}, "`files` names no tokenizer; build the encoder again"),
        ({"files": {"fast": "../model.onnx", "tokenizer": "tokenizer.json"}}, "must lie in its own folder"),
    ],
)
def test_a_manifest_that_cannot_be_used_says_why(folder: Path, change: dict[str, object], message: str) -> None:
    path = folder / "encoder.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError, match=message):
        EncoderFolder.load(folder)
