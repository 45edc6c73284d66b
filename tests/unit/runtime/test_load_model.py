from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.errors import ModelError
from service.inference.model.registry import ModelRegistry
from service.runtime.load_model import load_model_folder
from service.settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path


def test_the_settings_name_a_model_by_its_folder_or_by_its_name_in_the_registry(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABELWATCH_MODELS_PATH", str(tmp_path / "models"))
    ModelRegistry(tmp_path / "models").add(tiny_model, "tiny")
    for model in (str(tiny_model), "tiny"):
        monkeypatch.setenv("LABELWATCH_MODEL_FOLDER", model)
        assert load_model_folder(read_settings()).labels
    monkeypatch.setenv("LABELWATCH_MODEL_FOLDER", "tinny")
    with pytest.raises(ModelError, match=r"has no model 'tinny' \(did you mean 'tiny'\?\)"):
        load_model_folder(read_settings())
