from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.datasets.registry import DatasetRegistry
from service.inference.model.folder import ModelFolder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def registry(tiny_model: Path) -> DatasetRegistry:
    return DatasetRegistry(ModelFolder.load(tiny_model), min_words=1, prior_words=0)
