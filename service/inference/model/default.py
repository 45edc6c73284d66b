"""Finds the default model: inside an installed package, or in `models/` of a checkout."""

from __future__ import annotations

from pathlib import Path

from service.errors import ModelError
from service.inference.model.manifest import MANIFEST_FILE

PACKAGED_MODEL = Path(__file__).resolve().parents[2] / "default_model"
CHECKOUT_MODEL = Path(__file__).resolve().parents[3] / "models" / "default"


def find_default_model() -> Path:
    for folder in (PACKAGED_MODEL, CHECKOUT_MODEL):
        if (folder / MANIFEST_FILE).is_file():
            return folder
    raise ModelError("this installation has no default model: name a model folder with --model")
