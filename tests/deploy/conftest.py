from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.deploy import monitored as setup

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[setup.Monitored]:
    """The service with a sample stream, and a Prometheus that scrapes it."""
    with setup.monitored(tmp_path_factory.mktemp("monitored")) as made:
        yield made
