"""The model registry: a folder that holds named model folders. It may be a volume that many processes share."""

from __future__ import annotations

import itertools
import shutil
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from service.contracts.base import MAX_MODEL_NAME_CHARS, MODEL_NAME_RULE, is_model_name
from service.errors import InvalidInput, LabelwatchError, ModelError
from service.inference.model.default import INCLUDED_MODELS, find_included_model, is_reserved_name, list_included_models
from service.inference.model.folder import ModelFolder
from service.inference.model.manifest import CONFIG_FILE, MANIFEST_FILE
from service.inference.model.scratch_folder import remove_folder, write_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class ModelRegistry:
    """Named model folders under one path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def list_names(self) -> list[str]:
        """The names of all models, sorted. Folders that are being written begin with a dot and are left out."""
        return sorted(folder.name for folder in self._iter_folders())

    def list_choices(self) -> list[str]:
        """The names that `resolve` takes: the models of the registry, and those that are part of labelwatch."""
        return sorted({*self.list_names(), *list_included_models()})

    def get_path(self, name: str) -> Path:
        """Where the model with this name is, or will be."""
        if not is_model_name(name):
            raise InvalidInput(f"{name!r} is not a model name: use {MODEL_NAME_RULE}", field="name")
        return self.path / name

    def find(self, name: str) -> Path:
        """The folder of a model that exists."""
        path = self.get_path(name)
        if not _is_model_folder(path):
            raise ModelError(f"{self.path} has no model {name!r}{self._describe_choices(name)}")
        return path

    def resolve(self, name: str) -> Path:
        """The folder of a model that exists: in the registry, or else one that is part of labelwatch."""
        included = None if _is_model_folder(self.get_path(name)) else find_included_model(name)
        return included or self.find(name)

    def add(self, folder: Path, name: str) -> Path:
        """Copies a model folder in, complete or not at all. It must load, and its name must be free."""
        target = self.get_path(name)
        if target.exists():
            raise InvalidInput(self._describe_taken(name), field="name")
        ModelFolder.load(folder)
        try:
            with write_folder(target) as copy:
                shutil.copytree(folder, copy, dirs_exist_ok=True)
        except FileExistsError as error:
            raise InvalidInput(self._describe_taken(name), field="name") from error
        return target

    def remove(self, name: str) -> None:
        """Removes a model. It is renamed first: a reader never sees a part of its folder."""
        remove_folder(self.find_removable(name))

    def find_removable(self, name: str) -> Path:
        """The folder of a model that can be removed: one of the registry."""
        if is_reserved_name(name) and not _is_model_folder(self.get_path(name)):
            raise ModelError(f"{name} is part of labelwatch and can't be removed: only models of {self.path} can")
        return self.find(name)

    def _iter_folders(self) -> Iterator[Path]:
        if self.path.is_dir():
            yield from (path for path in self.path.iterdir() if is_model_name(path.name) and _is_model_folder(path))

    def _describe_taken(self, name: str) -> str:
        return f"{self.path} has a model {name!r}: remove it first, or choose another name"

    def _describe_choices(self, name: str) -> str:
        names = self.list_names()
        close = get_close_matches(name, [*names, *INCLUDED_MODELS], 1)
        if not names and not close:
            return ": it is empty; `labelwatch train` or `labelwatch model add` puts one there"
        return f" (did you mean {close[0]!r}?)" if close else f": it has {', '.join(names)}"


def resolve_model(model: str, registry: ModelRegistry) -> Path:
    """The folder of a model given by its path, by its name in the registry, or as one that is part of labelwatch."""
    path = Path(model)
    if path.is_dir() or "/" in model:
        return path
    try:
        return registry.resolve(model)
    except LabelwatchError as error:
        raise ModelError(f"{model} is not a folder, and {error}") from error


def choose_version_name(dataset: str, taken: Collection[str], *, first: int = 1) -> str:
    """The first free name of the form `DATASET-vN`. A dataset's name may be longer than a model's, and begin otherwise."""
    stem = dataset.lstrip("._-") or "model"
    for number in itertools.count(first):
        suffix = f"-v{number}"
        name = stem[: MAX_MODEL_NAME_CHARS - len(suffix)] + suffix
        if name not in taken:
            return name
    raise AssertionError  # unreachable: the count has no end


def _is_model_folder(path: Path) -> bool:
    return (path / MANIFEST_FILE).is_file() or (path / CONFIG_FILE).is_file()
