from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from tests.support.tiny_models import TokenizerKind, make_model

if TYPE_CHECKING:
    from pathlib import Path


class MakeFolder(Protocol):
    def __call__(self, kind: TokenizerKind, **options: Any) -> Path: ...


class MakeClassifier(Protocol):
    def __call__(self, kind: TokenizerKind, **options: Any) -> Classifier: ...


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> MakeFolder:
    """Tiny models by their options, each made once. Who changes one copies it first."""
    folders: dict[str, Path] = {}

    def make(kind: TokenizerKind, **options: Any) -> Path:
        key = repr((kind, sorted(options.items())))
        if key not in folders:
            folders[key] = make_model(tmp_path_factory.mktemp("model") / kind, kind, **options)
        return folders[key]

    return make


@pytest.fixture(scope="session")
def classifier_of(folder_of: MakeFolder) -> MakeClassifier:
    loaded: dict[str, Classifier] = {}

    def make(kind: TokenizerKind, **options: Any) -> Classifier:
        key = repr((kind, sorted(options.items())))
        if key not in loaded:
            loaded[key] = Classifier(ModelFolder.load(folder_of(kind, **options)))
        return loaded[key]

    return make
