"""Loads the model folder that a command or the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import ModelError
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.inference.model.registry import ModelRegistry, resolve_model

if TYPE_CHECKING:
    from pathlib import Path

    from service.settings import Settings

NO_MODEL_MESSAGE = "this installation has no default model: set LABELWATCH_MODEL_FOLDER to a model folder"


def find_model(model: str | None, settings: Settings) -> Path:
    """The folder of a model by its name in the registry or by its path; None is the default model."""
    return find_default_model() if model is None else resolve_model(model, ModelRegistry(settings.models.path))


def load_model_folder(settings: Settings, folder: Path | None = None) -> ModelFolder:
    """Loads `folder`, or else the model that the settings name, or else the default model.

    A model is named by its folder, or by its name in the registry.
    """
    model = folder or settings.model.folder
    if model is not None:
        path = find_model(str(model), settings)
    else:
        try:
            path = find_default_model()
        except ModelError as error:
            raise ModelError(NO_MODEL_MESSAGE) from error
    return ModelFolder.load(path, precision=settings.model.precision)
