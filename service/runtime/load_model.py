"""Loads the models that a command or the settings name."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.errors import ModelError
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.inference.model.pool import ModelPool
from service.inference.model.registry import ModelRegistry, resolve_model
from service.inference.providers import parse_providers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.contracts import DatasetSettings
    from service.inference.classifier import Classifier
    from service.inference.model.folder import Precision
    from service.settings import Settings
    from service.telemetry import Telemetry


def find_model(model: str | None, settings: Settings) -> Path:
    """The folder of a model by its name in the registry or by its path; None: the one that the settings name, or the default."""
    if model is None and settings.model.folder is None:
        return find_default_model()
    return resolve_model(model or str(settings.model.folder), ModelRegistry(settings.models.path))


@contextmanager
def name_model_origin(model: str | None, settings: Settings, *, option: str | None = "--model") -> Iterator[None]:
    """Errors name what has chosen the model: the option, or the setting. `option` is None for an argument."""
    setting = None if settings.model.folder is None else "LABELWATCH_MODEL_FOLDER"
    origin = setting if model is None else option
    try:
        yield
    except ModelError as error:
        if origin is None:
            raise
        raise ModelError(f"{origin}: {error}") from error


def load_model_folder(
    settings: Settings, model: str | None = None, *, precision: Precision | None = None
) -> ModelFolder:
    """Loads the model that `--model` names, or else the one that the settings name, or else the default model.

    A model is named by its folder, or by its name in the registry. `precision`: instead of that of the settings.
    """
    with name_model_origin(model, settings):
        return ModelFolder.load(find_model(model, settings), precision=precision or settings.model.precision)


def load_dataset_model(settings: Settings, dataset: DatasetSettings, precision: Precision | None = None) -> ModelFolder:
    """The model that judges the dataset in the service, with the expected contents. `precision`: instead of the service's."""
    folder = build_model_pool(settings).get_folder(dataset.model, dataset.model_fingerprint)
    return folder if precision in (None, folder.precision) else ModelFolder.load(folder.path, precision=precision)


def build_model_pool(
    settings: Settings, default: ModelFolder | None = None, *, telemetry: Telemetry | None = None
) -> ModelPool:
    """The models of a process; none is loaded yet. `default`: a loaded folder instead of the one in the settings.

    `telemetry` gets the names of the models that are loaded, and measures their runs.
    """

    def register(classifier: Classifier) -> None:
        if telemetry is not None:
            classifier.observe_runs(telemetry.observe_model_run)
            telemetry.add_model(classifier.folder.name, classifier.folder.fingerprint)

    def unregister(classifier: Classifier) -> None:
        if telemetry is not None:
            telemetry.remove_model(classifier.folder.name, classifier.folder.fingerprint)

    return ModelPool(
        default or load_model_folder(settings),
        ModelRegistry(settings.models.path),
        threads=settings.model.threads,
        providers=parse_providers(settings.model.providers),
        max_loaded=settings.models.max_loaded,
        on_load=register,
        on_close=unregister,
    )
