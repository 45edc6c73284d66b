from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.datasets.registry import DatasetRegistry
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from tests.support.model_pools import make_pool

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def registry(tiny_model: Path) -> DatasetRegistry:
    return DatasetRegistry(make_pool(Classifier(ModelFolder.load(tiny_model))), min_words=1, prior_words=0)
