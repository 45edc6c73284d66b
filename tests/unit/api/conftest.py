from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from tests.support.api_harness import ApiHarness, api_harness
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session", autouse=True)
def _stop_quickly() -> Iterator[None]:
    """The idle thread of the model checks often whether to stop: most tests end one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.api.batching.batcher.IDLE_POLL_INTERVAL_S", 0.005)
        yield


@pytest.fixture(scope="session")
def tiny_classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece")))


@pytest.fixture
def harness(tmp_path: Path, tiny_classifier: Classifier) -> Iterator[ApiHarness]:
    with api_harness(tmp_path, tiny_classifier) as made:
        yield made


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory, tiny_classifier: Classifier) -> Iterator[ApiHarness]:
    """Shared by all tests of a module; they change nothing."""
    with api_harness(tmp_path_factory.mktemp("quiet"), tiny_classifier) as made:
        yield made
