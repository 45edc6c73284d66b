"""Finds the models and the encoder that are part of labelwatch: inside an installed package, or in `models/` of a checkout."""

from __future__ import annotations

from pathlib import Path

from service.errors import ModelError
from service.inference.model.encoder_folder import ENCODER_FILE
from service.inference.model.manifest import MANIFEST_FILE

PACKAGED_MODEL = Path(__file__).resolve().parents[2] / "default_model"
CHECKOUT_MODEL = Path(__file__).resolve().parents[3] / "models" / "default"
PACKAGED_ENCODER = PACKAGED_MODEL.with_name("default_encoder")
CHECKOUT_ENCODER = CHECKOUT_MODEL.with_name("encoder")
DEFAULT_MODEL_NAME = "default"  # as tables and texts show it
# Beside the default model, by the name that `--model` and the setting `model` take.
INCLUDED_MODELS = {"light": (PACKAGED_MODEL.with_name("light_model"), CHECKOUT_MODEL.with_name("light"))}


def find_default_model() -> Path:
    for folder in (PACKAGED_MODEL, CHECKOUT_MODEL):
        if (folder / MANIFEST_FILE).is_file():
            return folder
    raise ModelError(
        "this installation has no default model: name a model folder with LABELWATCH_MODEL_FOLDER, or with --model"
    )


def find_included_model(name: str) -> Path | None:
    """The folder of a model that is part of labelwatch beside the default one; None if it has no such model."""
    return next((folder for folder in INCLUDED_MODELS.get(name, ()) if (folder / MANIFEST_FILE).is_file()), None)


def list_included_models() -> list[str]:
    return [name for name in INCLUDED_MODELS if find_included_model(name) is not None]


def is_reserved_name(name: str) -> bool:
    """Whether it is what a model that is part of labelwatch is called. Nobody can name the default one by it."""
    return name == DEFAULT_MODEL_NAME or name in INCLUDED_MODELS


def find_default_encoder() -> Path:
    for folder in (PACKAGED_ENCODER, CHECKOUT_ENCODER):
        if (folder / ENCODER_FILE).is_file():
            return folder
    raise ModelError("this installation has no default encoder: name an encoder folder with --encoder")
