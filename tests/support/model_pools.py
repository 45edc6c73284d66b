"""The models of a process, for tests that have a loaded default model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from service.inference.model.pool import ModelPool
from service.inference.model.registry import ModelRegistry

if TYPE_CHECKING:
    from service.inference.classifier import Classifier

NO_REGISTRY = Path("no-registry")  # a folder that does not exist


def make_pool(classifier: Classifier, registry: Path = NO_REGISTRY) -> ModelPool:
    """The classifier as the default model, and the models of a registry, whose changes are seen at once."""
    return ModelPool(classifier.folder, ModelRegistry(registry), classifier=classifier, check_interval_s=0.0)
