from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows nothing, but always the same."""
    return make_model(tmp_path_factory.mktemp("tiny") / "model", "wordpiece")
